//! Cuts templates into text and blocks, and blocks into tokens, as Jinja's lexer does.

use crate::error::Fault;
use crate::lang::number::{parse_int, without_underscores};

/// A token of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    Name(String),
    Text(String),
    Int(i128),
    Float(f64),
    Symbol(&'static str),
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    /// `{{ ... }}`
    Output(Vec<Token>),
    /// `{% ... %}`
    Statement(Vec<Token>),
}

// Longer symbols come first.
const SYMBOLS: [&str; 27] = [
    "//", "**", "==", "!=", "<=", ">=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    "<", ">", "=", ".", ":", "|", ",", ";", "!",
];

/// Cuts a template into its pieces.
pub(crate) fn pieces(source: &str) -> Result<Vec<Piece>, Fault> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    // Jinja drops one newline at the end.
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut pieces = Vec::new();
    let mut rest = source;
    let mut strips_next = false;
    loop {
        let begin = ["{{", "{%", "{#"]
            .iter()
            .filter_map(|it| rest.find(it))
            .min();
        let (text, block) = rest.split_at(begin.unwrap_or(rest.len()));
        let mut text = text;
        if strips_next {
            text = text.trim_start();
        }
        if block.get(2..).is_some_and(|it| it.starts_with('-')) {
            text = text.trim_end();
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        if block.is_empty() {
            return Ok(pieces);
        }
        let (kind, inner) = block.split_at(2);
        let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
        (rest, strips_next) = match kind {
            "{#" => comment(inner)?,
            "{%" => match raw(inner)? {
                Some((text, rest, strips)) => {
                    if !text.is_empty() {
                        pieces.push(Piece::Text(text));
                    }
                    (rest, strips)
                }
                None => {
                    let (tokens, rest, strips) = tokens(inner, "%}")?;
                    pieces.push(Piece::Statement(tokens));
                    (rest, strips)
                }
            },
            _ => {
                let (tokens, rest, strips) = tokens(inner, "}}")?;
                if tokens.is_empty() {
                    return Err(Fault::value("an expression is empty"));
                }
                pieces.push(Piece::Output(tokens));
                (rest, strips)
            }
        };
    }
}

fn comment(inner: &str) -> Result<(&str, bool), Fault> {
    let end = inner
        .find("#}")
        .ok_or_else(|| Fault::value("a comment has no end: write #}"))?;
    let (body, rest) = inner.split_at(end);
    Ok((rest.get(2..).unwrap_or_default(), body.ends_with('-')))
}

type Raw<'a> = Option<(String, &'a str, bool)>;

/// The text of `{% raw %} ... {% endraw %}`, if `inner` begins one.
fn raw(inner: &str) -> Result<Raw<'_>, Fault> {
    let Some(after) = inner.trim_start().strip_prefix("raw") else {
        return Ok(None);
    };
    let after = after.trim_start();
    let (strips_start, body) = match (after.strip_prefix("-%}"), after.strip_prefix("%}")) {
        (Some(body), _) => (true, body),
        (None, Some(body)) => (false, body),
        (None, None) => return Ok(None),
    };
    let mut from = 0;
    while let Some(found) = body.get(from..).and_then(|it| it.find("{%")) {
        let begin = from + found;
        let tail = body.get(begin + 2..).unwrap_or_default();
        let strips_end = tail.starts_with('-');
        let tail = tail.strip_prefix(['-', '+']).unwrap_or(tail).trim_start();
        if let Some(tail) = tail.strip_prefix("endraw") {
            let tail = tail.trim_start();
            let strips_next = tail.starts_with('-');
            let tail = tail.strip_prefix('-').unwrap_or(tail);
            if let Some(rest) = tail.strip_prefix("%}") {
                let mut text = body.get(..begin).unwrap_or_default();
                if strips_start {
                    text = text.trim_start();
                }
                if strips_end {
                    text = text.trim_end();
                }
                return Ok(Some((text.to_owned(), rest, strips_next)));
            }
        }
        from = begin + 2;
    }
    Err(Fault::value("{% raw %} has no end: write {% endraw %}"))
}

