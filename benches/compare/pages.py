"""What all programs that measure have in common: their options, how a page of figures begins, and where it goes."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path


def parser(doc: str | None, out: Path | None = None) -> argparse.ArgumentParser:
    """Return a parser that knows where tables and pages go."""
    made = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    made.add_argument("--out", type=Path, default=out, help="the page, beside what is printed")
    made.add_argument("--folder", type=Path, help="where the tables are written; by default a temporary folder")
    return made


def finish(parts: Sequence[str], out: Path | None) -> None:
    """Print a page, and write it where it is wanted."""
    page = "\n".join(parts)
    print(page)
    if out:
        out.write_text(page)


def when_and_where() -> str:
    """Return the day, the machine and who was measured, as pages of figures begin."""
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{dt.date.today().isoformat()}, {machine}; {', '.join(versions())}."  # noqa: DTZ011 - the day here


def versions() -> list[str]:
    """Return names and versions of who is measured."""
    import pilum

    installed = {package.name: package.version for package in importlib.metadata.distributions()}
    installed["pilum"] = pilum.__version__
    return [f"{name} {installed[name]}" for name in ("pilum", "pylance", "pyarrow", "vortex-data") if name in installed]
