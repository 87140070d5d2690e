//! How deep and how large a node may be.

use crate::error::{Error, Result};

/// What one node may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Most levels of lists, maps and attribute maps inside each other. The YTsaurus client stops at the same depth.
    pub max_depth: usize,
    /// Most bytes of a node.
    pub max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_depth: 255,
            max_bytes: 1 << 30,
        }
    }
}

impl Limits {
    /// The default limits with another depth; beyond 1,000 levels the depth is cut to that, because readers recurse.
    #[must_use]
    pub fn with_max_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = max_depth.min(1_000);
        self
    }

    pub(super) fn check_size(self, num_bytes: usize) -> Result<()> {
        if num_bytes <= self.max_bytes {
            return Ok(());
        }
        Err(Error::Limit {
            what: format!("a node of {num_bytes} bytes, more than {}", self.max_bytes),
            remedy: "raise `max_bytes` if this is intended",
        })
    }

    /// The error for a node that is too deep at `place`.
    #[cold]
    pub(super) fn too_deep(self, place: &str) -> Error {
        Error::Limit {
            what: format!(
                "{place} has more than {} lists, maps and attribute maps inside each other",
                self.max_depth
            ),
            remedy: "raise `max_depth` if this is intended",
        }
    }

    /// The same limits with another size.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}
