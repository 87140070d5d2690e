//! Reference sets: keys, nearly always of a zarr store, that stand for bytes held inline, files, or ranges of files.
//!
//! Three stored forms are read and written: JSON version 0, JSON version 1 with templates and `gen`, and folders of Parquet
//! files. [`read_document`] reads JSON into a [`ReferenceSet`], which holds columns and no object per key.
//!
//! ```
//! use pilum_references::{DocumentOptions, Reference, read_document};
//!
//! let json = br#"{"version": 1, "templates": {"u": "s3://b/a.nc"}, "refs": {"x/0": ["{{u}}", 10, 4]}}"#;
//! let set = read_document("set.json", || Ok(Box::new(&json[..])), &DocumentOptions::default())?;
//! assert!(matches!(set.get("x/0"), Some(Reference::Range { offset: 10, size: 4, .. })));
//! # Ok::<(), pilum_references::Error>(())
//! ```

mod arrow;
mod combine;
mod document;
mod error;
mod expand;
mod fetch;
mod grid;
mod interner;
mod json;
mod lang;
mod open;
mod parquet_set;
mod partition;
mod set;
mod target;
mod value;
mod write_gen;
mod write_json;
mod write_parquet;

pub use arrow::{add_batch, table_batch, table_schema};
pub use combine::{Combiner, Concatenation, OnConflict, merge};
pub use document::{DocumentOptions, read_document};
pub use error::{Error, Peer, Result, Unreachable};
pub use fetch::{Fetcher, Wanted};
pub use lang::Mode;
pub use open::References;
pub use parquet_set::ParquetSet;
pub use pilum_store::StorageOptions;
pub use set::{Child, ReferenceSet};
pub use target::AllowList;
pub use value::Reference;
pub use write_json::{DocumentVersion, write_document};
pub use write_parquet::{RECORD_SIZE, write_parquet};
