"""A planned read of one version: it runs in this process, or is split into tasks for other processes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.arguments import checked, flag, positive
from pilum.conditions import named
from pilum.exceptions import InvalidInputError
from pilum.location import Location, StorageOptions
from pilum.sources import RowScan

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pilum.expr import Expr

TASK_BYTES = 64 << 20
"""Bytes on disk that one task reads, unless the caller says how many tasks there shall be.

A Spark task costs some 70 ms whatever it does, and moves some 0.25 GB of Arrow a second into the JVM: less would be all
overhead, more would leave cores idle.
"""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What a scan reads and how, without the version that it reads."""

    columns: tuple[str, ...] | Mapping[str, Expr | str] | None = None
    filter: Expr | str | None = None
    limit: int | None = None
    offset: int | None = None
    batch_rows: int | None = None
    batch_bytes: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    fragments: tuple[int, ...] | None = None
    ordered: bool = True
    memory_limit: int | None = None

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,  # noqa: A002 - the word that users know
        *,
        limit: int | None = None,
        offset: int | None = None,
        batch_rows: int | None = None,
        batch_bytes: int | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        fragments: Sequence[int] | None = None,
        ordered: bool = True,
        memory_limit: int | None = None,
        schema: Callable[[], pa.Schema] | None = None,
    ) -> ScanOptions:
        """Return the options with every way of writing columns and conditions brought to one form."""
        return cls(
            columns=_columns(columns, schema),
            filter=named("filter", filter, schema),
            limit=limit,
            offset=offset,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            with_row_id=with_row_id,
            with_row_address=with_row_address,
            fragments=None if fragments is None else tuple(int(fragment) for fragment in fragments),
            ordered=ordered,
            memory_limit=memory_limit,
        )

    def scan(self, version: _pilum.Dataset, fragments: Sequence[int] | None) -> _pilum.Scanner[_pilum.ScanMetrics]:
        """Plan the scan of one opened version in the engine."""
        return version.scan(
            **self.of_any_source(),
            with_row_id=self.with_row_id,
            with_row_address=self.with_row_address,
            fragments=None if fragments is None else list(fragments),
            ordered=self.ordered,
        )

    def of_any_source(self) -> dict[str, Any]:
        """Return the options that scans of every source have, as keywords of the engine."""
        return {
            "columns": list(self.columns) if isinstance(self.columns, tuple) else self.columns,
            "filter": self.filter,
            "limit": self.limit,
            "offset": self.offset,
            "batch_rows": self.batch_rows,
            "batch_bytes": self.batch_bytes,
            "memory_limit": self.memory_limit,
        }


def _columns(columns: Any, schema: Callable[[], pa.Schema] | None) -> tuple[str, ...] | Mapping[str, Expr | str] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise InvalidInputError(f"columns: pass a list of names: columns=[{columns!r}]")
    if isinstance(columns, Mapping):
        read = {name: named(f"columns[{name!r}]", expression, schema) for name, expression in columns.items()}
        return {name: name if expression is None else expression for name, expression in read.items()}
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"column {name!r} is no name: columns is a list of text, or a dict name -> expression"
            )
    return names


