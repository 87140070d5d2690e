"""Formats: the schemas of the tables of a Skiff stream."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilum import _pilum
from pilum.arguments import checked
from pilum.exceptions import InvalidInputError, NotFoundError, PilumError
from pilum.skiff.arguments import counted, integer, one_of, true_or_false, whole_number

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_SCHEMAS = "arrow_schemas"
"""The attribute with the Arrow schemas of the tables, which YTsaurus does not know."""

Strings = Literal["binary", "text"]
"""What `string32` is decoded to."""


class Format:
    """The schemas of the tables of a stream.

    A table is decoded to the Arrow schema `schemas[table]`, and batches to encode are matched with it by column name. A format
    is made by `from_json`, `from_yson`, `from_arrow`, `from_table_schema`, or `load` for a file.
    """

    __slots__ = ("engine",)

    def __init__(self, engine: _pilum.SkiffFormat) -> None:
        if not isinstance(engine, _pilum.SkiffFormat):
            raise InvalidInputError(
                "Format(..) is not for users: use Format.from_json, from_yson, from_arrow, from_table_schema or load"
            )
        self.engine = engine

    @classmethod
    @checked()
    def load(cls, source: str | os.PathLike[str], *, strings: Strings = "binary") -> Format:
        """Read a format from a local file, or from text that begins with `{` or `<`; JSON and YSON are told apart.

        Raises:
            NotFoundError: There is no such file.
            InvalidInputError: As `from_json`.
        """
        if not isinstance(source, (str, os.PathLike)):
            raise InvalidInputError(f"load takes a path or a text, not {type(source).__name__}")
        text = str(os.fspath(source))
        if text.lstrip()[:1] in {"{", "<"}:
            content = text.encode()
        elif Path(text).is_file():
            content = Path(text).read_bytes()
        else:
            raise NotFoundError(f"{text}: there is no such local file, and it is no format in JSON or YSON")
        try:
            return cls._read(content, strings)
        except PilumError as error:
            if content != text.encode():
                error.args = (f"{text}: {error}",)
            raise

    @classmethod
    def _read(cls, content: bytes, strings: Strings) -> Format:
        """Return the format of a text, JSON or YSON."""
        if content.lstrip()[:1] == b"<":
            return cls.from_yson(content, strings=strings)
        try:
            return cls.from_json(content, strings=strings)
        except InvalidInputError as error:
            # A map of the attributes may be YSON too.
            if getattr(error, "error_class", None) != "BadJson":
                raise
            try:
                return cls.from_yson(content, strings=strings)
            except InvalidInputError:
                raise error from None

    @classmethod
    @checked()
    def from_json(cls, format: str | bytes | Mapping[str, Any], *, strings: Strings = "binary") -> Format:
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
            format = _dumped(format)
        elif isinstance(format, bytes):
            format = _text(format)
        elif not isinstance(format, str):
            raise InvalidInputError(f"from_json takes a text or a mapping, not {type(format).__name__}")
        one_of("strings", strings, "binary", "text")
        engine = _pilum.SkiffFormat.from_json(format, strings)
        return cls(_with_arrow_types(engine, format) if ARROW_SCHEMAS in format else engine)

    @classmethod
    @checked()
    def from_yson(cls, format: str | bytes, *, strings: Strings = "binary") -> Format:
        """Read the YSON form, text or binary: `<table_skiff_schemas=[..]>skiff`, or a map of the attributes.

        Raises:
            InvalidInputError: As `from_json`.
        """
        if not isinstance(format, (str, bytes)):
            raise InvalidInputError(f"from_yson takes a text or bytes, not {type(format).__name__}")
        one_of("strings", strings, "binary", "text")
        return cls(_pilum.SkiffFormat.from_yson(_bytes(format), strings))

    @classmethod
    @checked(schema=None)
    def from_arrow(cls, schema: Any) -> Format:
        """Return the format whose tables have these Arrow schemas: one schema, or a list of one per table.

        Raises:
            UnsupportedError: Skiff cannot carry a column; the message says what to cast it to.
        """
        schemas = list(schema) if isinstance(schema, (list, tuple)) else [schema]
        for given in schemas:
            if not hasattr(given, "__arrow_c_schema__"):
                raise InvalidInputError(
                    f"from_arrow takes an Arrow schema or a list of them, not {type(given).__name__}"
                )
        return cls(_pilum.SkiffFormat.from_arrow(schemas))

    @classmethod
    @checked(columns=None)
    def from_table_schema(cls, columns: str | bytes | Sequence[Any] | Mapping[str, Any]) -> Format:
        """Return the format of one YTsaurus table: a list of columns with `name` and `type_v3`, or `type` and `required`.

        Args:
            columns: YSON or JSON, or what `json.loads` makes of it. The attribute `strict=%false` adds `$other_columns`.

        Raises:
            UnsupportedError: A column does not map.
        """
        if not isinstance(columns, (str, bytes)):
            columns = _dumped(columns)
        return cls(_pilum.SkiffFormat.from_table_schema(_bytes(columns)))

    @property
    def schemas(self) -> list[pa.Schema]:
        """The Arrow schema of every table, control columns included."""
        import pyarrow as pa

        # Thousands of tables may share one schema, which is exported once.
        shared = {table: pa.schema(self.engine.schema(table)) for table in set(self.engine.same_schemas())}
        return [shared[table] for table in self.engine.same_schemas()]

    @checked(schema=None)
    def with_schema(self, schema: Any, table: int = 0) -> Format:
        """Return the format with other Arrow types for the columns that `schema` names; docs/skiff.md has the pairs.

        The field of an optional column must be nullable. The field of a required column may be nullable or not: its values are
        never null.

        Raises:
            InvalidInputError: The format has no such table.
            UnsupportedError: There is no such column, or its wire type is not decoded to this type.
        """
        if not hasattr(schema, "__arrow_c_schema__"):
            raise InvalidInputError(f"with_schema takes an Arrow schema, not {type(schema).__name__}")
        return Format(self.engine.with_schema(table_number(table, self), schema))

    @checked()
    def to_json(self, *, arrow_types: bool = False) -> str:
        """Return the JSON form for an operation's specification. Schemas that repeat are in the registry.

        Args:
            arrow_types: Whether to add the attribute `arrow_schemas`, from which `from_json` and `load` restore the Arrow types
                too: for files that pilum reads again. YTsaurus does not know this attribute: leave it out of specifications.
        """
        true_or_false("arrow_types", arrow_types)
        text = self.engine.to_json()
        if not arrow_types:
            return text
        import pyarrow as pa

        document = json.loads(text)
        same = self.engine.same_schemas()
        numbers = {table: number for number, table in enumerate(dict.fromkeys(same))}
        document["$attributes"][ARROW_SCHEMAS] = {
            "schemas": [
                base64.b64encode(pa.schema(self.engine.schema(table)).serialize()).decode() for table in numbers
            ],
            "tables": [numbers[table] for table in same],
        }
        return json.dumps(document)

    @checked()
    def to_yson(self, *, binary: bool = False) -> bytes:
        """Return the YSON form for an operation's specification. Schemas that repeat are in the registry."""
        return self.engine.to_yson(true_or_false("binary", binary))

    @checked()
    def explain(self) -> str:
        """Return a line per column: its bytes, its Arrow type, and what it is for."""
        return self.engine.explain()

    @checked()
    def annotate(self, stream: bytes, max_rows: int = 10) -> str:
        """Return the first rows of a stream as an annotated hex dump, one line per field; a fault is the last line."""
        return self.annotate_start(stream, 0, max_rows)

    @checked()
    def annotate_start(self, stream: bytes, num_more: int, max_rows: int = 10) -> str:
        """Return the same for a stream that goes on for `num_more` bytes behind `stream`."""
        if not isinstance(stream, (bytes, bytearray, memoryview)):
            raise InvalidInputError(f"annotate takes the bytes of a stream, not {type(stream).__name__}")
        rows, more = whole_number("max_rows", max_rows), whole_number("num_more", num_more)
        return self.engine.annotate(bytes(stream), more, rows)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self.engine)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and self.engine == other.engine

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<pilum.skiff.Format of {counted(len(self), 'table')}>"

    def __reduce__(self) -> tuple[Callable[[str], Format], tuple[str]]:
        return Format.from_json, (self.to_json(arrow_types=True),)


