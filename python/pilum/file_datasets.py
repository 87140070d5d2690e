"""Datasets of pyarrow, file by file: files whose columns do not fit the dataset are refused or converted, never cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa


def batches_of_dataset(data: Any, missing: str | None = None) -> Iterator[pa.RecordBatch] | None:
    """Return the rows of a dataset in its columns, or None for one that is scanned in its own way.

    pyarrow reads up to 1 GiB ahead of a slow consumer. Its files are therefore read one after the other, and those of Parquet a
    row group at a time. Other libraries, such as pylance, scan their datasets in their own way.

    Args:
        data: The dataset.
        missing: `"error"` refuses files without a column of the dataset, which would be null in their rows.

    Raises:
        InvalidInputError: While the rows are read: a file has a column that the dataset does not have, which pyarrow would
            leave out, or values that the type of the dataset's column does not hold. The message names file, column and types.
    """
    own = type(data).__module__.startswith("pyarrow")
    if not own or getattr(data, "_scan_options", None):
        return None
    return _batches(data, missing or "null")


def _batches(data: Any, missing: str) -> Iterator[pa.RecordBatch]:
    schema = data.schema
    places: dict[str, str] = {}
    """The first file that has a column in the type of the dataset."""
    for fragment in data.get_fragments():
        found = fragment.physical_schema
        place = str(getattr(fragment, "path", "a part of the dataset"))
        _refuse_others(schema, found, place)
        if missing == "error":
            _refuse_missing(schema, found, fragment, place)
        differing = {
            field.name for field in found if field.name in schema.names and schema.field(field.name).type != field.type
        }
        for name in set(found.names) - differing:
            places.setdefault(name, place)
        read = schema
        for name in differing:
            read = read.set(read.get_field_index(name), schema.field(name).with_type(found.field(name).type))
        split = getattr(fragment, "split_by_row_group", None)
        rows = 0
        for part in [fragment] if split is None else split():
            for batch in part.to_batches(schema=read):
                yield _fitted(batch, schema, missing, place, places, rows) if differing else batch
                rows += batch.num_rows


def _refuse_others(schema: pa.Schema, found: pa.Schema, place: str) -> None:
    others = [name for name in found.names if name not in schema.names]
    if others:
        raise InvalidInputError(
            f"{place}: the file has the columns {', '.join(map(repr, others))}, and the dataset, which takes its columns from "
            "its first file, does not have them: open it with schema=pyarrow.unify_schemas(..) of all files, or pass "
            "dataset.scanner(), which leaves them out"
        )


def _refuse_missing(schema: pa.Schema, found: pa.Schema, fragment: Any, place: str) -> None:
    import pyarrow.dataset as pads

    # Columns of partitions have their value in the path.
    there = {*found.names, *pads.get_partition_keys(fragment.partition_expression)}
    lacking = [name for name in schema.names if name not in there]
    if lacking:
        raise InvalidInputError(
            f'{place}: the file lacks the columns {", ".join(map(repr, lacking))} of the dataset; pass missing="null" to make '
            "them null in its rows"
        )


def _fitted(
    batch: pa.RecordBatch, schema: pa.Schema, missing: str, place: str, places: dict[str, str], rows: int
) -> pa.RecordBatch:
    import pyarrow as pa

    try:
        return pa.record_batch(_pilum.fit_batch(batch, schema, first_row=rows, missing=missing))
    except InvalidInputError as error:
        types = "; ".join(
            f"{name!r} is {batch.schema.field(name).type} in {place} and {schema.field(name).type} in "
            f"{places.get(name, 'the schema of the dataset')}"
            for name in schema.names
            if batch.schema.field(name).type != schema.field(name).type
        )
        raise InvalidInputError(
            f"the files of the dataset do not fit each other: column {types}: {error}; open it with a schema= that holds both"
        ) from None
