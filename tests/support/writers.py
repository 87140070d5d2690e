"""Writers for processes of their own: each notes what it asked for and what it was told.

`time.monotonic_ns` is one clock for all processes of a machine, so that "was answered before the other one began" means
something.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import pilum

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("x", pa.int64(), nullable=False)])
SHARED = 10
"""Rows with keys below are there from the beginning, and everybody counts in them."""

Rows = list[tuple[int, int]]


@dataclass
class Event:
    """One call and its answer."""

    writer: int
    kind: str
    name: str
    begun: int
    ended: int = 0
    version: int = 0
    rows: int = 0
    attempts: int = 0
    keys: tuple[int, ...] = ()
    value: int = 0
    content: Rows | None = None
    error: str = ""


def table_of(rows: Rows) -> pa.Table:
    return pa.Table.from_arrays([pa.array([row[i] for row in rows], pa.int64()) for i in (0, 1)], schema=SCHEMA)


def rows_of(ds: pilum.Dataset) -> Rows:
    table = ds.to_table()
    return sorted(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True))


def wait_until(start: int) -> None:
    while time.monotonic_ns() < start:
        time.sleep(0.001)


def write_history(uri: str, writer: int, seed: int, steps: int, durability: str, start: int) -> list[Event]:
    """Do `steps` things, each after a look at the table."""
    draw = random.Random(seed * 1000 + writer)
    events: list[Event] = []
    fresh = iter(range((writer + 1) * 100_000, (writer + 2) * 100_000))
    wait_until(start)
    for number in range(steps):
        seen = Event(writer, "read", f"{writer}:{number} read", time.monotonic_ns())
        ds = pilum.dataset(uri)
        seen.content, seen.version = rows_of(ds), ds.version
        seen.ended = time.monotonic_ns()
        events.append(seen)
        kind = draw.choices(["append", "count", "delete", "merge", "compact"], [4, 3, 2, 2, 1])[0]
        others = [k for k, _ in seen.content if k >= SHARED]
        if kind == "delete" and not others:
            kind = "append"
        event = Event(writer, kind, f"{writer}:{number}", time.monotonic_ns(), value=seed * 1000 + number)
        options: dict[str, Any] = {"properties": {"op": event.name}, "durability": durability}
        try:
            if kind == "append":
                event.keys = (next(fresh), next(fresh))
                told: Any = ds.append(table_of([(k, event.value) for k in event.keys]), **options)
            elif kind == "count":
                event.keys = tuple(draw.sample(range(SHARED), 2))
                told = ds.update({"x": "x + 1"}, where=f"k IN {event.keys}", **options)
            elif kind == "delete":
                event.keys = tuple(draw.sample(others, min(2, len(others))))
                told = ds.delete(" OR ".join(f"k = {k}" for k in event.keys), **options)
            elif kind == "merge":
                event.keys = (draw.randrange(SHARED), next(fresh))
                told = ds.merge_insert("k", table_of([(k, event.value) for k in event.keys]), **options)
            else:
                told = ds.compact(target_rows=1000, **options)
            event.version = told.version
            event.rows = getattr(told, "rows", 0)
            event.attempts = getattr(told, "attempts", 1)
        except pilum.ConflictError as error:
            event.error = str(error)
        event.ended = time.monotonic_ns()
        events.append(event)
    return events
