//! Numbers as text, as Python prints and parses them.

use crate::error::Fault;
use crate::lang::limits::MAX_TEXT;

/// The shortest text that is read back as the same double, as `repr()` prints it.
pub(crate) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') {
            plain
        } else {
            format!("{plain}.0")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// The integer that `int(text, base)` gives: blanks around it, a sign, and single underscores between digits are allowed.
pub(crate) fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let prefix = match base {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    let body = match lower.strip_prefix(prefix) {
        Some(rest) if !prefix.is_empty() => rest.strip_prefix('_').unwrap_or(rest),
        _ => lower.as_str(),
    };
    let joined = without_underscores(body)?;
    if joined.is_empty() || !joined.chars().all(|it| it.is_digit(base)) {
        return None;
    }
    let value = i128::from_str_radix(&joined, base).ok()?;
    Some(if negative { -value } else { value })
}

/// The digits without underscores; `None` where one is not between two digits.
pub(crate) fn without_underscores(digits: &str) -> Option<String> {
    let wrong = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    (!wrong).then(|| digits.replace('_', ""))
}

/// The double that `float(text)` gives.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let text = without_underscores(text.trim())?;
    let plain = |it: char| it.is_ascii_digit() || matches!(it, '.' | 'e' | 'E' | '+' | '-');
    let lower = text.to_ascii_lowercase();
    let word = lower.trim_start_matches(['+', '-']);
    if !text.chars().all(plain) && !matches!(word, "inf" | "infinity" | "nan") {
        return None;
    }
    text.parse().ok()
}

/// How a number or text is laid out: the format specification `[[fill]align][sign][#][0][width][,][.precision][type]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) fill: Option<char>,
    pub(crate) align: Option<char>,
    pub(crate) sign: Option<char>,
    pub(crate) alternate: bool,
    pub(crate) zero: bool,
    pub(crate) width: usize,
    pub(crate) grouping: Option<char>,
    pub(crate) precision: Option<usize>,
    pub(crate) kind: Option<char>,
}

impl Layout {
    /// Parses a specification of `str.format`.
    pub(crate) fn parse(spec: &str) -> Result<Self, Fault> {
        let chars: Vec<char> = spec.chars().collect();
        let mut layout = Self::default();
        let mut at = 0;
        let is_align = |it: Option<&char>| matches!(it, Some('<' | '>' | '=' | '^'));
        if is_align(chars.get(1)) {
            layout.fill = chars.first().copied();
            layout.align = chars.get(1).copied();
            at = 2;
        } else if is_align(chars.first()) {
            layout.align = chars.first().copied();
            at = 1;
        }
        if let Some(sign @ ('+' | '-' | ' ')) = chars.get(at) {
            layout.sign = Some(*sign);
            at += 1;
        }
        if chars.get(at) == Some(&'#') {
            layout.alternate = true;
            at += 1;
        }
        if chars.get(at) == Some(&'0') {
            layout.zero = true;
            at += 1;
        }
        layout.width = digits(&chars, &mut at)?.unwrap_or(0);
        if let Some(grouping @ (',' | '_')) = chars.get(at) {
            layout.grouping = Some(*grouping);
            at += 1;
        }
        if chars.get(at) == Some(&'.') {
            at += 1;
            let precision = digits(&chars, &mut at)?;
            layout.precision = Some(precision.ok_or_else(|| {
                Fault::value(format!(
                    "{spec:?}: the format has no precision after the dot"
                ))
            })?);
        }
        if let Some(kind) = chars.get(at) {
            layout.kind = Some(*kind);
            at += 1;
        }
        if at < chars.len() {
            return Err(Fault::value(format!("{spec:?}: the format is unknown")));
        }
        Ok(layout)
    }

    /// The text within its width.
    pub(crate) fn pad(&self, sign: &str, body: &str, default_align: char) -> String {
        let length = sign.chars().count() + body.chars().count();
        let missing = self.width.saturating_sub(length);
        let zero = self.zero && self.align.is_none();
        let fill = self.fill.unwrap_or(if self.zero { '0' } else { ' ' });
        let align = self.align.unwrap_or(if zero && default_align == '>' {
            '='
        } else {
            default_align
        });
        let of = |count: usize| fill.to_string().repeat(count);
        match align {
            '<' => format!("{sign}{body}{}", of(missing)),
            '^' => format!(
                "{}{sign}{body}{}",
                of(missing / 2),
                of(missing - missing / 2)
            ),
            '=' => format!("{sign}{}{body}", of(missing)),
            _ => format!("{}{sign}{body}", of(missing)),
        }
    }

