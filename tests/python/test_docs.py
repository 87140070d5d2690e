"""Every Python example in the documentation runs, and prints what its page says.

The blocks of one page run from top to bottom, with one set of names, in an empty folder. A block ```output after a block of
Python is what that prints. A block that cannot run is marked ```python no-run (with the reason).
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)[ \t]*$", re.MULTILINE | re.DOTALL)
MOST_NOT_RUN = 6
"""Blocks of all pages that may be marked as not to be run."""

ELSEWHERE = {"README.md": ("pyspark",), "spark.md": ("",), "spark-source.md": ("",)}
"""Words of blocks that tests in tests/spark run, with a session of Spark."""


@dataclass
class Block:
    """A block of Python, with the line at which it begins, and what it is said to print."""

    line: int
    text: str
    reason: str | None
    output: str | None


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text, found = page.read_text(), []
    for fence in FENCE.finditer(text):
        language, _, rest = fence["info"].strip().partition(" ")
        line = text.count("\n", 0, fence.start()) + 2
        if language == "python":
            reason = re.fullmatch(r"no-run \((.+)\)", rest)
            assert not rest or reason, f"{page}:{line}: write ```python no-run (the reason)"
            found.append(Block(line, fence["text"], reason[1] if reason else None, None))
        elif language == "output":
            assert found, f"{page}:{line}: output of what?"
            assert found[-1].output is None, f"{page}:{line}: a second output of one block"
            found[-1].output = fence["text"]
    return found


@pytest.mark.parametrize(
    "page", [page for page in pages() if blocks(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}, line {block.line}"
        if block.reason is not None or any(word in block.text for word in ELSEWHERE.get(page.name, ())):
            compile(block.text, where, "exec")
            continue
        # Empty lines before the code: an error shows the line of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if block.output is not None:
            assert printed.getvalue() == block.output, where


def test_few_blocks_are_not_run():
    marked = [(page.name, block.line) for page in pages() for block in blocks(page) if block.reason is not None]
    assert len(marked) <= MOST_NOT_RUN, marked


def test_blocks_are_found_and_outputs_are_compared(tmp_path):
    page = tmp_path / "page.md"
    parts = ["a", "```python", "print(1)", "```", "```output", "2", "```", "```python no-run (why)", "x", "```"]
    page.write_text("\n".join([*parts, "````md", "```python", "y", "```", "````", ""]))
    first, second = blocks(page)
    assert (first.line, first.text, first.output, first.reason) == (3, "print(1)\n", "2\n", None)
    assert second.reason == "why"
    page.write_text("```python norun\n```\n")
    with pytest.raises(AssertionError, match="no-run"):
        blocks(page)
