"""Reading a dataset: rows, counts, partitions, indices, and which partitions a predicate needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pilum.arguments import ReadArguments, checked, flag, text
from pilum.kartothek.opened import Opened
from pilum.scanner import ScanOptions
from pilum.sources import FileScan, scanned

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from pilum import _pilum


class ScanArguments(ReadArguments, total=False):
    """Options of every read; see `Dataset.scanner`."""

    labels: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition: its label, the values of the partition keys, and the key of the file of each table."""

    label: str
    keys: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index: for each value of a column, the partitions that have a row with it. Nulls are not in it."""

    column: str
    key: str | None
    """The key of its file in the store; None if it is in the metadata document."""
    _engine: _pilum.KartothekDataset = field(repr=False, compare=False)

    def to_arrow(self) -> pa.Table:
        """Return the values, and in the column `partition` the list of labels of each. The first call reads the file."""
        import pyarrow as pa

        return pa.table(self._engine.index(self.column))


class Partitions(Mapping[str, Partition]):
    """The partitions by label."""

    __slots__ = ("_engine", "_keys")

    def __init__(self, engine: _pilum.KartothekDataset) -> None:
        import pyarrow as pa

        self._engine = engine
        rows = pa.record_batch(engine.keys()[0])
        values = [column.to_pylist() for column in rows.columns]
        names = rows.schema.names[1:]
        self._keys = {row[0]: dict(zip(names, row[1:], strict=True)) for row in zip(*values, strict=True)}

    def __getitem__(self, label: str) -> Partition:
        files = self._engine.files(label)
        if files is None:
            raise KeyError(label)
        return Partition(label, self._keys[label], dict(files))

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        shown = ", ".join(repr(label) for label in list(self._keys)[:3])
        return f"<{len(self):,} partitions: {shown}{', ...' if len(self) > 3 else ''}>"


class Scanner(FileScan):
    """A planned read of a table of a dataset, made by `Dataset.scanner`. It can run any number of times."""

    __slots__ = ()


class Reading(Opened):
    """The part of a `Dataset` that reads."""

    __slots__ = ()

    @property
    def partitions(self) -> Mapping[str, Partition]:
        """The partitions by label, with their partition keys and files. No file is opened."""
        return Partitions(self.engine)

    @property
    def indices(self) -> Mapping[str, Index]:
        """The secondary indices by column. An index is read when it is first used."""
        return {column: Index(column, key, self.engine) for column, key in self.engine.indices()}

    @checked(statistics=flag, table=text)
    def dispatch(self, predicates: Any = None, *, table: str | None = None, statistics: bool = True) -> list[str]:
        """Return the labels of the partitions that a predicate needs, by partition keys and secondary indices.

        No data file is opened, but for one case: no index tells where nulls are, so a predicate with `!=` or a null test on an
        indexed column makes every partition a candidate. With `statistics` such a candidate is looked into.

        Args:
            predicates: As in `scanner`. None returns all labels.
            table: The table whose columns the predicate names.
            statistics: Whether to look into partitions that only a null could bring in.

        Raises:
            InvalidInputError: The predicate does not fit the columns.
            CorruptError: An index is damaged, or names a partition that does not exist.
        """
        table = self.table(table)
        return self.engine.dispatch(table, self.filter(predicates, table), exact=statistics)

    @checked(ScanArguments, table=text)
    def scanner(
        self,
        table: str | None = None,
        predicates: Any = None,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        **options: Unpack[ScanArguments],
    ) -> Scanner:
        """Plan a read of one table. Nothing is read before the scanner runs.

        Args:
            table: The table; None stands for the table `table`, or for the only one.
            predicates: A list of lists of `(column, operator, value)` tuples with Kartothek's meaning: the outer list is OR,
                each inner list AND; operators are `==`, `!=`, `<`, `<=`, `>`, `>=` and `in`. Or a condition as in
                `pilum.Dataset.scanner`, with the meaning of SQL: text, `pilum.col(..)`, an expression of pyarrow.
            columns: Names in the order of the result, or a dict of names and expressions. None reads all columns.
            labels: Read only these partitions.
            limit: Rows of the result at most. None returns all.
            offset: Rows of the result that are left out at its start.
            batch_rows: Rows of a batch at most.
            batch_bytes: Bytes of a batch, about; 8 MiB by default.
            memory_limit: Bytes of decoded batches that the scan may hold at once.

        Raises:
            InvalidInputError: There is no such table, column or partition, or the predicate does not fit the columns.
        """
        table = self.table(table)
        labels = options.get("labels")
        others: Any = {name: value for name, value in options.items() if name != "labels"}
        planned = ScanOptions.of(columns, self.filter(predicates, table), schema=lambda: self.schema(table), **others)
        chosen = None if labels is None else list(labels)
        return Scanner(self.engine.scan(table, labels=chosen, **planned.of_any_source()), self.uri)

    to_table = scanned(scanner, Scanner.to_table, 'table = dataset.to_table(predicates=[[("day", ">=", 3)]])')
    to_batches = scanned(scanner, Scanner.to_batches, "sizes = [batch.num_rows for batch in dataset.to_batches()]")
    to_reader = scanned(scanner, Scanner.to_reader, 'reader = dataset.to_reader("core")')
    to_pandas = scanned(scanner, Scanner.to_pandas, "frame = dataset.to_pandas(limit=10)")
    to_polars = scanned(scanner, Scanner.to_polars, "frame = dataset.to_polars(limit=10)")

    @checked(table=text)
    def count_rows(
        self, table: str | None = None, predicates: Any = None, *, labels: Sequence[str] | None = None
    ) -> int:
        """Return the number of rows of a table, or of those for which a predicate is true.

        Without a predicate the footers of the files tell it.
        """
        table = self.table(table)
        chosen = None if labels is None else list(labels)
        return self.engine.count_rows(table, self.filter(predicates, table), chosen)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows of the table as an Arrow C stream, for datasets of one table."""
        return self.scanner().__arrow_c_stream__(requested_schema)
