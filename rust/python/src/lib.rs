//! The Python module `pilum._pilum`, on which the package `pilum` is built.
//!
//! Each function converts its arguments, releases the GIL, waits for the engine, and maps errors to Python's exceptions.
//! The modules:
//!
//! - `runtime`, `process`: one runtime per process, made when it is first needed and again after a fork; waiting with the
//!   GIL released, until Ctrl-C;
//! - `ffi`: Arrow in and out through the C data interface, without pyarrow;
//! - `feed`, `progress`: the calling thread pulls rows from Python, another thread writes them;
//! - `logging`: events of the engine for Python's `logging`;
//! - `parquet`: Parquet files, read where they are and written;
//! - `kartothek`: Kartothek datasets, read and changed;
//! - `references`: reference sets;
//! - `skiff`: Skiff streams, decoded and encoded through `read` and `write` of Python objects; `skiff_kernels`: YSON arrays;
//! - `errors`: one table that maps errors of the engine to exceptions; a panic becomes one too;
//! - `expr`, `literal`: expressions and values of Python as the engine's tree;
//! - `distributed`: the tasks of statements that many processes share, and their commits;
//! - `scanner`, `run`: scans of any source of rows; `table_scan` and `parquet` are the sources;
//! - `dataset`, `write`, `statements`, `statistics`, `columns`, `settings`, `merge`, `inspect`, `batch`, `history`: the other
//!   objects of Python. All are frozen.
//!
//! `python/pilum/_pilum.pyi` documents each of them.

mod arguments;
mod batch;
mod columns;
mod dataset;
mod distributed;
mod errors;
mod expect;
mod expr;
mod feed;
mod ffi;
mod history;
mod inspect;
mod kartothek;
mod literal;
mod logging;
mod merge;
mod parquet;
mod process;
mod progress;
mod references;
mod run;
mod runtime;
mod scanner;
mod settings;
mod skiff;
mod skiff_kernels;
mod statements;
mod statistics;
mod table_scan;
mod write;

/// The module that Python imports.
#[pyo3::pymodule(gil_used = false)]
mod _pilum {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::{Batch, Schema, first_excluded, fit_batch};
    #[pymodule_export]
    use crate::columns::{add_columns, add_columns_from, alter_columns, drop_columns};
    #[pymodule_export]
    use crate::dataset::{Dataset, open};
    #[pymodule_export]
    use crate::distributed::{
        combine_fragments, commit_changes, commit_columns, commit_rewrite, committed,
        discard_fragments, piece_size, plan_compaction, rewrite_fragments, row_set, with_row_ids,
        write_columns,
    };
    #[pymodule_export]
    use crate::expr::{
        PyExpr, case, column, divide, exact, expr_from_message, first_valid, ieee, substrait, value,
    };
    #[pymodule_export]
    use crate::history::{Fragment, Version};
    #[pymodule_export]
    use crate::inspect::{VerifyReport, describe, describe_one, doctor, verify, verify_one};
    #[pymodule_export]
    use crate::kartothek::{KartothekDataset, KartothekWriter, kartothek_open};
    #[pymodule_export]
    use crate::merge::{MergeResult, merge_rows};
    #[pymodule_export]
    use crate::parquet::{
        ParquetDataset, ParquetScanMetrics, parquet_inspect, parquet_open, parquet_write,
    };
    #[pymodule_export]
    use crate::references::{ReferenceCombiner, ReferenceSet};
    #[pymodule_export]
    use crate::scanner::{Batches, Scanner};
    #[pymodule_export]
    use crate::settings::{VersionDiff, diff, row_versions, table_maps, update_config};
    #[pymodule_export]
    use crate::skiff::{SkiffBatches, SkiffEncoder, SkiffFormat};
    #[pymodule_export]
    use crate::skiff_kernels::{skiff_promote, yson_kernel};
    #[pymodule_export]
    use crate::statements::{
        CleanupResult, CompactionResult, cleanup, compact, delete_rows, restore, update_rows,
    };
    #[pymodule_export]
    use crate::statistics::statistics;
    #[pymodule_export]
    use crate::table_scan::ScanMetrics;
    #[pymodule_export]
    use crate::write::{WriteResult, check_fits, commit_fragments, write_dataset, write_fragments};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::logging::install();
        crate::errors::register(module)
    }
}
