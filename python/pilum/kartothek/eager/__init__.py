"""Kartothek's eager functions by their names, arguments and results.

A pipeline moves by changing one import:

    from pilum.kartothek.eager import read_table, update_dataset_from_dataframes

Results are pandas frames. Where Kartothek 5.3.0 returns wrong rows or values, and pilum the right
ones, pilum warns once. Differences:

- pilum publishes updates by compare-and-swap: if two writers add partitions at once, the dataset has both;
- `delete_scope` on a column without index, and an empty scope, are refused: Kartothek removes all partitions then;
- `build_dataset_indices` keeps the user metadata, `copy_dataset` replaces the prefix of keys only, `delete_dataset` removes
  both forms of the document;
- frames of single partitions have the types of the schema, not the widths of their files;
- `store` is a URL, a function, or a store object: see `pilum.kartothek.stores`.
"""

from __future__ import annotations

from pilum.kartothek.eager.inputs import (
    ParquetSerializer,
)
from pilum.kartothek.eager.maintenance import (
    build_dataset_indices,
    copy_dataset,
    delete_dataset,
    garbage_collect_dataset,
)
from pilum.kartothek.eager.reading import (
    read_dataset_as_dataframes,
    read_dataset_as_metapartitions,
    read_table,
)
from pilum.kartothek.eager.results import (
    DatasetExistsError,
    DatasetMetadata,
    DatasetMissingError,
    MetaPartition,
    Partition,
)
from pilum.kartothek.eager.writing import (
    commit_dataset,
    create_empty_dataset_header,
    store_dataframes_as_dataset,
    update_dataset_from_dataframes,
    write_single_partition,
)

__all__ = [
    "DatasetExistsError",
    "DatasetMetadata",
    "DatasetMissingError",
    "MetaPartition",
    "ParquetSerializer",
    "Partition",
    "build_dataset_indices",
    "commit_dataset",
    "copy_dataset",
    "create_empty_dataset_header",
    "delete_dataset",
    "garbage_collect_dataset",
    "read_dataset_as_dataframes",
    "read_dataset_as_metapartitions",
    "read_table",
    "store_dataframes_as_dataset",
    "update_dataset_from_dataframes",
    "write_single_partition",
]