class Scanner(RowScan):
    """A planned read of one version, made by `Dataset.scanner`. It can run any number of times.

    Iterating over it yields record batches. It exports `__arrow_c_stream__`, so Polars, DuckDB and pyarrow read it as it is.
    """

    __slots__ = ("_options", "_planned", "_version", "_where")

    def __init__(self, version: _pilum.Dataset, where: Location, options: ScanOptions) -> None:
        self._version = version
        self._where = where
        self._options = options
        self._planned = options.scan(version, options.fragments)

    @property
    def _plan(self) -> _pilum.Scanner[_pilum.ScanMetrics]:
        """The plan; made again if the credentials were renewed since."""
        renewed = self._where.renewed()
        if renewed is not None:
            self._version = self._version.reopened(renewed.options())
            self._where = renewed
            self._planned = self._options.scan(self._version, self._options.fragments)
        return self._planned

    @property
    def _shown(self) -> str:
        return self._where.shown

    def __repr__(self) -> str:
        return f"<pilum.Scanner of {self._where.uri} version {self._version.version}>"

    @property
    def metrics(self) -> _pilum.ScanMetrics | None:
        """What the last run did: fragments and pages pruned, rows, requests, bytes, peak bytes and seconds.

        None before the first run.
        """
        return self._planned.metrics

    @checked(analyze=flag)
    def explain(self, *, analyze: bool = False) -> str:
        """Return the plan as text: fragments, the filter as the engine reads it, the columns read for it and after it.

        Args:
            analyze: Run the scan, and add what it did: fragments and pages pruned by statistics, rows, requests and bytes.

        Example:
            `print(ds.scanner(filter="id > 1").explain(analyze=True))`
        """
        text = self._plan.explain()
        if not analyze:
            return text
        for _ in self._plan:
            pass
        done = self.metrics
        if done is None:
            return text
        return (
            f"{text}"
            f"  left out by statistics: {done.fragments_pruned} fragments, {done.pages_pruned} of {done.pages_total} pages\n"
            f"  rows: {done.rows_scanned} looked at, {done.rows_returned} returned\n"
            f"  read: {done.requests} requests, {done.bytes_read} bytes; at most {done.peak_bytes} bytes at once\n"
        )

    @checked(n=positive)
    def tasks(self, n: int | None = None) -> list[ScanTask]:
        """Split the scan into tasks that other processes can run, all of the same version.

        Args:
            n: The number of tasks at most; by default one for each 64 MiB of files. A fragment is never split, so there are at
                most as many tasks as fragments, and none for an empty table.

        Raises:
            InvalidInputError: The scan has a limit or an offset, which cannot be divided among tasks.

        Example:
            `tables = [task.to_reader().read_all() for task in ds.scanner().tasks(4)]`
        """
        if self._options.limit is not None or self._options.offset is not None:
            raise InvalidInputError("a scan with limit or offset cannot be split into tasks: apply them to the result")
        wanted = None if self._options.fragments is None else set(self._options.fragments)
        weights = [
            (fragment.id, max(1, fragment.bytes or fragment.physical_rows))
            for fragment in self._version.fragments()
            if wanted is None or fragment.id in wanted
        ]
        if n is None:
            n = -(-sum(weight for _, weight in weights) // TASK_BYTES)
        return [
            ScanTask(
                self._where.uri,
                self._version.version,
                group,
                self._options,
                self._where.storage_options,
                self._version.verify_checksums,
            )
            for group in contiguous(weights, max(1, n))
        ]


def contiguous(weights: Sequence[tuple[int, int]], groups: int) -> list[tuple[int, ...]]:
    """Cut a sequence of (fragment, weight) into at most `groups` runs of about equal weight, order kept, none empty."""
    runs: list[tuple[int, ...]] = []
    run: list[int] = []
    left = sum(weight for _, weight in weights)
    taken = 0
    for place, (fragment, weight) in enumerate(weights):
        still = groups - len(runs)
        # Close the run where it comes nearest to its share of what is left, and never leave a later run empty.
        full = run and still > 1 and taken + weight / 2 > left / still
        if full or (run and still > 1 and len(weights) - place < still):
            runs.append(tuple(run))
            left -= taken
            run, taken = [], 0
        run.append(fragment)
        taken += weight
    return [*runs, tuple(run)] if run else runs


@dataclass(frozen=True, slots=True)
class ScanTask:
    """A part of a scan: a small description that can be pickled, and that another process opens and reads.

    It names the version, so that all tasks of a scan see the same rows whatever is written meanwhile.
    """

    uri: str
    version: int
    fragments: tuple[int, ...]
    options: ScanOptions
    storage_options: StorageOptions | None = field(default=None, repr=False)
    verify_checksums: bool = True

    @checked()
    def scanner(self) -> Scanner:
        """Open the table and return the planned read of this task.

        Example:
            `scanner = ds.scanner().tasks()[0].scanner()`
        """
        return Scanner(self.opened(), Location.of(self.uri, self.storage_options), self._planned())

    @checked()
    def opened(self) -> _pilum.Dataset:
        """Return the version that the task reads; a process opens it once.

        Example:
            `version = ds.scanner().tasks()[0].opened()`
        """
        where = Location.of(self.uri, self.storage_options)
        return _opened(self.uri, self.version, tuple(sorted((where.options() or {}).items())), self.verify_checksums)

    @checked()
    def to_reader(self) -> pa.RecordBatchReader:
        """Open the table and return the rows of this task as a `pyarrow.RecordBatchReader`.

        Example:
            `reader = ds.scanner(["id"]).to_reader()`
        """
        return self.scanner().to_reader()

    @checked()
    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Open the table and yield the rows of this task as record batches.

        Example:
            `num_rows = sum(batch.num_rows for batch in ds.scanner().to_batches())`
        """
        return self.scanner().to_batches()

    def _planned(self) -> ScanOptions:
        return replace(self.options, fragments=self.fragments)


@functools.lru_cache(maxsize=16)
def _opened(
    uri: str, version: int, storage_options: tuple[tuple[str, str], ...], verify_checksums: bool
) -> _pilum.Dataset:
    """Open one version, once in a process: Spark keeps its workers, and the tasks of a job share what they read."""
    return _pilum.open(
        uri,
        version=version,
        asof_micros=None,
        storage_options=dict(storage_options) or None,
        verify_checksums=verify_checksums,
    )
