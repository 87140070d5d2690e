//! JSON as a stream of tokens from a reader, so that a document of gigabytes needs a buffer and no tree.

use std::io::Read;

use crate::error::Error;

/// The deepest nesting of arrays and objects.
const MAX_DEPTH: usize = 128;
const BUFFER: usize = 256 << 10;

/// A value of a small part of a document. Members keep their order; of equal names the last counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The text of a number, as it stands in the document.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members
                .iter()
                .rev()
                .find(|(it, _)| it == name)
                .map(|(_, it)| it),
            _ => None,
        }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Appends the value without blanks.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(it) => out.push_str(if *it { "true" } else { "false" }),
            Self::Number(text) => out.push_str(text),
            Self::Text(text) => write_text(out, text),
            Self::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_text(out, name);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Parses a whole document.
    pub(crate) fn parse(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = JsonReader::new(path, bytes);
        let value = reader.value(0)?;
        reader.end()?;
        Ok(value)
    }
}

/// Appends a text in quotes.
pub(crate) fn write_text(out: &mut String, text: &str) {
    use std::fmt::Write;
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest
        .bytes()
        .position(|it| it < 0x20 || it == b'"' || it == b'\\')
    {
        out.push_str(rest.get(..at).unwrap_or_default());
        match rest.as_bytes().get(at) {
            Some(b'"') => out.push_str("\\\""),
            Some(b'\\') => out.push_str("\\\\"),
            Some(b'\n') => out.push_str("\\n"),
            Some(b'\r') => out.push_str("\\r"),
            Some(b'\t') => out.push_str("\\t"),
            Some(it) => {
                let _ = write!(out, "\\u{it:04x}");
            }
            None => {}
        }
        rest = rest.get(at + 1..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends a text in quotes as ujson writes it, in ASCII and with `\\/`: bytes of inlined objects are those that fsspec gives.
fn write_ascii(out: &mut String, text: &str) {
    use std::fmt::Write;
    out.push('"');
    for it in text.chars() {
        match it {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(it),
            it => {
                for unit in it.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// What a value begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Array,
    Object,
    Other,
}

/// Reads a document token by token.
pub(crate) struct JsonReader<R> {
    source: R,
    path: String,
    buffer: Vec<u8>,
    at: usize,
    /// Bytes before the buffer.
    before: u64,
    is_done: bool,
}

impl<R> std::fmt::Debug for JsonReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "JsonReader({} at {})",
            self.path,
            self.before + self.at as u64
        )
    }
}

impl<R: Read> JsonReader<R> {
    pub(crate) fn new(path: &str, source: R) -> Self {
        Self {
            source,
            path: path.to_owned(),
            buffer: Vec::new(),
            at: 0,
            before: 0,
            is_done: false,
        }
    }

    pub(crate) fn fault(&self, reason: impl std::fmt::Display) -> Error {
        let at = self.before + self.at as u64;
        Error::corrupt(&self.path, format!("not JSON at byte {at}: {reason}"))
    }

    /// Reads more bytes behind those of the buffer that were not consumed; false at the end.
    #[cold]
    fn refill(&mut self) -> Result<bool, Error> {
        if self.is_done {
            return Ok(false);
        }
        self.buffer.drain(..self.at);
        self.before += self.at as u64;
        self.at = 0;
        let kept = self.buffer.len();
        self.buffer.resize(kept + BUFFER, 0);
        let mut filled = kept;
        while filled < self.buffer.len() {
            match self
                .source
                .read(self.buffer.get_mut(filled..).unwrap_or_default())
            {
                Ok(0) => {
                    self.is_done = true;
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.buffer.truncate(filled);
                    return Err(Error::corrupt(
                        &self.path,
                        format!("cannot be read: {error}"),
                    ));
                }
            }
        }
        self.buffer.truncate(filled);
        Ok(filled > kept)
    }

    #[inline]
    fn byte(&mut self) -> Result<Option<u8>, Error> {
        loop {
            if let Some(it) = self.buffer.get(self.at) {
                return Ok(Some(*it));
            }
            if !self.refill()? {
                return Ok(None);
            }
        }
    }

    /// The next byte that is not blank, which stays.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, Error> {
        loop {
            match self.byte()? {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                Some(it) => return Ok(it),
                None => return Err(self.fault("the document ends too early")),
            }
        }
    }

    pub(crate) fn kind(&mut self) -> Result<Kind, Error> {
        Ok(match self.peek()? {
            b'"' => Kind::Text,
            b'[' => Kind::Array,
            b'{' => Kind::Object,
            _ => Kind::Other,
        })
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Error> {
        let found = self.peek()?;
        if found != wanted {
            return Err(self.fault(format!(
                "{:?} is expected, not {:?}",
                char::from(wanted),
                char::from(found)
            )));
        }
        self.at += 1;
        Ok(())
    }

    /// Skips blanks to the end of the document.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        while let Some(it) = self.byte()? {
            if !it.is_ascii_whitespace() {
                return Err(self.fault("more follows the document"));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Begins an array or object; true when it has a first item.
    pub(crate) fn open(&mut self, open: u8, close: u8) -> Result<bool, Error> {
        self.expect(open)?;
        let is_empty = self.peek()? == close;
        self.at += usize::from(is_empty);
        Ok(!is_empty)
    }

    /// After an item: true when another follows.
    #[inline]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, Error> {
        let found = self.peek()?;
        if found == b',' {
            self.at += 1;
            return Ok(true);
        }
        self.expect(close)?;
        Ok(false)
    }

    /// The name of a member, with the colon, into `out`.
    pub(crate) fn name(&mut self, out: &mut String) -> Result<(), Error> {
        self.text(out)?;
        self.expect(b':')
    }

    /// A text into `out`, which is cleared. Lone surrogates become U+FFFD.
    pub(crate) fn text(&mut self, out: &mut String) -> Result<(), Error> {
        out.clear();
        self.expect(b'"')?;
        loop {
            let tail = self.buffer.get(self.at..).unwrap_or_default();
            let stop = end_of_plain(tail);
            // A character may be cut by the end of the buffer: only whole ones are taken.
            let taken = match stop {
                Some(at) => at,
                None => whole_characters(tail),
            };
            let part = tail.get(..taken).unwrap_or_default();
            match std::str::from_utf8(part) {
                Ok(part) => out.push_str(part),
                Err(_) => return Err(self.fault("a text is not UTF-8")),
            }
            self.at += taken;
            match stop.and_then(|_| self.buffer.get(self.at).copied()) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(out)?;
                }
                Some(_) => return Err(self.fault("a text has a control character")),
                None => {
                    if !self.refill()? {
                        return Err(self.fault("a text has no end"));
                    }
                }
            }
        }
    }

    fn next(&mut self) -> Result<u8, Error> {
        let it = self.byte()?;
        let it = it.ok_or_else(|| self.fault("the document ends too early"))?;
        self.at += 1;
        Ok(it)
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = char::from(self.next()?).to_digit(16);
            value = value * 16 + digit.ok_or_else(|| self.fault("a text has a broken escape"))?;
        }
        Ok(value)
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Error> {
        match self.next()? {
            b'n' => out.push('\n'),
            b't' => out.push('\t'),
            b'r' => out.push('\r'),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            it @ (b'"' | b'\\' | b'/') => out.push(char::from(it)),
            b'u' => {
                let mut code = self.hex()?;
                while (0xd800..0xdc00).contains(&code) {
                    let is_pair = self.byte()? == Some(b'\\');
                    if !is_pair {
                        break;
                    }
                    self.at += 1;
                    if self.byte()? != Some(b'u') {
                        out.push('\u{fffd}');
                        return self.escape(out);
                    }
                    self.at += 1;
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                    } else {
                        out.push('\u{fffd}');
                        code = low;
                    }
                }
                out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            _ => return Err(self.fault("a text has a broken escape")),
        }
        Ok(())
    }

    /// The integer that comes next, if it is one of at most 18 digits whose end is in the buffer; otherwise nothing is taken.
    #[inline]
    pub(crate) fn short_integer(&mut self) -> Option<i64> {
        let tail = self.buffer.get(self.at..)?;
        let is_negative = tail.first() == Some(&b'-');
        let digits = tail.get(usize::from(is_negative)..)?;
        let mut value = 0_i64;
        let mut count = 0;
        while let Some(digit) = digits.get(count).filter(|it| it.is_ascii_digit()) {
            if count == 18 {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            count += 1;
        }
        let is_whole = matches!(
            digits.get(count),
            Some(b',' | b']' | b' ' | b'\n' | b'\r' | b'\t')
        );
        if !is_whole || count == 0 || (count > 1 && digits.first() == Some(&b'0')) {
            return None;
        }
        self.at += count + usize::from(is_negative);
        Some(if is_negative { -value } else { value })
    }

    /// A number or word into `out`, which is cleared.
    pub(crate) fn word(&mut self, out: &mut String) -> Result<(), Error> {
        out.clear();
        self.peek()?;
        while let Some(it) = self.byte()? {
            if !it.is_ascii_alphanumeric() && !matches!(it, b'+' | b'-' | b'.') {
                break;
            }
            if out.len() > 4096 {
                return Err(self.fault("a number is too long"));
            }
            out.push(char::from(it));
            self.at += 1;
        }
        if matches!(
            out.as_str(),
            "null" | "true" | "false" | "NaN" | "Infinity" | "-Infinity"
        ) || is_number(out)
        {
            return Ok(());
        }
        Err(self.fault(format!("{out:?} is no value")))
    }

    /// Appends a value without blanks; numbers stay as they stand in the document.
    pub(crate) fn compact(&mut self, out: &mut String, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.fault("arrays and objects are nested too deeply"));
        }
        let mut part = String::new();
        match self.kind()? {
            Kind::Text => {
                self.text(&mut part)?;
                write_ascii(out, &part);
            }
            Kind::Other => {
                self.word(&mut part)?;
                out.push_str(&part);
            }
            Kind::Array => {
                out.push('[');
                let mut has_item = self.open(b'[', b']')?;
                while has_item {
                    self.compact(out, depth + 1)?;
                    has_item = self.more(b']')?;
                    if has_item {
                        out.push(',');
                    }
                }
                out.push(']');
            }
            Kind::Object => {
                out.push('{');
                let mut has_item = self.open(b'{', b'}')?;
                while has_item {
                    self.name(&mut part)?;
                    write_ascii(out, &part);
                    out.push(':');
                    self.compact(out, depth + 1)?;
                    has_item = self.more(b'}')?;
                    if has_item {
                        out.push(',');
                    }
                }
                out.push('}');
            }
        }
        Ok(())
    }

    /// Skips a value.
    pub(crate) fn skip(&mut self, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(self.fault("arrays and objects are nested too deeply"));
        }
        let mut part = String::new();
        match self.kind()? {
            Kind::Text => self.text(&mut part),
            Kind::Other => self.word(&mut part),
            Kind::Array => {
                let mut has_item = self.open(b'[', b']')?;
                while has_item {
                    self.skip(depth + 1)?;
                    has_item = self.more(b']')?;
                }
                Ok(())
            }
            Kind::Object => {
                let mut has_item = self.open(b'{', b'}')?;
                while has_item {
                    self.name(&mut part)?;
                    self.skip(depth + 1)?;
                    has_item = self.more(b'}')?;
                }
                Ok(())
            }
        }
    }

    /// A value as a tree.
    pub(crate) fn value(&mut self, depth: usize) -> Result<Json, Error> {
        if depth > MAX_DEPTH {
            return Err(self.fault("arrays and objects are nested too deeply"));
        }
        let mut part = String::new();
        Ok(match self.kind()? {
            Kind::Text => {
                self.text(&mut part)?;
                Json::Text(part)
            }
            Kind::Other => {
                self.word(&mut part)?;
                match part.as_str() {
                    "null" => Json::Null,
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    _ => Json::Number(part),
                }
            }
            Kind::Array => {
                let mut items = Vec::new();
                let mut has_item = self.open(b'[', b']')?;
                while has_item {
                    items.push(self.value(depth + 1)?);
                    has_item = self.more(b']')?;
                }
                Json::Array(items)
            }
            Kind::Object => {
                let mut members: Vec<(String, Json)> = Vec::new();
                let mut has_item = self.open(b'{', b'}')?;
                while has_item {
                    self.name(&mut part)?;
                    let value = self.value(depth + 1)?;
                    members.push((std::mem::take(&mut part), value));
                    has_item = self.more(b'}')?;
                }
                Json::Object(members)
            }
        })
    }
}

/// The place of the first quote, backslash or control character.
#[inline]
fn end_of_plain(bytes: &[u8]) -> Option<usize> {
    let stop = memchr::memchr2(b'"', b'\\', bytes);
    let plain = stop.and_then(|at| bytes.get(..at)).unwrap_or(bytes);
    // Control characters are rare: the test of a whole text for one is vectorised, the search is not.
    if plain.iter().fold(false, |found, it| found | (*it < 0x20)) {
        return plain.iter().position(|it| *it < 0x20);
    }
    stop
}

/// The bytes before a character that the end cuts.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for at in (tail..bytes.len()).rev() {
        let it = bytes.get(at).copied().unwrap_or_default();
        let length = match it {
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..=0xff => 4,
            _ => continue,
        };
        return if at + length > bytes.len() {
            at
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

fn is_number(text: &str) -> bool {
    let body = text.strip_prefix('-').unwrap_or(text);
    let begins_well = body.bytes().next().is_some_and(|it| it.is_ascii_digit());
    let has_zero_prefix = body.len() > 1
        && body.starts_with('0')
        && body.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    begins_well && !has_zero_prefix && !body.ends_with('.') && text.parse::<f64>().is_ok()
}
