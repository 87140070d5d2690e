//! The compat of a table: whether its versions may need our extension. It is recorded in the config of the manifest.
//!
//! ```text
//! pilum.compat = "lance"       every reader of Lance v1 reads every version
//! pilum.compat = "lossless"    values that v1 cannot hold are stored through the extension
//! ```

/// The key of the config under which a manifest holds the compat of its table.
pub const COMPAT_KEY: &str = "pilum.compat";

/// What happens to values that Lance v1 cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compat {
    /// Keep them through the extension.
    #[default]
    Lossless,
    /// Refuse them, so that every reader of Lance v1 reads the file right.
    Lance,
}

impl Compat {
    /// As it is recorded, and as users write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Lance => "lance",
        }
    }

    /// The compat that a word means; `None` for other words.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Lossless, Self::Lance]
            .into_iter()
            .find(|it| it.word() == word)
    }
}
