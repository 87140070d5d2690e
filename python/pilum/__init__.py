"""Versioned columnar tables in the Lance v1 layout, nothing lost, for Python and PySpark.

    import pilum

    ds = pilum.write_dataset(table, "flights.pilum")
    ds = ds.append(more)
    ds.to_table(columns=["carrier", "dep_delay"], filter="dep_delay > 60")
    pilum.dataset("flights.pilum", version=1).count_rows()

Data comes in and goes out through the Arrow exchange protocols: tables of pyarrow, Polars, DuckDB and pandas are written
without a copy. Importing this package loads neither pyarrow nor pyspark, so that Spark workers start fast.

The engine logs below the logger `pilum` of Python's `logging`: `logging.getLogger("pilum").setLevel(logging.DEBUG)`.
"""

from pilum import kartothek, parquet, references
from pilum._pilum import __version__
from pilum.dataset import CompactionResult, Dataset, Merged, Written, dataset, write_dataset
from pilum.exceptions import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    InternalError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    PilumError,
    StoreError,
    UnsupportedError,
)
from pilum.expr import Expr, case_when, coalesce, col, lit
from pilum.files import describe_file, verify_file
from pilum.fragments import Append, Create, Overwrite, commit
from pilum.scanner import Scanner, ScanTask
from pilum.stores import Check, Diagnosis, doctor
from pilum.tags import Tags

__all__ = [
    "AlreadyExistsError",
    "Append",
    "Check",
    "CommitUnknownError",
    "CompactionResult",
    "ConflictError",
    "CorruptError",
    "Create",
    "Dataset",
    "Diagnosis",
    "Expr",
    "InternalError",
    "InvalidInputError",
    "LimitError",
    "Merged",
    "NotFoundError",
    "Overwrite",
    "PilumError",
    "ScanTask",
    "Scanner",
    "StoreError",
    "Tags",
    "UnsupportedError",
    "Written",
    "__version__",
    "case_when",
    "coalesce",
    "col",
    "commit",
    "dataset",
    "describe_file",
    "doctor",
    "kartothek",
    "lit",
    "parquet",
    "references",
    "verify_file",
    "write_dataset",
]