    fn sign_of(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        }
    }

    /// An integer by `d`, `x`, `X`, `o`, `b`, `c` or `n`.
    pub(crate) fn int(&self, value: i128, kind: char) -> Result<String, Fault> {
        let size = value.unsigned_abs();
        let (prefix, mut body) = match kind {
            'x' => ("0x", format!("{size:x}")),
            'X' => ("0X", format!("{size:X}")),
            'o' => ("0o", format!("{size:o}")),
            'b' => ("0b", format!("{size:b}")),
            _ => ("", size.to_string()),
        };
        if let Some(separator) = self.grouping {
            body = grouped(&body, separator);
        }
        let sign = self.sign_of(value < 0);
        let sign = if self.alternate {
            format!("{sign}{prefix}")
        } else {
            sign.to_owned()
        };
        Ok(self.pad(&sign, &body, '>'))
    }

    /// A double by `f`, `F`, `e`, `E`, `g`, `G`, `%`, or by its shortest text.
    pub(crate) fn float(&self, value: f64, kind: Option<char>) -> String {
        let size = value.abs();
        let precision = self.precision.unwrap_or(6);
        let body = if !value.is_finite() {
            float_text(size)
        } else {
            match kind {
                Some('f' | 'F') => format!("{size:.precision$}"),
                Some('e') => scientific(size, precision),
                Some('E') => scientific(size, precision).to_uppercase(),
                Some('g') => general(size, precision),
                Some('G') => general(size, precision).to_uppercase(),
                Some('%') => format!("{:.precision$}%", size * 100.0),
                _ => match self.precision {
                    Some(precision) => general(size, precision),
                    None => float_text(size),
                },
            }
        };
        let body = match self.grouping {
            Some(separator) => {
                let (whole, rest) = body.split_at(body.find('.').unwrap_or(body.len()));
                format!("{}{rest}", grouped(whole, separator))
            }
            None => body,
        };
        self.pad(
            self.sign_of(value.is_sign_negative() && !value.is_nan()),
            &body,
            '>',
        )
    }
}

/// Reads digits; a number beyond what a text may have is a fault.
pub(crate) fn digits(chars: &[char], at: &mut usize) -> Result<Option<usize>, Fault> {
    let start = *at;
    let mut value = 0_usize;
    while let Some(digit) = chars.get(*at).and_then(|it| it.to_digit(10)) {
        value = value * 10 + digit as usize;
        if value > MAX_TEXT {
            return Err(Fault::limit(format!(
                "a width or precision of more than {MAX_TEXT} is refused"
            )));
        }
        *at += 1;
    }
    Ok((*at > start).then_some(value))
}

fn grouped(digits: &str, separator: char) -> String {
    let mut out = String::new();
    for (at, it) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(separator);
        }
        out.push(it);
    }
    out
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn general(value: f64, precision: usize) -> String {
    let precision = precision.max(1);
    let text = scientific(value, precision - 1);
    let exponent: i32 = text
        .split_once('e')
        .and_then(|(_, it)| it.parse().ok())
        .unwrap_or_default();
    let most = i32::try_from(precision).unwrap_or(i32::MAX);
    let trimmed = |it: &str| match it.contains('.') {
        true => it.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => it.to_owned(),
    };
    if exponent < -4 || exponent >= most {
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{exponent}", trimmed(mantissa));
    }
    let decimals = usize::try_from(most - 1 - exponent).unwrap_or_default();
    trimmed(&format!("{value:.decimals$}"))
}

/// The number of values of Python's `range`.
pub(crate) fn range_length(start: i128, stop: i128, step: i128) -> Result<u64, Fault> {
    if step == 0 {
        return Err(Fault::value("the step of a range must not be zero"));
    }
    let too_long = || Fault::limit("a range has more values than 64 bits count");
    let (low, high) = if step > 0 {
        (start, stop)
    } else {
        (stop, start)
    };
    if low >= high {
        return Ok(0);
    }
    let span = high.checked_sub(low).ok_or_else(too_long)?;
    let count = (span.unsigned_abs() - 1) / step.unsigned_abs() + 1;
    u64::try_from(count).map_err(|_| too_long())
}
