//! Errors of this crate, one variant per reaction of the caller.

use std::fmt::{self, Write};

use arrow_schema::{ArrowError, DataType};
use pilum_common::type_name;

/// Errors of parsing, binding and evaluation.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not an expression of this language; fix it at the place named.
    #[error("syntax error at line {line}, column {column}: {message}")]
    Syntax {
        /// What was found and what is allowed instead.
        message: String,
        /// Line, counted from 1.
        line: u64,
        /// Column in characters, counted from 1.
        column: u64,
    },
    /// The schema has no such column.
    #[error("unknown column {name}{}", suggestion(similar))]
    UnknownColumn {
        /// The name as it was written.
        name: String,
        /// Names of the schema that look alike, the closest first; at most three.
        similar: Vec<String>,
    },
    /// Two types, or a type and a function, that do not go together; a `CAST` says what is meant.
    #[error(
        "type mismatch in {expression}: {left} and {right} do not go together; use CAST to convert one"
    )]
    TypeMismatch {
        /// The type found (or that of the left side).
        left: String,
        /// The type needed (or that of the right side).
        right: String,
        /// The part of the expression.
        expression: String,
    },
    /// The expression is valid SQL that this crate does not implement.
    #[error("not supported: {feature}")]
    Unsupported {
        /// What was asked for and what to do instead.
        feature: String,
    },
    /// A value left the range of its type during evaluation.
    #[error(
        "overflow in {expression}: the result is out of the range of {data_type}; CAST an operand to a wider type"
    )]
    Overflow {
        /// The operation that overflowed.
        expression: String,
        /// The type whose range was left.
        data_type: String,
    },
    /// A value that cannot be used in its place, such as a text that is no number in a `CAST`.
    #[error("invalid input in {place}: {message}")]
    InvalidInput {
        /// The expression or argument.
        place: String,
        /// The reason, and what is accepted instead.
        message: String,
    },
    /// The expression is larger than the limits that keep memory and stack bounded.
    #[error("{what} exceeds the limit of {limit}; split the expression or use IN with a list")]
    Limit {
        /// What is too large.
        what: String,
        /// The limit.
        limit: usize,
    },
}

impl Error {
    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "unsupported",
            Self::Limit { .. } => "limit",
            Self::Syntax { .. }
            | Self::UnknownColumn { .. }
            | Self::TypeMismatch { .. }
            | Self::Overflow { .. }
            | Self::InvalidInput { .. } => "invalid_input",
        }
    }

    pub(crate) fn mismatch(
        left: &DataType,
        right: &DataType,
        expression: &(impl fmt::Display + ?Sized),
    ) -> Self {
        Self::TypeMismatch {
            left: type_name(left),
            right: type_name(right),
            expression: shorten(expression),
        }
    }

    pub(crate) fn unsupported(feature: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
        }
    }

    pub(crate) fn invalid(
        place: &(impl fmt::Display + ?Sized),
        message: impl Into<String>,
    ) -> Self {
        Self::InvalidInput {
            place: shorten(place),
            message: message.into(),
        }
    }

    /// An error of a kernel, with the part of the expression that ran it.
    pub(crate) fn kernel(error: &ArrowError, expression: &str, data_type: &DataType) -> Self {
        match error {
            ArrowError::ArithmeticOverflow(_) | ArrowError::DivideByZero => Self::Overflow {
                expression: expression.to_owned(),
                data_type: type_name(data_type),
            },
            other => Self::invalid(expression, other.to_string()),
        }
    }
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Messages show this many characters of an expression, which may have megabytes.
const SHOWN_CHARS: usize = 200;

/// Stops the formatter after `left` characters, so that a large value is not formatted whole for a message.
#[derive(Debug)]
pub(crate) struct Brief {
    text: String,
    left: usize,
    is_cut: bool,
}

impl Brief {
    /// Takes at most this many characters.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            text: String::new(),
            left: limit,
            is_cut: false,
        }
    }

    /// Whether there was more than the limit.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What was taken, with an ellipsis if there was more.
    pub(crate) fn into_text(mut self) -> String {
        if self.is_cut {
            self.text.push('…');
        }
        self.text
    }
}

impl Write for Brief {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for c in more.chars() {
            if self.left == 0 {
                self.is_cut = true;
                return Err(fmt::Error);
            }
            self.left -= 1;
            self.text.push(c);
        }
        Ok(())
    }
}

/// The beginning of a text or expression.
pub(crate) fn shorten(text: &(impl fmt::Display + ?Sized)) -> String {
    let mut brief = Brief::new(SHOWN_CHARS);
    // The only error is that of a full `Brief`.
    let _ = write!(brief, "{text}");
    brief.into_text()
}

fn suggestion(similar: &[String]) -> String {
    if similar.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", similar.join(" or "))
    }
}