def _with_arrow_types(engine: _pilum.SkiffFormat, text: str) -> _pilum.SkiffFormat:
    """Return the format with the Arrow schemas that `to_json(arrow_types=True)` added."""
    import pyarrow as pa

    document = json.loads(text)
    kept = document.get("$attributes", document).get(ARROW_SCHEMAS)
    if kept is None:
        return engine
    try:
        schemas = [pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))) for schema in kept["schemas"]]
        tables = [whole_number("a number in it", table) for table in kept["tables"]]
    except (TypeError, KeyError, ValueError, pa.ArrowException) as error:
        raise InvalidInputError(
            f"the attribute `{ARROW_SCHEMAS}` is not what to_json(arrow_types=True) writes: {error}; remove it"
        ) from error
    return engine.with_schemas(schemas, tables)


def table_number(table: int, format: Format) -> int:
    """Return the number of a table of the format.

    Raises:
        InvalidInputError: The format has no such table.
    """
    number = integer(table)
    if number is None or not 0 <= number < len(format):
        raise InvalidInputError(
            f"table {table!r}: the format has {counted(len(format), 'table')}; the first one is table 0"
        )
    return number


def check_format(format: object, name: str = "format") -> Format:
    """Return the format.

    Raises:
        InvalidInputError: It is something else.
    """
    if isinstance(format, Format):
        return format
    raise InvalidInputError(
        f"{name}: a pilum.skiff.Format is expected, not {type(format).__name__}; "
        "Format.from_json, from_yson, from_arrow, from_table_schema and load make one"
    )


def _dumped(value: object) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"it has no JSON form: {error}") from None


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the JSON is not UTF-8: {error}") from None
