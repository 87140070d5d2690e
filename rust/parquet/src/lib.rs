//! Parquet files as a source and a sink of tables, without a copy of them: scans, reads by position, and writes.
//!
//! ```text
//!   address ──discover──> ParquetFile (footer) ──┐
//!                                                ├─> Dataset ──scan──> Scan ──batches──> record batches in row order
//!   hive keys of the paths ──────────────────────┘      └─────take──> one batch
//!
//!   record batches ──> FileWriter ──> one file, a CRC-32 in each page
//! ```
//!
//! - [`ParquetFile::open`] reads a footer through ranged reads of `pilum_store`. [`ParquetFile::row_group_statistics`] and
//!   [`ParquetFile::prune_row_groups`] need no further request.
//! - [`Dataset`] is one or more files with a common schema. A [`Scan`] of it leaves out row groups and pages by their
//!   statistics, applies the predicate before the other columns are read, and keeps a few batches in memory.
//!   [`Dataset::take`] reads single pages.
//! - [`FileWriter`] streams batches to a new file.
//! - [`inspect`] describes everything that is in a file.
//!
//! Pages are decoded by the `parquet` crate of the Arrow project. Files are not trusted: lengths are checked before they are
//! used ([`ReadLimits`]), checksums are verified where a page has one, and a panic of the decoder becomes a `CommonError::Corrupt`.

mod checksum;
mod columns;
mod contain;
mod dataset;
mod decode;
mod discover;
mod error;
mod export;
mod file;
mod inspect;
mod limits;
mod options;
mod pages;
mod plan;
mod project;
mod prune;
mod scan;
mod statistics;
mod take;
mod thrift;
mod write;

pub use dataset::{Dataset, OpenOptions};
pub use error::{Error, Result};
pub use export::{ExportOptions, Exporter};
pub use file::ParquetFile;
pub use inspect::inspect;
pub use limits::ReadLimits;
pub use options::{ScanMetrics, ScanOptions};
pub use pilum_common::Error as CommonError;
pub use pilum_expr::Projection;
pub use scan::Scan;
pub use statistics::Statistics;
pub use write::{FileCompression, FileWriter, WriteOptions, WrittenFile};
