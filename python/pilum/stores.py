"""Whether a store can be trusted with tables."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from pilum import _pilum
from pilum.location import Location, StorageOptions


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that tables need, and whether the store kept it."""

    name: str
    """`write`, `replace`, `create`, `race`, `list`, `delete`, `clock` or `register`."""
    ok: bool
    """The rule was kept, or is not needed here."""
    finding: str
    """What was seen, as a sentence."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `doctor` found. It is true if the store can be trusted."""

    trusted: bool
    """Every rule was kept."""
    uri: str
    """The folder that was examined."""
    checks: tuple[Check, ...]
    """All rules, in the order in which they were tried."""

    def __bool__(self) -> bool:
        return self.trusted

    def to_dict(self) -> dict[str, Any]:
        """Return what `pilum doctor --json` writes."""
        return {"trusted": self.trusted, "uri": self.uri, "checks": [asdict(check) for check in self.checks]}


def doctor(uri: str | os.PathLike[str], *, rounds: int = 8, storage_options: StorageOptions | None = None) -> Diagnosis:
    """Try whether the store at an address keeps the rules that commits, readers and cleanup rely on.

    Objects with names of their own are written beside the table, if there is one, and removed again: they are read back,
    replaced, listed and deleted; one that exists is created again, which must fail; and four writers at a time race to
    create one object, of whom one must win. Where a register decides versions, rows are raced in the register.

    Args:
        uri: A path or URL of a folder; it need not exist.
        rounds: How many races are run. Each costs four writes and a read.
        storage_options: Credentials and settings of the store; never shown.

    Raises:
        InvalidInputError: The address or an option means nothing. Whatever the store does wrong is a finding.
    """
    where = Location.of(uri, storage_options)
    found = json.loads(_pilum.doctor(where.uri, rounds=rounds, storage_options=where.options()))
    return Diagnosis(found["trusted"], found["uri"], tuple(Check(**check) for check in found["checks"]))
