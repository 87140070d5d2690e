"""Formats, decoding and encoding of Skiff streams."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pilum import _pilum
from pilum.exceptions import CorruptError, InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class Readable(Protocol):
    """A file, a pipe or the file of a socket."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes; none at the end."""


@runtime_checkable
class Writable(Protocol):
    """A file, a pipe or the file of a socket."""

    def write(self, data: bytes, /) -> int | None:
        """Take bytes and return how many."""


Source = Readable | bytes | bytearray | memoryview | int
"""An object with `read`, bytes, or the number of a file descriptor."""

Sink = Writable | int
"""An object with `write`, or the number of a file descriptor."""


Strings = Literal["binary", "text"]
"""What `string32` is decoded to."""


class Format:
    """The schemas of the tables of a stream.

    A table is decoded to the Arrow schema `schemas[table]`, and batches to encode are matched with it by column name.
    """

    __slots__ = ("engine",)

    def __init__(self, engine: _pilum.SkiffFormat) -> None:
        self.engine = engine

    @classmethod
    def from_json(
        cls, format: str | bytes | Mapping[str, Any], *, strings: Literal["binary", "text"] = "binary"
    ) -> Format:
        """Read the JSON form: `{"$value": "skiff", "$attributes": {..}}`, or the attributes alone.

        Args:
            format: The text, or what `json.loads` makes of it.
            strings: What `string32` is decoded to: `"binary"`, or `"text"` for the `string` of Arrow; other bytes are then
                an error.

        Raises:
            InvalidInputError: A schema breaks a rule; `error_class` is `SchemaError`, and the message names the node.
            UnsupportedError: A type that Arrow cannot hold.
        """
        if isinstance(format, Mapping):
            format = json.dumps(format)
        elif isinstance(format, bytes):
            format = _text(format)
        return cls(_pilum.SkiffFormat.from_json(format, strings))

    @classmethod
    def from_yson(cls, format: str | bytes, *, strings: Strings = "binary") -> Format:
        """Read the YSON form, text or binary: `<table_skiff_schemas=[..]>skiff`, or a map of the attributes.

        Raises:
            InvalidInputError: As `from_json`.
        """
        return cls(_pilum.SkiffFormat.from_yson(_bytes(format), strings))

    @classmethod
    def from_arrow(cls, schema: Any) -> Format:
        """Return the format whose tables have these Arrow schemas: one schema, or a list of one per table.

        Raises:
            UnsupportedError: Skiff cannot carry a column; the message says what to cast it to.
        """
        schemas = list(schema) if isinstance(schema, (list, tuple)) else [schema]
        return cls(_pilum.SkiffFormat.from_arrow(schemas))

    @classmethod
    def from_table_schema(cls, columns: str | bytes | Sequence[Any] | Mapping[str, Any]) -> Format:
        """Return the format of one YTsaurus table: a list of columns with `name` and `type_v3`, or `type` and `required`.

        Args:
            columns: YSON or JSON, or what `json.loads` makes of it. The attribute `strict=%false` adds `$other_columns`.

        Raises:
            UnsupportedError: A column does not map.
        """
        if not isinstance(columns, (str, bytes)):
            columns = json.dumps(columns)
        return cls(_pilum.SkiffFormat.from_table_schema(_bytes(columns)))

    @property
    def schemas(self) -> list[pa.Schema]:
        """The Arrow schema of every table, control columns included."""
        import pyarrow as pa

        return [pa.schema(self.engine.schema(table)) for table in range(len(self))]

    def with_schema(self, schema: Any, table: int = 0) -> Format:
        """Return the format with other Arrow types for the columns that `schema` names.

        Raises:
            UnsupportedError: The wire type of a column is not decoded to its type.
        """
        return Format(self.engine.with_schema(table, schema))

    def to_json(self) -> str:
        """Return the JSON form for an operation's specification. Schemas that repeat are in the registry."""
        return self.engine.to_json()

    def to_yson(self, *, binary: bool = False) -> bytes:
        """Return the YSON form for an operation's specification. Schemas that repeat are in the registry."""
        return self.engine.to_yson(binary)

    def explain(self) -> str:
        """Return a line per column: its bytes, its Arrow type, and what it is for."""
        return self.engine.explain()

    def annotate(self, stream: bytes, max_rows: int = 10) -> str:
        """Return the first rows of a stream as an annotated hex dump, one line per field; a fault is the last line."""
        return self.engine.annotate(stream, max_rows)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self.engine)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.engine == other.engine

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<pilum.skiff.Format of {len(self)} tables>"

    def __reduce__(self) -> tuple[Callable[..., Format], tuple[str, list[pa.Schema]]]:
        return _unpickled, (self.to_json(), self.schemas)


