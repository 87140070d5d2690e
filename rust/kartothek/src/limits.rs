//! Limits for metadata that declares or holds more than a dataset has.

/// What the metadata of a dataset may make the reader allocate. The defaults admit datasets of some million partitions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the metadata document, after decompression.
    pub document_bytes: u64,
    /// Levels of maps and lists in the document.
    pub depth: usize,
    /// Members of all maps and lists of the document.
    pub entries: usize,
    /// Bytes of one index file, and of its decoded values.
    pub index_bytes: u64,
    /// What data, index and schema files may make the Parquet reader allocate.
    pub parquet: pilum_parquet::ReadLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 1 << 30,
            depth: 64,
            entries: 1 << 25,
            index_bytes: 2 << 30,
            parquet: pilum_parquet::ReadLimits::default(),
        }
    }
}
