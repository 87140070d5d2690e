//! The errors that mean the same in several crates, one variant for each reaction of the caller.

use std::fmt;

/// Damage, refusals, limits, and faults of pilum itself.
///
/// Decoders see bytes, not files: the caller names the file with [`Error::at`]. The enum is exhaustive, so that a crate with
/// variants of its own converts each of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes contradict the format or their checksum: restore the file, or read another version.
    #[error("{path} is damaged: {reason}{}", AtByte(*position))]
    Corrupt {
        /// The file, or the part of it; empty until the caller names it.
        path: String,
        /// The structure, the column where there is one, and what is wrong.
        reason: String,
        /// Position of the offending byte in the file, where one byte is to blame.
        position: Option<u64>,
    },

    /// The bytes use, or the caller asked for, a feature that this release does not have.
    #[error("{path}: {feature} is not supported; {hint}")]
    Unsupported {
        /// The table or file; empty until the caller names it.
        path: String,
        /// What is not supported, by name.
        feature: String,
        /// What to do instead.
        hint: String,
    },

    /// The caller's data or arguments do not fit.
    #[error("{what}: {reason}")]
    InvalidInput {
        /// The argument, file, column or row.
        what: String,
        /// Why it is refused and what to do.
        reason: String,
    },

    /// The work needs more than a limit allows. Nothing was allocated for it.
    #[error(
        "{what} needs {needed}, more than the limit of {limit}; raise the limit or split the work"
    )]
    Limit {
        /// What is too large.
        what: String,
        /// How much it needs, with its unit.
        needed: String,
        /// How much is allowed, with its unit.
        limit: String,
    },

    /// A fault of pilum itself: neither the files nor the arguments are to blame.
    #[error(
        "internal error of pilum {}: {what}; please report this message with what was called", env!("CARGO_PKG_VERSION")
    )]
    Bug {
        /// What should not have happened, with the table, file or column.
        what: String,
    },
}

/// Formats the position of a fault as ` at byte 7`, or as nothing where no byte is to blame.
#[derive(Debug)]
pub struct AtByte(pub Option<u64>);

impl fmt::Display for AtByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .map_or(Ok(()), |position| write!(f, " at byte {position}"))
    }
}

impl Error {
    /// Damage in a file whose name the caller adds with [`Error::at`].
    pub fn corrupt(reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: String::new(),
            reason: reason.into(),
            position: None,
        }
    }

    /// A feature that is not supported, in a file whose name the caller adds with [`Error::at`].
    pub fn unsupported(feature: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Unsupported {
            path: String::new(),
            feature: feature.into(),
            hint: hint.into(),
        }
    }

    /// An argument, file, column or row that is refused.
    pub fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::InvalidInput {
            what: what.into(),
            reason: reason.into(),
        }
    }

    /// Work that needs more than a limit allows; both amounts have their units.
    pub fn limit(
        what: impl Into<String>,
        needed: impl Into<String>,
        limit: impl Into<String>,
    ) -> Self {
        Self::Limit {
            what: what.into(),
            needed: needed.into(),
            limit: limit.into(),
        }
    }

    /// A fault of pilum itself.
    pub fn bug(what: impl Into<String>) -> Self {
        Self::Bug { what: what.into() }
    }

    /// Names the file, for an error of a decoder, which saw only bytes.
    #[must_use]
    pub fn at(mut self, place: impl AsRef<str>) -> Self {
        match &mut self {
            Self::Corrupt { path, .. } | Self::Unsupported { path, .. } if path.is_empty() => {
                place.as_ref().clone_into(path);
            }
            Self::Limit { what, .. } if !what.starts_with(place.as_ref()) => {
                *what = format!("{}: {what}", place.as_ref());
            }
            _ => {}
        }
        self
    }

    /// A stable word for the kind of error, by what the caller does next.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Corrupt { .. } => "corrupt",
            Self::Unsupported { .. } => "unsupported",
            Self::InvalidInput { .. } => "invalid_input",
            Self::Limit { .. } => "limit",
            Self::Bug { .. } => "bug",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn a_file_is_named_once() {
        let error = Error::corrupt("no footer").at("a.lance").at("b.lance");
        assert_eq!(error.to_string(), "a.lance is damaged: no footer");
        let error = Error::limit("the footer", "2 GiB", "1 GiB").at("a.lance");
        assert!(error.to_string().starts_with("a.lance: the footer needs"));
        assert_eq!(error.clone().at("a.lance"), error);
    }

    #[test]
    fn a_position_is_told_where_there_is_one() {
        let error = Error::Corrupt {
            path: "a.lance".to_owned(),
            reason: "no footer".to_owned(),
            position: Some(7),
        };
        assert_eq!(error.to_string(), "a.lance is damaged: no footer at byte 7");
    }
}