def _unpickled(text: str, schemas: list[pa.Schema]) -> Format:
    format = Format.from_json(text)
    for table, schema in enumerate(schemas):
        format = format.with_schema(schema, table)
    return format


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
    max_row_bytes: int = 256 << 20,
    errors: Literal["strict", "warn"] = "strict",
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Decode a stream into pairs of a table number and a record batch.

    Control columns are columns like others, and resolved: `$key_switch` (bool), `$row_index` and `$range_index` (int64; null
    where the stream says that the index is not available).

    Args:
        readable: A binary file, pipe or socket file, bytes, or a file descriptor, which stays open.
        format: The schemas of the tables.
        batch_rows: Most rows of a batch.
        batch_bytes: Bytes of memory at which a batch is cut. All tables together hold no more than this and one row.
        order: `"stream"`: batches come in the order of the rows, a new one wherever the table changes. `"table"`: the rows of
            every table are collected, and only their order within the table is kept.
        cut_at_key_switch: Whether a new batch begins at every row whose `$key_switch` is true.
        end_of_stream: Whether the stream ends with the tag `FF FF`, as with the control attribute `enable_end_of_stream`.
        validate_yson: Whether every `yson32` is checked to be one YSON node.
        max_row_bytes: Most bytes of one row.
        errors: What a malformed stream does after all rows before the fault were given: `"strict"` raises, `"warn"` issues a
            `RuntimeWarning` and ends.

    Raises:
        CorruptError: The stream is malformed. `error_class` names the fault; `offset`, `table`, `row` and `column` its place.
        LimitError: A row is larger than `max_row_bytes`.
    """
    if errors not in {"strict", "warn"}:
        raise InvalidInputError(f'errors={errors!r}: "strict" or "warn" is expected')
    if order not in {"stream", "table"}:
        raise InvalidInputError(f'order={order!r}: "stream" or "table" is expected')
    options = {
        "batch_rows": batch_rows,
        "batch_bytes": batch_bytes,
        "keeps_order": order == "stream",
        "cuts_at_key_switch": cut_at_key_switch,
        "has_end_of_stream": end_of_stream,
        "validates_yson": validate_yson,
        "max_row_bytes": max_row_bytes,
    }
    batches = _pilum.SkiffBatches(_reader(readable), format.engine, options)
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


def _reader(readable: Source) -> Any:
    """Return bytes, or a function that returns at most so many bytes as soon as some are there."""
    if isinstance(readable, bytes):
        return readable
    if isinstance(readable, (bytearray, memoryview)):
        return bytes(readable)
    if isinstance(readable, int):
        return io.FileIO(readable, "rb", closefd=False).read
    # `read` of a buffered reader waits for all the bytes that were asked for: a slow writer would seem to hang.
    for name in ("read1", "read"):
        read = getattr(readable, name, None)
        if read is not None:
            return read
    raise InvalidInputError(
        f"cannot read from a {type(readable).__name__}: pass a binary file, bytes or a file descriptor"
    )


def writer_of(writable: Sink) -> Callable[[bytes], int | None]:
    """Return the function that takes bytes."""
    if isinstance(writable, int):
        return io.FileIO(writable, "wb", closefd=False).write
    sink: Any = writable
    if isinstance(sink, io.TextIOBase) or not isinstance(sink, Writable):
        raise InvalidInputError(f"cannot write to a {type(writable).__name__}: pass a binary file or a file descriptor")
    write: Callable[[bytes], int | None] = sink.write
    return write


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

    Columns are matched with those of the format by name. Those that the format does not have go into `$other_columns`; without
    that they are refused.

    Args:
        batches: Record batches, or a table or reader. Every row then begins with `00 00`, as in the stream of an output table.
            Pairs of a table number and a batch, as `decode` gives them, make a stream as jobs read it: every row begins with
            the number of its table.
        writable: A binary file, pipe or socket file, or a file descriptor, which stays open.
        format: The schemas of the tables.
        table: The table of the format that batches without a number belong to.
        end_of_stream: Whether to end with the tag `FF FF`.
        validate_yson: Whether every `yson32` is checked to be one YSON node.

    Raises:
        InvalidInputError: The schema refuses a value. `error_class` names the reason; `table`, `row` and `column` the place.
            The rows before it are written.
        UnsupportedError: The type of a column does not map.
    """
    write = writer_of(writable)
    encoder: _pilum.SkiffEncoder | None = None
    for item in _items(batches):
        is_pair = isinstance(item, tuple)
        number, batch = item if is_pair else (table, item)
        if encoder is None:
            tags: Literal["input", "output"] = "input" if is_pair else "output"
            encoder = _pilum.SkiffEncoder(format.engine, tags, end_of_stream, validate_yson)
        encoder.encode(number, batch, write)
    if encoder is None:
        encoder = _pilum.SkiffEncoder(format.engine, "output", end_of_stream, validate_yson)
    encoder.finish(write)
    flush = getattr(writable, "flush", None)
    if flush is not None:
        flush()
    return encoder.num_rows


def _items(batches: Any) -> Iterable[Any]:
    if hasattr(batches, "__arrow_c_stream__") or hasattr(batches, "__arrow_c_array__"):
        return [batches]
    return batches  # type: ignore[no-any-return]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the JSON is not UTF-8: {error}") from None
