"""Decoding and encoding of Skiff streams."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import checked
from pilum.exceptions import CorruptError, InvalidInputError
from pilum.skiff.arguments import one_of, true_or_false, whole_number
from pilum.skiff.formats import Format, check_format, table_number
from pilum.skiff.streams import Sink, Source, flush, reader_of, writer_of

if TYPE_CHECKING:
    import pyarrow as pa


@checked(batch_rows=None, batch_bytes=None)
def decode(
    readable: Source,
    format: Format,
    *,
    batch_rows: int = 65_536,
    batch_bytes: int = 16 << 20,
    order: Literal["stream", "table"] = "stream",
    cut_at_key_switch: bool = False,
    end_of_stream: bool = False,
    validate_yson: bool = True,
    special_decimals: Literal["error", "null"] = "error",
    keep_sparse_order: bool = False,
    max_row_bytes: int = 256 << 20,
    errors: Literal["strict", "warn"] = "strict",
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Decode a stream into pairs of a table number and a record batch.

    Control columns are columns like others, and resolved: `$key_switch` (bool), `$row_index` and `$range_index` (int64; null
    where the stream says that the index is not available).

    Args:
        readable: A binary file, a pipe, a socket, bytes, or a file descriptor, which stays open.
        format: The schemas of the tables.
        batch_rows: Most rows of a batch.
        batch_bytes: Bytes of memory at which a batch is cut. All tables together hold no more than this and one row.
        order: `"stream"`: batches come in the order of the rows, a new one wherever the table changes. `"table"`: the rows of
            every table are collected, and only their order within the table is kept.
        cut_at_key_switch: Whether a new batch begins at every row whose `$key_switch` is true.
        end_of_stream: Whether the stream ends with the tag `FF FF`, as with the control attribute `enable_end_of_stream`.
        validate_yson: Whether every `yson32` is checked to be one YSON node.
        special_decimals: What NaN and the infinities of a decimal are, which Arrow does not have: `"error"`, or `"null"` in
            nullable columns, with a `RuntimeWarning` at the end that says how many.
        keep_sparse_order: Whether tables with sparse columns get the column `$sparse_columns`, a list of the numbers of each
            row's sparse columns in the order of the stream. `encode` writes them in this order, so that the stream of a
            server is the same bytes again.
        max_row_bytes: Most bytes of one row.
        errors: What a malformed stream does after all rows before the fault were given: `"strict"` raises, `"warn"` issues a
            `RuntimeWarning` and ends. With `"warn"`, keys of `$other_columns` that are columns too stay in their map.

    Raises:
        CorruptError: The stream is malformed. `error_class` names the fault; `offset`, `table`, `row` and `column` its place.
        LimitError: A row is larger than `max_row_bytes`.
    """
    check_format(format)
    one_of("errors", errors, "strict", "warn")
    one_of("order", order, "stream", "table")
    one_of("special_decimals", special_decimals, "error", "null")
    for name, flag in (
        ("cut_at_key_switch", cut_at_key_switch),
        ("end_of_stream", end_of_stream),
        ("validate_yson", validate_yson),
        ("keep_sparse_order", keep_sparse_order),
    ):
        true_or_false(name, flag)
    options = {
        "batch_rows": whole_number("batch_rows", batch_rows, least=1),
        "batch_bytes": whole_number("batch_bytes", batch_bytes, least=1),
        "keeps_order": order == "stream",
        "cuts_at_key_switch": cut_at_key_switch,
        "has_end_of_stream": end_of_stream,
        "validates_yson": validate_yson,
        "special_as_null": special_decimals == "null",
        "rejects_duplicates": errors == "strict",
        "keeps_sparse_order": keep_sparse_order,
        "max_row_bytes": whole_number("max_row_bytes", max_row_bytes, least=1),
    }
    batches = _pilum.SkiffBatches(reader_of(readable), format.engine, options)
    return _decoded(batches, errors == "warn")


def _decoded(batches: _pilum.SkiffBatches, warns: bool) -> Iterator[tuple[int, pa.RecordBatch]]:
    import pyarrow as pa

    try:
        for table, batch in batches:
            yield table, pa.record_batch(batch)
    except CorruptError as error:
        if not warns:
            raise
        warnings.warn(f"the stream ends early: {error}", RuntimeWarning, stacklevel=2)
    if batches.num_special_decimals:
        count = batches.num_special_decimals
        message = f"{count} decimals that are NaN or infinite were read as null: Arrow does not have them"
        warnings.warn(message, RuntimeWarning, stacklevel=2)


@checked()
def encode(
    batches: Any,
    writable: Sink,
    format: Format,
    table: int = 0,
    *,
    end_of_stream: bool = False,
    validate_yson: bool = True,
) -> int:
    """Encode record batches into a stream, and return the number of rows.

    Columns are matched with those of the format by name, and so are members of structs and alternatives of unions. Columns that
    the format does not have go into `$other_columns`; without that they are refused. Nothing is converted: an integer, a
    decimal or a time is refused where the format has another kind, scale or unit, and a value that the Arrow type of the format
    does not hold is an error with its row.

    Args:
        batches: Record batches, or a table or reader. Every row then begins with `00 00`, as in the stream of an output table.
            Pairs of a table number and a batch, as `decode` gives them, make a stream as jobs read it: every row begins with
            the number of its table.
        writable: A binary file, a pipe, a socket, or a file descriptor, which stays open.
        format: The schemas of the tables.
        table: The table of the format that batches without a number belong to.
        end_of_stream: Whether to end with the tag `FF FF`.
        validate_yson: Whether every `yson32` is checked to be one YSON node.

    Raises:
        InvalidInputError: The schema refuses a value. `error_class` names the reason; `table`, `row` and `column` the place.
            The rows before it are written.
        UnsupportedError: The type of a column does not map.
    """
    check_format(format)
    table = table_number(table, format)
    true_or_false("end_of_stream", end_of_stream)
    true_or_false("validate_yson", validate_yson)
    write = writer_of(writable)
    encoder: _pilum.SkiffEncoder | None = None
    has_numbers = False
    for item in _items(batches):
        is_pair = isinstance(item, tuple)
        number, batch = item if is_pair and len(item) == 2 else (table, item)
        if not hasattr(batch, "__arrow_c_stream__") and not hasattr(batch, "__arrow_c_array__"):
            raise InvalidInputError(
                f"encode takes record batches, or pairs of a table number and a batch, not {type(batch).__name__}"
            )
        if encoder is None:
            has_numbers = is_pair
            tags: Literal["input", "output"] = "input" if is_pair else "output"
            encoder = _pilum.SkiffEncoder(format.engine, tags, end_of_stream, validate_yson)
        elif is_pair != has_numbers:
            raise InvalidInputError(
                "some batches have a table number and some have none: give all of them one, or none of them"
            )
        encoder.encode(table_number(number, format), batch, write)
    if encoder is None:
        encoder = _pilum.SkiffEncoder(format.engine, "output", end_of_stream, validate_yson)
    encoder.finish(write)
    flush(writable)
    return encoder.num_rows


def _items(batches: Any) -> Iterable[Any]:
    if hasattr(batches, "__arrow_c_stream__") or hasattr(batches, "__arrow_c_array__"):
        return [batches]
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes)):
        raise InvalidInputError(f"encode takes record batches, a table or a reader, not {type(batches).__name__}")
    return batches
