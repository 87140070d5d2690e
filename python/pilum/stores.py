"""Examine whether a store keeps the rules that tables rely on."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from pilum import _pilum
from pilum.arguments import checked
from pilum.location import Location, StorageOptions


@dataclass(frozen=True, slots=True)
class Check:
    """One rule that tables need, and whether the store kept it."""

    name: str
    """`write`, `replace`, `create`, `race`, `list`, `delete`, `clock` or `register`."""
    ok: bool
    """The rule was kept, or is not needed here."""
    finding: str
    """What was observed, as a sentence."""


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


@checked()
def doctor(uri: str | os.PathLike[str], *, rounds: int = 8, storage_options: StorageOptions | None = None) -> Diagnosis:
    """Examine whether the store at an address keeps the rules that commits, readers and cleanup rely on.

    Objects with names of their own are written beside the table, if there is one, and removed again: they are read back,
    replaced, listed and deleted; creating one that exists must fail; of four writers that create one object at the same time,
    one must succeed. Where an external manifest store decides versions, the same is tried there.

    Args:
        uri: A path or URL of a folder; it need not exist.
        rounds: The number of races. Each costs four writes and one read.
        storage_options: Credentials and settings of the store, which no message shows.

    Raises:
        InvalidInputError: The address or an option cannot be understood. What the store does wrong is a finding, no error.

    Example:
        `assert pilum.doctor("some-folder", rounds=1)`
    """
    where = Location.of(uri, storage_options)
    found = json.loads(_pilum.doctor(where.uri, rounds=rounds, storage_options=where.options()))
    return Diagnosis(found["trusted"], found["uri"], tuple(Check(**check) for check in found["checks"]))
