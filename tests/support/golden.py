"""The golden tables: what is where and what is expected of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc

ROOT = Path(__file__).resolve().parent.parent / "golden" / "lance"


@dataclass(frozen=True)
class Golden:
    """One table with its expectations."""

    name: str

    @property
    def folder(self) -> Path:
        return ROOT / self.name

    @property
    def uri(self) -> str:
        return str(self.folder / "dataset.lance")

    @property
    def expected(self) -> dict:
        return json.loads((self.folder / "expected.json").read_text())

    def arrow(self, name: str) -> pa.Table:
        """Return an expected table by its file name."""
        with pa.OSFile(str(self.folder / name)) as file:
            return pa.ipc.open_file(file).read_all()


def all_golden() -> list[Golden]:
    return [Golden(path.parent.name) for path in sorted(ROOT.glob("*/expected.json"))]


def all_versions() -> list[tuple[Golden, int]]:
    return [(golden, int(version)) for golden in all_golden() for version in golden.expected["versions"]]
