"""Showing how far a long write has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, "int | None"], Any]
"""Called with the rows written so far and, where known, the rows there will be."""


@contextmanager
def reporting(progress: bool | Progress | None, what: str) -> Iterator[Progress | None]:
    """Yield the callable for the engine: the user's own, a tqdm bar's, or None.

    Args:
        progress: True for a bar (needs tqdm), a callable, or None / False for silence.
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
