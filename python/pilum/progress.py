"""The progress of long calls: a callable of the user, or a bar of tqdm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, "int | None"], Any]
"""Called with the number of rows done so far, and the number of all rows if it is known."""


@contextmanager
def reporting(progress: bool | Progress | None, what: str) -> Iterator[Progress | None]:
    """Yield the callable for the engine: that of the user, that of a tqdm bar, or None.

    Args:
        progress: True for a bar (needs tqdm), a callable, or None or False for neither.
        what: The text beside the bar.
    """
    if not progress:
        yield None
    elif callable(progress):
        yield progress
    else:
        from tqdm.auto import tqdm

        with tqdm(desc=what, unit=" rows", unit_scale=True) as bar:

            def show(done_rows: int, total_rows: int | None) -> None:
                if total_rows is not None:
                    bar.total = total_rows
                bar.update(done_rows - bar.n)

            yield show