/// The tokens up to `end`; the text after it; whether it asks to strip the blanks that follow.
fn tokens<'a>(source: &'a str, end: &str) -> Result<(Vec<Token>, &'a str, bool), Fault> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut open = 0_usize;
    loop {
        rest = rest.trim_start();
        if open == 0 {
            if let Some(after) = rest.strip_prefix(end) {
                return Ok((tokens, after, false));
            }
            if let Some(after) = rest.strip_prefix('-').and_then(|it| it.strip_prefix(end)) {
                return Ok((tokens, after, true));
            }
        }
        let Some(first) = rest.chars().next() else {
            return Err(Fault::value(format!("a block has no end: write {end}")));
        };
        let (token, length) = match first {
            '\'' | '"' => text_token(rest, first)?,
            '0'..='9' => number_token(rest)?,
            it if it == '_' || it.is_alphabetic() => {
                let end = rest.find(|it: char| it != '_' && !it.is_alphanumeric());
                let end = end.unwrap_or(rest.len());
                (
                    Token::Name(rest.get(..end).unwrap_or_default().to_owned()),
                    end,
                )
            }
            _ => {
                let symbol = SYMBOLS.into_iter().find(|it| rest.starts_with(it));
                let symbol = symbol
                    .ok_or_else(|| Fault::value(format!("unexpected character {first:?}")))?;
                match symbol {
                    "(" | "[" | "{" => open += 1,
                    ")" | "]" | "}" => {
                        open = open
                            .checked_sub(1)
                            .ok_or_else(|| Fault::value(format!("unexpected {symbol:?}")))?;
                    }
                    _ => {}
                }
                (Token::Symbol(symbol), symbol.len())
            }
        };
        tokens.push(token);
        rest = rest.get(length..).unwrap_or_default();
    }
}

fn text_token(source: &str, quote: char) -> Result<(Token, usize), Fault> {
    let mut text = String::new();
    let mut chars = source.char_indices().skip(1);
    while let Some((at, it)) = chars.next() {
        if it == quote {
            return Ok((Token::Text(text), at + 1));
        }
        if it != '\\' {
            text.push(it);
            continue;
        }
        let Some((_, escaped)) = chars.next() else {
            break;
        };
        match escaped {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '0' => text.push('\0'),
            '\n' => {}
            'x' | 'u' | 'U' => {
                let count = match escaped {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits: String = chars.by_ref().take(count).map(|(_, it)| it).collect();
                let code = u32::from_str_radix(&digits, 16)
                    .ok()
                    .and_then(char::from_u32);
                text.push(code.ok_or_else(|| Fault::value("a text has a broken escape"))?);
            }
            '\\' | '\'' | '"' => text.push(escaped),
            other => {
                text.push('\\');
                text.push(other);
            }
        }
    }
    Err(Fault::value("a text has no end: a quote is missing"))
}

fn number_token(source: &str) -> Result<(Token, usize), Fault> {
    let bytes = source.as_bytes();
    let base = match bytes.get(1).map(u8::to_ascii_lowercase) {
        Some(b'x') if bytes[0] == b'0' => 16,
        Some(b'o') if bytes[0] == b'0' => 8,
        Some(b'b') if bytes[0] == b'0' => 2,
        _ => 10,
    };
    let is_word = |it: &u8| it.is_ascii_alphanumeric() || *it == b'_';
    let too_large = || Fault::limit("an integer has more than 38 digits");
    if base != 10 {
        let end = bytes
            .iter()
            .position(|it| !is_word(it))
            .unwrap_or(bytes.len());
        let value = parse_int(source.get(..end).unwrap_or_default(), base);
        return Ok((
            Token::Int(value.ok_or_else(|| Fault::value("a number is malformed"))?),
            end,
        ));
    }
    let digits = |from: usize| {
        let tail = bytes.get(from..).unwrap_or_default();
        let count = tail
            .iter()
            .position(|it| !it.is_ascii_digit() && *it != b'_');
        from + count.unwrap_or(tail.len())
    };
    let whole = digits(0);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(signed).is_some_and(u8::is_ascii_digit) {
            end = digits(signed);
        }
    }
    let text = source.get(..end).unwrap_or_default();
    let plain = without_underscores(text).ok_or_else(|| Fault::value("a number is malformed"))?;
    if end == whole {
        let value = plain.parse().map_err(|_| too_large())?;
        return Ok((Token::Int(value), end));
    }
    let value = plain
        .parse()
        .map_err(|_| Fault::value("a number is malformed"))?;
    Ok((Token::Float(value), end))
}
