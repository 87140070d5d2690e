//! Grammar of numbers, strings, typed literals and names of types.

use arrow_schema::DataType;
use sqlparser::tokenizer::{Location, Token};

use super::tokens::{Parser, syntax};
use crate::{
    calendar::{parse_date, parse_interval, parse_time, parse_timestamp},
    error::{Error, Result, shorten},
    expr::{Expr, lit},
    scalar::Scalar,
    types,
};

impl Parser {
    pub(super) fn number(&mut self, sign: &str) -> Result<Expr> {
        let place = self.place();
        match self.next() {
            Some(Token::Number(digits, false)) => read_number(&format!("{sign}{digits}"))
                .map(lit)
                .ok_or_else(|| {
                    let digits = shorten(&digits);
                    syntax(
                        place,
                        format!("{digits} is no number of up to 76 digits; larger ones are written with an exponent, 1e40"),
                    )
                }),
            _ => Err(syntax(place, "found a number with a suffix, expected digits alone")),
        }
    }

    /// `'text'` or `X'0aff'`.
    pub(super) fn text(&mut self) -> Result<Expr> {
        let place = self.place();
        match self.next() {
            Some(Token::SingleQuotedString(text)) => Ok(lit(text)),
            Some(Token::HexStringLiteral(digits)) => hex(&digits).map(lit).ok_or_else(|| {
                syntax(
                    place,
                    "binary literals are pairs of hexadecimal digits: X'0aff'",
                )
            }),
            _ => Err(syntax(place, "expected a text")),
        }
    }

    /// `DATE`, `TIME` and others begin a literal only before a string; elsewhere they are names of columns.
    pub(super) fn typed_literal_follows(&self, word: &str) -> bool {
        match self.peek_at(1) {
            Some(Token::SingleQuotedString(_)) => true,
            Some(Token::Number(..)) => word == "INTERVAL",
            _ => false,
        }
    }

    pub(super) fn typed_literal(&mut self, word: &str) -> Result<Expr> {
        let place = self.place();
        let (text, form) = match self.next() {
            Some(Token::SingleQuotedString(text) | Token::Number(text, false)) => (text, word),
            _ => return Err(syntax(place, "expected a text in quotes")),
        };
        let scalar = match form {
            "DATE" => parse_date(&text).map(Scalar::Date),
            "TIME" => parse_time(&text).map(Scalar::Time),
            "TIMESTAMPTZ" => {
                parse_timestamp(&text).map(|(nanos, _)| Scalar::Timestamp { nanos, zoned: true })
            }
            "INTERVAL" => self.interval(&text),
            _ => parse_timestamp(&text).map(|(nanos, zoned)| Scalar::Timestamp { nanos, zoned }),
        };
        scalar.map(lit).ok_or_else(|| not_a(word, &text, place))
    }

    /// The unit is in the text (`'2 days'`) or follows it (`'2' DAY`).
    fn interval(&mut self, text: &str) -> Option<Scalar> {
        const UNITS: [&str; 7] = ["YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"];
        let unit_follows = self.word_at(0).is_some_and(|word| {
            let word = word.to_ascii_uppercase();
            UNITS.contains(&word.strip_suffix('S').unwrap_or(&word))
        });
        let written = if unit_follows && text.trim().ends_with(|c: char| c.is_ascii_digit()) {
            let unit = self.word_at(0).unwrap_or_default().to_owned();
            self.position += 1;
            format!("{text} {unit}")
        } else {
            text.to_owned()
        };
        parse_interval(&written).map(|(months, days, nanos)| Scalar::Interval {
            months,
            days,
            nanos,
        })
    }

    pub(super) fn data_type(&mut self) -> Result<DataType> {
        let place = self.place();
        let refuse = |found: &str| {
            syntax(
                place,
                format!(
                    "unknown type {}, expected {}",
                    shorten(found),
                    types::ALLOWED
                ),
            )
        };
        let Some(name) = self.word_at(0).map(str::to_ascii_uppercase) else {
            return Err(self.unexpected(types::ALLOWED));
        };
        self.position += 1;
        match name.as_str() {
            "DECIMAL" | "NUMERIC" => {
                let arguments = self.type_arguments()?;
                let (precision, scale) = match *arguments.as_slice() {
                    [] => (18, 3),
                    [precision] => (precision, 0),
                    [precision, scale] => (precision, scale),
                    _ => return Err(refuse("DECIMAL of three arguments")),
                };
                match i8::try_from(scale) {
                    Ok(signed) if (1..=38).contains(&precision) && scale <= precision => {
                        Ok(DataType::Decimal128(precision, signed))
                    }
                    Ok(signed) if (39..=76).contains(&precision) && scale <= precision => {
                        Ok(DataType::Decimal256(precision, signed))
                    }
                    _ => Err(refuse(&format!(
                        "DECIMAL({precision}, {scale}) (precision 1 to 76, scale up to it)"
                    ))),
                }
            }
            "TIMESTAMP" | "TIMESTAMPTZ" => {
                let unit = match *self.type_arguments()?.as_slice() {
                    [] => types::unit_of_digits(6),
                    [digits] => types::unit_of_digits(digits),
                    _ => None,
                }
                .ok_or_else(|| refuse("TIMESTAMP of other digits"))?;
                let zoned = name == "TIMESTAMPTZ" || self.with_time_zone()?;
                Ok(DataType::Timestamp(unit, zoned.then(|| types::UTC.into())))
            }
            "DOUBLE" => {
                self.keyword("PRECISION");
                Ok(DataType::Float64)
            }
            _ => types::named(&name).ok_or_else(|| refuse(&name)),
        }
    }

    fn with_time_zone(&mut self) -> Result<bool> {
        if !self.keyword("WITH") {
            return Ok(false);
        }
        self.expect_keyword("TIME")?;
        self.expect_keyword("ZONE")?;
        Ok(true)
    }

    /// `(38, 2)`, or nothing.
    fn type_arguments(&mut self) -> Result<Vec<u8>> {
        let mut arguments = Vec::new();
        if !self.symbol(&Token::LParen) {
            return Ok(arguments);
        }
        loop {
            match self.peek() {
                Some(Token::Number(digits, false)) if arguments.len() < 2 => {
                    match digits.parse() {
                        Ok(number) => arguments.push(number),
                        Err(_) => return Err(self.unexpected("a number up to 255")),
                    }
                    self.position += 1;
                }
                _ => return Err(self.unexpected("a number")),
            }
            if self.symbol(&Token::RParen) {
                return Ok(arguments);
            }
            self.expect_symbol(&Token::Comma)?;
        }
    }
}

fn not_a(word: &str, text: &str, place: Location) -> Error {
    let example = match word {
        "DATE" => "DATE '2026-01-31'",
        "TIME" => "TIME '12:30:00.5'",
        "INTERVAL" => "INTERVAL '2 days 3 hours' or INTERVAL '2' DAY",
        _ => "TIMESTAMP '2026-01-31 12:30:00.5' with an optional Z or +02:00",
    };
    syntax(
        place,
        format!("'{}' is not understood; write {example}", shorten(text)),
    )
}

/// An integer, a decimal (point) or a float (exponent).
fn read_number(digits: &str) -> Option<Scalar> {
    if digits.contains(['e', 'E']) {
        let value: f64 = digits.parse().ok()?;
        return value.is_finite().then_some(Scalar::Float(value));
    }
    Scalar::from_digits(digits)
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let nibbles: Vec<u8> = digits
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let pairs = nibbles.chunks_exact(2);
    pairs.remainder().is_empty().then(|| {
        pairs
            .map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble))
            .collect()
    })
}
