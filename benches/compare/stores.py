"""The stores that are measured side by side: each writes one table, opens it, scans it, takes rows from it.

Every store is used as its own documentation shows, with its defaults. Where a default would make the comparison unfair it is
said here: nobody but pilum makes files durable, so pilum is measured with and without.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet as pq
from tables import BATCH_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Between:
    """Rows whose number lies between two others, both included."""

    column: str
    low: int
    high: int

    def sql(self) -> str:
        """Return the condition as text."""
        same = f"{self.column} = {self.low}"
        return same if self.low == self.high else f"{self.column} >= {self.low} AND {self.column} <= {self.high}"

    def arrow(self) -> pc.Expression:
        """Return the condition for pyarrow."""
        field = pc.field(self.column)
        return field == self.low if self.low == self.high else (field >= self.low) & (field <= self.high)


@dataclass(frozen=True)
class StartsWith:
    """Rows whose text begins so."""

    column: str
    prefix: str

    def sql(self) -> str:
        """Return the condition as text."""
        return f"{self.column} LIKE '{self.prefix}%'"

    def arrow(self) -> pc.Expression:
        """Return the condition for pyarrow."""
        return pc.starts_with(pc.field(self.column), self.prefix)


Condition = Between | StartsWith


class Store(ABC):
    """One way of keeping a table in a file or folder."""

    name: str
    note: str = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, table: str) -> Path:
        """Return where a table is kept."""
        return self.folder / f"{table}.{self.name.split()[0]}.{type(self).__name__}"

    def clear(self, table: str) -> None:
        """Remove a table."""
        path = self.path(table)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)

    def bytes_on_disk(self, table: str) -> int:
        """Return the size of all files of a table."""
        path = self.path(table)
        return path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())

    @abstractmethod
    def write(self, table: str, batches: pa.RecordBatchReader) -> None:
        """Write a table from a stream of batches."""

    @abstractmethod
    def open(self, table: str) -> Any:
        """Open a table far enough to know its columns."""

    @abstractmethod
    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        """Yield all rows of some columns, with text as `string` and vectors as `fixed_size_list`."""

    @abstractmethod
    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        """Yield all columns of the rows that meet a condition."""

    @abstractmethod
    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        """Return rows by ascending position, all columns."""


class Pilum(Store):
    """This project, files made durable: its default."""

    name = "pilum"
    durability = "full"

    def write(self, table: str, batches: pa.RecordBatchReader) -> None:
        import pilum

        pilum.write_dataset(batches, self.path(table), durability=self.durability)  # type: ignore[arg-type]

    def open(self, table: str) -> Any:
        import pilum

        return pilum.dataset(self.path(table))

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return opened.to_batches(columns)

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        return opened.to_batches(filter=condition.sql())

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        return opened.take(rows)


class PilumScratch(Pilum):
    """This project without waiting for the disk, as the others."""

    name = "pilum scratch"
    note = 'durability="none", as all the others'
    durability = "none"


class PylanceLegacy(Store):
    """The real library with the format that pilum shares."""

    name = "pylance legacy"
    note = "the same format, v1"
    version: str | None = "legacy"

    def write(self, table: str, batches: pa.RecordBatchReader) -> None:
        import lance

        lance.write_dataset(batches, str(self.path(table)), data_storage_version=self.version)

    def open(self, table: str) -> Any:
        import lance

        return lance.dataset(str(self.path(table)))

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return opened.to_batches(columns=columns)

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        return opened.to_batches(filter=condition.sql())

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        return opened.take(rows)


class PylanceDefault(PylanceLegacy):
    """The real library with its newest stable format."""

    name = "pylance default"
    note = "v2, compressed"
    version = None


class Parquet(Store):
    """Parquet through pyarrow, its defaults: snappy, dictionaries."""

    name = "parquet"
    note = "pyarrow's defaults; scan and take through pyarrow.dataset"

    def write(self, table: str, batches: pa.RecordBatchReader) -> None:
        with pq.ParquetWriter(str(self.path(table)), batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch, row_group_size=1 << 20)

    def open(self, table: str) -> Any:
        return pa.dataset.dataset(str(self.path(table)), format="parquet")

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return opened.to_batches(columns=columns)

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        return opened.to_batches(filter=condition.arrow())

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        return opened.take(rows)


class DuckParquet(Parquet):
    """The same Parquet file, asked by DuckDB."""

    name = "duckdb"
    note = "on the Parquet file"

    def open(self, table: str) -> Any:
        import duckdb

        path = str(self.path(table))
        connection = duckdb.connect()
        connection.execute("SET arrow_large_buffer_size = false")
        return connection, f"read_parquet('{path}')"

    def _rows(self, opened: Any, query: str) -> Iterable[pa.RecordBatch]:
        return opened[0].sql(query.format(opened[1])).to_arrow_reader(BATCH_ROWS)

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return self._rows(opened, f"SELECT {', '.join(columns) if columns else '*'} FROM {{}}")

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        return self._rows(opened, f"SELECT * FROM {{}} WHERE {condition.sql()}")

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        chosen = ", ".join(map(str, rows))
        numbered = f"{opened[1][:-1]}, file_row_number = true)"
        query = f"SELECT * EXCLUDE file_row_number FROM {numbered} WHERE file_row_number IN ({chosen})"
        return opened[0].sql(query).to_arrow_table()


class PolarsParquet(Parquet):
    """The same Parquet file, asked by Polars."""

    name = "polars"
    note = "on the Parquet file, lazily"

    def open(self, table: str) -> Any:
        import polars as pl

        return pl.scan_parquet(self.path(table))

    def _arrow(self, frame: Any) -> pa.Table:
        return frame.collect().to_arrow(compat_level=self._plain())

    def _plain(self) -> Any:
        import polars as pl

        return pl.CompatLevel.oldest()

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        return self._arrow(opened if columns is None else opened.select(columns)).to_batches()

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        import polars as pl

        column = pl.col(condition.column)
        chosen = (
            column.str.starts_with(condition.prefix)
            if isinstance(condition, StartsWith)
            else column.is_between(condition.low, condition.high)
        )
        return self._arrow(opened.filter(chosen)).to_batches()

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        import polars as pl

        return self._arrow(opened.select(pl.all().gather(rows)))


class ArrowIpc(Store):
    """An Arrow IPC file, mapped: the floor for a scan, since nothing is decoded."""

    name = "arrow ipc"
    note = "memory mapped, uncompressed"

    def write(self, table: str, batches: pa.RecordBatchReader) -> None:
        with pa.OSFile(str(self.path(table)), "wb") as file, pa.ipc.new_file(file, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def open(self, table: str) -> Any:
        return pa.ipc.open_file(pa.memory_map(str(self.path(table))))

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        for place in range(opened.num_record_batches):
            batch = opened.get_batch(place)
            yield batch if columns is None else batch.select(columns)

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        for place in range(opened.num_record_batches):
            yield opened.get_batch(place).filter(condition.arrow())

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        return opened.read_all().take(rows)


class Vortex(Store):
    """Vortex, its defaults; text is asked for as `string`, as the others give it."""

    name = "vortex"
    note = "compressed; text asked for as string"

    def write(self, table: str, batches: pa.RecordBatchReader) -> None:
        import vortex

        vortex.io.write(batches, str(self.path(table)))

    def open(self, table: str) -> Any:
        import vortex

        opened = vortex.open(str(self.path(table)))
        return opened, opened.dtype.to_arrow_schema()

    def scan(self, opened: Any, columns: list[str] | None) -> Iterable[pa.RecordBatch]:
        file, schema = opened
        return file.to_arrow(columns, schema=plain(schema, columns))

    def filter(self, opened: Any, condition: Condition) -> Iterable[pa.RecordBatch]:
        import vortex.expr

        file, schema = opened
        column = vortex.expr.column(condition.column)
        if isinstance(condition, StartsWith):
            chosen = vortex.expr.like(column, condition.prefix + "%")
        else:
            chosen = (column >= condition.low) & (column <= condition.high)
        return file.to_arrow(expr=chosen, schema=plain(schema, None))

    def take(self, opened: Any, rows: list[int]) -> pa.Table:
        import vortex

        file, schema = opened
        return file.to_arrow(indices=vortex.array(pa.array(rows, pa.uint64())), schema=plain(schema, None)).read_all()


def plain(schema: pa.Schema, columns: list[str] | None) -> pa.Schema:
    """Return the schema with views spelled as the plain types."""
    fields = [
        pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type, f.nullable)
        for f in schema
        if columns is None or f.name in columns
    ]
    return pa.schema(fields)


STORES: list[type[Store]] = [
    Pilum,
    PilumScratch,
    PylanceLegacy,
    PylanceDefault,
    Parquet,
    DuckParquet,
    PolarsParquet,
    ArrowIpc,
    Vortex,
]
