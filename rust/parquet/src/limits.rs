//! Limits for files that declare more than they hold.

/// What a file may make the reader allocate. The defaults admit every file that common writers make.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadLimits {
    /// Bytes of the footer, and of the page index.
    pub footer_bytes: u64,
    /// Levels of the schema.
    pub nesting: usize,
    /// Bytes of one page after decompression.
    pub page_bytes: u64,
    /// A page that is larger than [`free_page_bytes`](Self::free_page_bytes) may be so many times larger than its compressed
    /// bytes.
    pub ratio: u64,
    /// Bytes of one page after decompression for which the ratio is not asked.
    pub free_page_bytes: u64,
    /// Values of one page of a column of lists, where few bytes of levels can stand for many values of one row.
    pub repeated_values: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            footer_bytes: 256 << 20,
            nesting: 64,
            page_bytes: 1 << 30,
            ratio: 2000,
            free_page_bytes: 32 << 20,
            repeated_values: 1 << 26,
        }
    }
}
