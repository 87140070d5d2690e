//! Options of writing a data file.

use std::num::NonZeroUsize;

pub use pilum_format::Compat;
use pilum_format::Schema;

use crate::error::{Error, Result};

/// Layout of the files that a [`FileWriter`](crate::FileWriter) makes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What happens to values that v1 cannot hold.
    pub compat: Compat,
    /// Rows per page; `None` chooses them by [`target_batch_bytes`](Self::target_batch_bytes).
    pub max_rows_per_page: Option<u64>,
    /// Arrow bytes per batch of pages, about, when `max_rows_per_page` is `None`.
    pub target_batch_bytes: u64,
    /// Pages of fixed-width values start at multiples of this number of bytes; 1 leaves no gaps.
    pub alignment: u64,
    /// Bytes per checksum, a power of two from 512 to 8192; `None` writes no extension block unless a value needs one.
    pub checksum_block: Option<NonZeroUsize>,
    /// How many columns get statistics, counted from the first: the format keeps four fields for each of them in the message
    /// that every reader of a file reads first.
    pub max_statistics: usize,
    /// Keep statistics of more types than pylance's writer does, and maxima of floats that cover NaN.
    pub extended_statistics: bool,
}

/// Bytes per checksum: `docs/decisions/0003-checksum-blocks.md` has the measurement.
pub const DEFAULT_CHECKSUM_BLOCK: NonZeroUsize = match NonZeroUsize::new(512) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};

/// Columns with statistics by default. If all of 20,000 columns had them, reading one column would begin with reading three
/// megabytes of descriptions.
pub const DEFAULT_MAX_STATISTICS: usize = 1000;

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            compat: Compat::Lossless,
            max_rows_per_page: None,
            target_batch_bytes: 8 << 20,
            alignment: 64,
            checksum_block: Some(DEFAULT_CHECKSUM_BLOCK),
            max_statistics: DEFAULT_MAX_STATISTICS,
            extended_statistics: true,
        }
    }
}

impl WriteOptions {
    /// The layout of pylance's own writer: pages of 1,024 rows, no gaps, no checksums.
    #[must_use]
    pub fn pylance() -> Self {
        Self {
            max_rows_per_page: Some(1024),
            alignment: 1,
            checksum_block: None,
            max_statistics: usize::MAX,
            extended_statistics: false,
            ..Self::default()
        }
    }

    /// Refuses types that the files of these options cannot store; `path` is what the error names.
    ///
    /// # Errors
    /// `Unsupported` for a column whose type is not in v1, under `compat="lance"`.
    pub fn check_types(&self, schema: &Schema, path: &str) -> Result<()> {
        match schema.first_beyond_v1() {
            Some((column, field)) if self.compat == Compat::Lance => Err(Error::Unsupported {
                path: path.to_owned(),
                feature: format!(
                    "column `{column}`: {} in Lance v1 (convert the column, or pass compat=\"lossless\": pylance can \
                     then no longer read the table)",
                    field.shown_type()
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Rows per page for rows of about `row_bytes` Arrow bytes.
    pub(crate) fn rows_per_page(&self, row_bytes: u64) -> u64 {
        // With a multiple of 1,024, validity bits end at whole bytes and pages at the groups that other readers expect.
        const GROUP: u64 = 1024;
        const MOST: u64 = 64 * GROUP;
        // A page of nulls alone has no bytes, so readers limit its number of slots.
        const LIMIT: u64 = 1 << 26;
        let rows = self.max_rows_per_page.unwrap_or_else(|| {
            let fits = self.target_batch_bytes / row_bytes.max(1);
            if fits < GROUP {
                fits.max(16)
            } else {
                (fits / GROUP * GROUP).min(MOST)
            }
        });
        rows.min(LIMIT)
    }
}
