"""What a dataset is made of, and how another process opens the same state of it."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from pilum import _pilum
from pilum.arguments import checked, text
from pilum.conditions import condition
from pilum.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.location import Location

_warned: set[tuple[str, str]] = set()


class Opened:
    """An opened dataset. It never changes: later commits are seen by opening it again."""

    __slots__ = ("_options", "_where", "engine")

    def __init__(self, engine: _pilum.KartothekDataset, where: Location, options: dict[str, Any]) -> None:
        self.engine = engine
        self._where = where
        self._options = options

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the same state, whatever was committed since.
        state = self.engine.document, self.engine.form
        return _again, (type(self), self._where, self.engine.uuid, self._options, *state)

    def __repr__(self) -> str:
        return f"<pilum.kartothek.Dataset {self.uuid!r} in {self._where.shown}: {len(self.engine.labels):,} partitions>"

    @property
    def uuid(self) -> str:
        """The name of the dataset."""
        return self.engine.uuid

    @property
    def uri(self) -> str:
        """The address of the store."""
        return self._where.shown

    @property
    def tables(self) -> list[str]:
        """The tables. Every partition has one file of each."""
        return self.engine.tables

    @property
    def partition_keys(self) -> list[str]:
        """The columns whose values are in the paths, in order."""
        return self.engine.partition_keys

    @property
    def labels(self) -> list[str]:
        """The labels of all partitions, in the order in which they are read."""
        return self.engine.labels

    @property
    def metadata(self) -> dict[str, Any]:
        """The user metadata, with `creation_time`."""
        found: dict[str, Any] = json.loads(self.engine.metadata())
        found.pop("pilum", None)  # what a commit tells of itself
        return found

    @checked(table=text)
    def schema(self, table: str | None = None) -> pa.Schema:
        """Return the columns of a table; None stands for the table `table`, or for the only one."""
        import pyarrow as pa

        return pa.schema(self.engine.schema(self.table(table)))

    def table(self, name: str | None) -> str:
        """Return the name of a table, if it is one."""
        tables = self.tables
        if name is not None:
            if name not in tables:
                raise InvalidInputError(f"table {name!r}: dataset {self.uuid!r} has the tables {tables}")
            return name
        if "table" in tables:
            return "table"
        if len(tables) == 1:
            return tables[0]
        if not tables:
            raise InvalidInputError(f"dataset {self.uuid!r} has no table: it has no partition and no schema")
        raise InvalidInputError(f"dataset {self.uuid!r} has the tables {tables}: say which one with table=...")

    def filter(self, predicates: Any, table: str) -> _pilum.Expr | str | None:
        """Return predicates in any form as an expression. Lists of lists of tuples have Kartothek's meaning."""
        self.warn_of_slashes()
        if isinstance(predicates, list):
            # One flat list is a conjunction, as pilum's other doors take it.
            if predicates and all(isinstance(term, tuple) for term in predicates):
                predicates = [predicates]
            return self.engine.predicate(table, predicates)
        return condition(predicates, lambda: self.schema(table))

    def warn_of_slashes(self) -> None:
        """Tell once that Kartothek reads other values than pilum from paths with slashes."""
        if self._options.get("slashes") is not None or (self.uri, self.uuid) in _warned:
            return
        label = self.engine.keys()[1]
        if label is not None:
            _warned.add((self.uri, self.uuid))
            warnings.warn(
                f"dataset {self.uuid!r}: partition {label!r} has a slash in a value, of which Kartothek reads the part before "
                "the slash; pilum reads all of it. Pass slashes='join' if this is right, or slashes='ignore' if the slash is "
                "part of a label",
                stacklevel=4,
            )


def open_engine(
    where: Location, uuid: str, options: dict[str, Any], document: bytes | None = None, form: str = "json"
) -> _pilum.KartothekDataset:
    """Open a dataset of the engine; with a document, at the state that it describes."""
    given = {name: value for name, value in options.items() if value is not None}
    return _pilum.kartothek_open(
        where.uri, uuid, document=document, form=form, storage_options=where.options(), **given
    )


def _again(
    kind: type[Opened], where: Location, uuid: str, options: dict[str, Any], document: bytes, form: str
) -> Opened:
    return kind(open_engine(where, uuid, options, document, form), where, options)
