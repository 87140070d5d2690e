"""Input of users as an Arrow stream: tables, frames, readers, batches and iterators of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pilum.exceptions import InvalidInputError, PilumError
from pilum.inputs import opened

if TYPE_CHECKING:
    import pyarrow as pa


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that exports a stream of record batches: tables and readers of pyarrow, polars, duckdb, pandas."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a capsule with an Arrow C stream."""


@runtime_checkable
class ArrowArray(Protocol):
    """Anything that exports one record batch as a struct array."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return the capsules of an Arrow C schema and array."""


@contextmanager
def rows_of(data: Any, schema: pa.Schema | None = None, missing: str | None = None) -> Iterator[ArrowStream]:
    """Yield `data` as a stream. An exception of the user's iterator, Ctrl-C too, is raised here with its own class.

    The C stream between them carries only the text of an exception.
    """
    raised: list[BaseException] = []
    try:
        yield as_stream(data, schema, raised, missing)
    except PilumError:
        if raised:
            raise raised[0] from None
        raise
    except BaseException as error:
        if raised:
            raise raised[0] from None
        if type(error).__module__.startswith("pyarrow"):
            raise InvalidInputError(f"the rows cannot be taken: {error}; cast them first") from error
        raise


def as_stream(
    data: Any, schema: pa.Schema | None = None, raised: list[BaseException] | None = None, missing: str | None = None
) -> ArrowStream:
    """Return `data` as something the engine can pull batches from, one at a time.

    Args:
        data: A table, frame, record batch or reader of any library with the Arrow C interface, an iterator of pyarrow record
            batches, or anything that `pilum.inputs.opened` opens.
        schema: The columns of an iterator without batches. The engine brings all rows to the schema that is written.
        raised: Receives the exception that an iterator raises while it is pulled.
        missing: `"error"` refuses files of a dataset that lack one of its columns.

    Raises:
        InvalidInputError: `data` is none of these.
    """
    data = opened(data, schema, raised, missing)
    if isinstance(data, ArrowStream):
        return data
    import pyarrow as pa

    if isinstance(data, ArrowArray):
        batch = pa.record_batch(data)
        reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
    elif isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
        reader = _from_iterator(iter(data), schema, [] if raised is None else raised)
    else:
        raise InvalidInputError(
            f"cannot write a {type(data).__name__}: pass an Arrow table, batch or reader (of pyarrow, polars, duckdb or "
            "pandas), or an iterator of record batches with schema="
        )
    return _as_arrow_stream(reader)


def _from_iterator(
    batches: Iterator[Any], schema: pa.Schema | None, raised: list[BaseException]
) -> pa.RecordBatchReader:
    import pyarrow as pa

    first = next(batches, None)
    if first is None:
        if schema is None:
            raise InvalidInputError("an iterator without batches has no columns: pass schema=")
        return pa.RecordBatchReader.from_batches(schema, [])

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            yield from map(_batch, chain([first], batches))
        except GeneratorExit:
            raise
        except BaseException as error:
            raised.append(error)
            raise

    own = getattr(first, "schema", None) or schema
    return pa.RecordBatchReader.from_batches(_batch(first).schema if own is None else own, checked())


def _batch(item: Any) -> pa.RecordBatch:
    import pyarrow as pa

    if not isinstance(item, ArrowArray):
        raise InvalidInputError(f"the iterator yielded a {type(item).__name__}: every item must be a record batch")
    return pa.record_batch(item)


def _as_arrow_stream(reader: pa.RecordBatchReader) -> ArrowStream:
    # pyarrow has no type annotations: the assignment gives its reader a type.
    stream: ArrowStream = reader
    return stream


def as_positions(indices: Any) -> list[Any]:
    """Return row positions of any sequence (list, range, numpy, Arrow, pandas) as a list. The engine checks its elements.

    Raises:
        InvalidInputError: `indices` is not a sequence.
    """
    plain = indices
    for method in ("to_pylist", "tolist", "to_list"):
        convert = getattr(indices, method, None)
        if convert is not None:
            plain = convert()
            break
    try:
        return plain if isinstance(plain, list) else list(plain)
    except TypeError:
        raise InvalidInputError(f"row positions are a sequence of integers, not a {type(indices).__name__}") from None
