"""The command `pilum`: look into tables and files, prove them sound, keep them tidy.

Every command takes `--json`: one JSON document on standard output, with the keys that its help names. Exit codes: 0 fine, 1 a
problem was found or the work failed, 2 wrong use. `docs/decisions/0005-command-line.md` says why it is made as it is.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command. Its libraries are loaded here and nowhere else: importing `pilum` stays light."""
    try:
        from pilum.cli.commands import pilum
    except ModuleNotFoundError as missing:
        if missing.name not in {"click", "rich"}:
            raise
        text = f"the command line needs the package {missing.name!r}: pip install click rich"
        sys.exit(f"pilum: {text}")
    pilum(prog_name="pilum")
