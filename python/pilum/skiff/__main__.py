"""`python -m pilum.skiff map|reduce module:function`: the function as a YTsaurus job."""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pilum.exceptions import PilumError
from pilum.skiff.formats import Format
from pilum.skiff.run import check_descriptors, check_input, check_job, run

FAILED = 1
"""Exit code: the function, the input or the reader of an output failed."""
MISUSE = 2
"""Exit code: wrong use; no row was read."""
_MISSING = object()


class WrongUse(Exception):  # noqa: N818
    """The arguments name no job; the message says why."""


def load(spec: str) -> Callable[[Any], Any]:
    """Return the function that `module:function` or `file.py:function` names.

    Raises:
        WrongUse: There is no such function.
    """
    module, _, name = spec.rpartition(":")
    if not module:
        raise WrongUse(f"{spec}: module:function or file.py:function is expected")
    if module.endswith(".py"):
        if not Path(module).is_file():
            raise WrongUse(f"{module}: there is no such file")
        # Functions of the file can import its neighbours, as they do when it is run as a program.
        sys.path.insert(0, str(Path(module).resolve().parent))
        found = runpy.run_path(module).get(name, _MISSING)
    else:
        sys.path.insert(0, "")
        try:
            found = getattr(importlib.import_module(module), name, _MISSING)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise
            raise WrongUse(f"{spec}: there is no module {error.name}") from None
    if found is _MISSING:
        raise WrongUse(f"{spec}: {module} has no function {name}")
    if not callable(found):
        raise WrongUse(f"{spec}: {name} of {module} is not a function, it is of the type {type(found).__name__}")
    return found  # type: ignore[no-any-return]


class _Loaded:
    """The function, loaded at its first call: what its module prints must not be among the rows either."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._func: Callable[[Any], Any] | None = None

    def __call__(self, rows: Any) -> Any:
        if self._func is None:
            self._func = load(self._spec)
        return self._func(rows)


def _ended(reason: str, code: int) -> int:
    # If stderr is closed, `print` would write to stdout, among the rows.
    if sys.stderr is not None:
        print(f"pilum.skiff: {reason}", file=sys.stderr)
    return code


def _left(code: object) -> str:
    """Return the message for a function that ended the process: it did not read or return all rows, whatever its code is."""
    shown = "" if code is None else repr(code)
    return (
        f"the function ended the process before the job was done (sys.exit({shown}) or similar), so that its rows are not "
        "complete; return from the function instead"
    )


OPTIONS = ("--help", "--input-format", "--output-format", "--strings", "--batch-rows", "--batch-bytes")


def _refuse_unknown(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
    """Refuse a misspelt option by its name, before the parser misses the argument that was meant."""
    for argument in arguments:
        option = argument.partition("=")[0]
        if option == "--":
            return
        if option.startswith("--") and not any(known.startswith(option) for known in OPTIONS):
            near = get_close_matches(option, OPTIONS, 1)
            parser.error(f"there is no option {option}" + (f"; did you mean {near[0]}?" if near else ""))


def main(arguments: list[str] | None = None) -> int:
    """Run a job and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m pilum.skiff",
        description="Run a function of record batches as a YTsaurus job: rows from stdin, rows of the output tables to file "
        "descriptors 1, 4, 7 and so on. What the function prints goes to stderr. Exit codes: 0 success, 1 the job failed, 2 "
        "wrong use.",
    )
    parser.add_argument("mode", choices=["map", "reduce"], help="once for all rows, or once for every key")
    parser.add_argument("function", help="module:function or file.py:function")
    parser.add_argument("--input-format", "-i", required=True, help="a file with the format, or the format itself")
    parser.add_argument("--output-format", "-o", help="the same for the output tables; without it, the input format")
    parser.add_argument("--strings", choices=["binary", "text"], default="binary", help="what string32 is decoded to")
    parser.add_argument("--batch-rows", type=int, default=65_536, help="most rows of a batch")
    parser.add_argument("--batch-bytes", type=int, default=16 << 20, help="bytes of memory at which a batch is cut")
    _refuse_unknown(parser, sys.argv[1:] if arguments is None else arguments)
    given = parser.parse_args(arguments)
    try:
        # Check before any file is opened: if stdin is closed, the first opened file gets descriptor 0.
        check_input()
    except PilumError as error:
        return _ended(str(error), MISUSE)
    options = {"batch_rows": given.batch_rows, "batch_bytes": given.batch_bytes}
    try:
        format_in = Format.load(given.input_format, strings=given.strings)
        format_out = Format.load(given.output_format or given.input_format, strings=given.strings)
        check_job(format_in, format_out, given.mode, options)
        check_descriptors(len(format_out))
    except PilumError as error:
        return _ended(str(error), MISUSE)
    try:
        run(_Loaded(given.function), None, None, format_in, format_out, mode=given.mode, **options)
    except WrongUse as error:
        return _ended(str(error), MISUSE)
    except BrokenPipeError:
        return _ended("the reader of an output table closed it before all rows were written", FAILED)
    except PilumError as error:
        return _ended(str(error), FAILED)
    except SystemExit as error:
        return _ended(_left(error.code), FAILED)
    # What is printed while the process ends must not follow the rows.
    sys.stdout = sys.stderr
    with suppress(OSError):
        os.dup2(2, 1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
