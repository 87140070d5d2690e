"""`python -m pilum.skiff map|reduce module:function`: the function as a YTsaurus job."""

from __future__ import annotations

import argparse
import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pilum.exceptions import PilumError
from pilum.skiff.codec import Format
from pilum.skiff.run import run


def load(spec: str) -> Callable[[Any], Any]:
    """Return the function that `module:function` or `file.py:function` names."""
    module, _, name = spec.rpartition(":")
    if not module:
        message = f"{spec}: module:function or file.py:function is expected"
        raise SystemExit(message)
    if module.endswith(".py"):
        found = runpy.run_path(module).get(name)
    else:
        sys.path.insert(0, "")
        found = getattr(importlib.import_module(module), name, None)
    if not callable(found):
        message = f"{spec}: {module} has no function {name}"
        raise SystemExit(message)
    return found  # type: ignore[no-any-return]


def read_format(text: str, strings: str) -> Format:
    """Return the format that a file holds or a text is, as JSON or YSON."""
    content = text.encode() if text.lstrip()[:1] in ("{", "<") else Path(text).read_bytes()
    if content.lstrip()[:1] == b"<":
        return Format.from_yson(content, strings=strings)  # type: ignore[arg-type]
    try:
        return Format.from_json(content, strings=strings)  # type: ignore[arg-type]
    except PilumError as error:
        # A map of the attributes may be YSON too.
        try:
            return Format.from_yson(content, strings=strings)  # type: ignore[arg-type]
        except PilumError:
            raise error from None


def main(arguments: list[str] | None = None) -> int:
    """Run a job and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m pilum.skiff", description=__doc__)
    parser.add_argument("mode", choices=["map", "reduce"])
    parser.add_argument("function", help="module:function or file.py:function")
    parser.add_argument("--input-format", "-i", required=True, help="a file with the format, or the format itself")
    parser.add_argument("--output-format", "-o", help="the same for the output tables; the input format")
    parser.add_argument("--strings", choices=["binary", "text"], default="binary", help="what string32 is decoded to")
    parser.add_argument("--batch-rows", type=int, default=65_536)
    given = parser.parse_args(arguments)
    try:
        format_in = read_format(given.input_format, given.strings)
        format_out = read_format(given.output_format or given.input_format, given.strings)
        func = load(given.function)
        run(func, None, None, format_in, format_out, mode=given.mode, batch_rows=given.batch_rows)
    except BrokenPipeError:
        print("pilum.skiff: the reader of an output table closed it before all rows were written", file=sys.stderr)
        return 1
    except PilumError as error:
        print(f"pilum.skiff: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
