"""Writes refuse types that a table cannot store before they read rows, and values soon after they have read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import pilum

BATCHES, ROWS = 200, 2_000
AHEAD = 2
"""Batches that a write may prefetch before it refuses the schema."""


class Source:
    """A source of many batches that counts how many of them a write has read."""

    def __init__(self, schema: pa.Schema, batch: pa.RecordBatch) -> None:
        self.schema, self.batch, self.given = schema, batch, 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        for _ in range(BATCHES):
            self.given += 1
            yield self.batch

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())


def source(column: pa.Array) -> Source:
    batch = pa.record_batch({"x": column})
    return Source(batch.schema, batch)


UNSTORABLE = {
    "intervals": pa.array([None] * ROWS, pa.month_day_nano_interval()),
    "structs without members": pa.array([{}] * ROWS, pa.struct([])),
}


@pytest.mark.parametrize("what", UNSTORABLE)
@pytest.mark.parametrize("call", ["write_dataset", "append", "overwrite", "fragments.write"])
def test_types_that_the_table_cannot_store_are_refused_before_a_row_is_read(what: str, call: str) -> None:
    rows = source(UNSTORABLE[what])
    uri = f"memory://refused/{what}/{call}"
    refused = pytest.raises(pilum.PilumError, match="`x`")
    if call == "write_dataset":
        with refused:
            pilum.write_dataset(rows.reader(), uri, compat="lance")
    elif call == "fragments.write":
        with refused:
            pilum.fragments.write(rows.reader(), uri, mode="create", compat="lance")
    else:
        ds = pilum.write_dataset(pa.table({"x": [1]}), uri, compat="lance").dataset
        with refused:
            (ds.append if call == "append" else ds.overwrite)(rows.reader(), compat="lance")
    assert rows.given <= AHEAD


@pytest.mark.parametrize("call", ["write_dataset", "append", "fragments.write"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([""] + ["x"] * (ROWS - 1)),
        pa.array([None] + [1] * (ROWS - 1), pa.int64()),
        pa.array([""] + ["x"] * (ROWS - 1)).dictionary_encode(),
    ],
    ids=["empty texts", "null numbers", "empty texts of a dictionary"],
)
def test_values_that_the_table_cannot_store_are_refused_before_the_whole_stream_is_read(
    call: str, column: pa.Array
) -> None:
    uri = f"memory://refused/values/{call}/{column.type}"
    batch = pa.record_batch({"x": column})
    rows = Source(batch.schema, batch)
    options: dict[str, Any] = {"max_rows_per_page": ROWS}
    refused = pytest.raises(pilum.InvalidInputError, match="`x`")
    if call == "write_dataset":
        with refused:
            pilum.write_dataset(rows.reader(), uri, compat="lance", **options)
    elif call == "fragments.write":
        with refused:
            pilum.fragments.write(rows.reader(), uri, mode="create", compat="lance", **options)
    else:
        good = pa.table({"x": column.slice(1).cast(getattr(column.type, "value_type", column.type))})
        ds = pilum.write_dataset(good.cast(batch.schema), uri, compat="lance").dataset
        with refused:
            ds.append(rows.reader(), **options)
    assert rows.given < 20, rows.given
