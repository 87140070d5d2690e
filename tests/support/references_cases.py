"""The fixtures of reference sets: opened as their case says, with files in fsspec's memory."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1] / "fixtures" / "references"


class Case:
    """One folder: a set, the files that it leads to, and what fsspec reads through it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = ROOT / name
        self.case = json.loads((self.folder / "case.json").read_text())
        self.expected = json.loads((self.folder / "expected.json").read_text())
        self.refs = str(self.folder / self.case["refs"])

    def load(self, memory: Any) -> None:
        for url, file in self.case["files"].items():
            memory.pipe(url.removeprefix("memory:/"), (self.folder / file).read_bytes())

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        return self.expected["runs"]

    def keys(self, run: str) -> dict[str, Any]:
        return self.expected.get("truth") or self.runs[run].get("keys", {})


def names() -> list[str]:
    return sorted(it.name for it in ROOT.iterdir() if it.is_dir())


def is_equal(key: str, got: bytes, wanted: bytes) -> bool:
    """Return whether bytes are the expected ones. Metadata is compared as JSON."""
    name = key.rpartition("/")[2]
    if got != wanted and (name.startswith(".z") or name == "zarr.json" or wanted[:1] == b"{"):
        return json.loads(got) == json.loads(wanted)
    return got == wanted


def fails_as(error: BaseException, wanted: dict[str, Any]) -> bool:
    """Return whether an error is of the class that fsspec raised; `Error` is `binascii.Error`."""
    classes = {it.__name__ for it in type(error).__mro__}
    return {"Error": "ValueError"}.get(wanted["error"], wanted["error"]) in classes


def bytes_of(text: str) -> bytes:
    return base64.b64decode(text)
