"""The command `pilum`: look into tables and files, prove them sound, keep them tidy.

Every command takes `--json`: one JSON document on standard output, with the keys that its help names. Exit codes: 0 success,
1 a problem was found or the work failed, 2 wrong use. `docs/decisions/0005-command-line.md` gives the reasons.
"""

from __future__ import annotations

import sys

# `import pilum` does not import this package, so a program that uses the library alone loads neither click nor rich.
try:
    from pilum.cli.commands import pilum
except ModuleNotFoundError as error:
    if error.name not in {"click", "rich"}:
        raise
    _missing: str | None = error.name
else:
    _missing = None


def main() -> None:
    """Run the command, or say which package it lacks."""
    if _missing is not None:
        sys.exit(f"pilum: the command line needs the package {_missing!r}: pip install click rich")
    pilum(prog_name="pilum")
