"""Golden tables that releases of pilum wrote. Each has a recipe of steps, the rows that they write, the rows of each version.

tests/golden/{release}/{name}/recipe.json       the steps
                              rows_{n}.arrow    what step n writes
                              expected_{v}.arrow  what version v holds, by ascending key
                              dataset.pilum/    the table that the release wrote by these steps
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

import pilum
from support.comparing import picked

ROOT = Path(__file__).resolve().parent.parent / "golden"
TABLE = "dataset.pilum"

Step = dict[str, Any]
"""A dict whose key names the step: write, append, delete, update, compact, tag or rename_to_v1; `options` may follow."""


@dataclass(frozen=True)
class Release:
    """One golden table of a release."""

    version: str
    name: str

    @property
    def folder(self) -> Path:
        return ROOT / self.version / self.name

    @property
    def uri(self) -> Path:
        return self.folder / TABLE

    @property
    def recipe(self) -> dict[str, Any]:
        return json.loads((self.folder / "recipe.json").read_text())

    def rows(self, step: int) -> pa.Table:
        return load(self.folder / f"rows_{step}.arrow")

    def expected(self) -> dict[int, pa.Table]:
        """Return what each version holds."""
        files = self.folder.glob("expected_*.arrow")
        return {int(file.stem.split("_")[1]): load(file) for file in files}


def all_releases() -> list[Release]:
    recipes = sorted(ROOT.glob("*/*/recipe.json"))
    return [Release(path.parent.parent.name, path.parent.name) for path in recipes]


def load(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def save(table: pa.Table, path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        # Rows that were picked one by one are a chunk each.
        writer.write_table(table.combine_chunks())


def by_key(table: pa.Table) -> pa.Table:
    """Return the rows in the order of their keys: statements may move rows."""
    return picked(table, pa.compute.sort_indices(table["k"]).to_pylist())


def matching(table: pa.Table, divisor: int, remainder: int) -> list[int]:
    return [row for row, key in enumerate(table["k"].to_pylist()) if key % divisor == remainder]


def after(step: Step, rows: pa.Table | None, before: pa.Table | None) -> pa.Table | None:
    """Compute the rows after a step without pilum; None if the step makes no version."""
    if "write" in step:
        return rows
    if before is None:
        return None
    if "append" in step:
        return pa.concat_tables([before, rows])
    if "delete" in step:
        gone = set(matching(before, *step["delete"]))
        return picked(before, [row for row in range(before.num_rows) if row not in gone])
    if "update" in step:
        *which, plus = step["update"]
        changed = set(matching(before, *which))
        keys = [key + plus if row in changed else key for row, key in enumerate(before["k"].to_pylist())]
        place = before.schema.get_field_index("k")
        return before.set_column(place, before.schema.field("k"), pa.array(keys, pa.int64()))
    return before if "compact" in step else None


def follow(step: Step, rows: pa.Table | None, uri: Path) -> None:
    """Do one step."""
    options = step.get("options", {})
    match step:
        case {"write": _}:
            pilum.write_dataset(rows, uri, **options)
        case {"append": _}:
            pilum.dataset(uri).append(rows, **options)
        case {"delete": [divisor, remainder]}:
            pilum.dataset(uri).delete(f"k % {divisor} = {remainder}")
        case {"update": [divisor, remainder, plus]}:
            pilum.dataset(uri).update({"k": f"k + {plus}"}, where=f"k % {divisor} = {remainder}")
        case {"compact": _}:
            pilum.dataset(uri).compact(max_deleted_fraction=0.0)
        case {"tag": [name, version]}:
            pilum.dataset(uri).tags.create(name, version)
        case {"rename_to_v1": _}:
            # Only old writers of Lance made such names of manifests; pilum reads them and never writes them.
            for file in (uri / "_versions").iterdir():
                file.rename(file.with_name(f"{2**64 - 1 - int(file.stem)}.manifest"))
        case _:
            raise ValueError(step)


def replay(steps: list[Step], rows_of: Callable[[int], pa.Table], uri: Path) -> dict[int, pa.Table]:
    """Run the steps of a recipe; return the rows that each new version must have, ordered by key."""
    held: pa.Table | None = None
    expected: dict[int, pa.Table] = {}
    for place, step in enumerate(steps):
        rows = rows_of(place) if "write" in step or "append" in step else None
        follow(step, rows, uri)
        now = after(step, rows, held)
        if now is not None:
            held = now
            expected[pilum.dataset(uri).version] = by_key(now)
    return expected
