"""Histories of writers in processes of their own, explained one version after the other by a plain model.

Each of 2 to 16 writers looks at the table, then appends, counts in rows that all count in, deletes rows of others, merges or
compacts. Afterwards every version must hold what its one operation makes of the version before; what a writer saw must be one
of these versions, and none that was older than what had been answered when it looked.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import statistics
import time
from collections import Counter

import pytest

import pilum
from support.writers import SHARED, Event, Rows, rows_of, table_of, write_history

HISTORIES = 50 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
WRITERS = [2, 3, 4, 6, 8, 12, 16]
STEPS = 7


@pytest.fixture(scope="module")
def processes():
    """Sixteen processes that have pilum in them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pilum", "pyarrow", "support.writers"])
    with concurrent.futures.ProcessPoolExecutor(max(WRITERS), context) as pool:
        list(pool.map(time.sleep, [0.05] * max(WRITERS)))
        yield pool


def after(before: Rows, event: Event) -> tuple[Rows, int]:
    """Return what an operation makes of the rows of a version, and how many rows it touches."""
    if event.kind == "append":
        return sorted([*before, *((k, event.value) for k in event.keys)]), len(event.keys)
    if event.kind == "count":
        return sorted((k, x + (k in event.keys)) for k, x in before), sum(k in event.keys for k, _ in before)
    if event.kind == "delete":
        rows = [(k, x) for k, x in before if k not in event.keys]
        return rows, len(before) - len(rows)
    if event.kind == "merge":
        return sorted([*((k, x) for k, x in before if k not in event.keys), *((k, event.value) for k in event.keys)]), 2
    return before, 0


def explain(uri: str, events: list[Event]) -> dict[int, Rows]:
    """Hold the history of a table against what its writers were told. Return the rows of each version."""
    by_name = {event.name: event for event in events}
    states: dict[int, Rows] = {1: [(k, 0) for k in range(SHARED)]}
    ds = pilum.dataset(uri)
    made: Counter[str] = Counter()
    for version in ds.versions()[1:]:
        name = version.properties.get("op")
        before = states[version.version - 1]
        if name is None:
            assert version.operation == "ReserveFragments", version
            expected = before
        else:
            made[name] += 1
            event = by_name[name]
            assert event.version == version.version, f"{name} was told {event.version}, and is {version.version}"
            expected, touched = after(before, event)
            assert event.kind == "compact" or event.rows == touched, f"{event}: {touched}"
        states[version.version] = rows_of(ds.checkout(version.version))
        assert states[version.version] == expected, f"version {version.version}, {name}"
    assert set(made.values()) <= {1}, "committed twice"
    answered = sorted((event.ended, event.version) for event in events if not event.error)
    for event in events:
        if event.error:
            assert event.name not in made, f"refused, and there: {event}"
            assert event.kind != "append", event
            continue
        if event.kind == "read":
            assert event.content == states[event.version], f"{event} saw what never was"
        elif event.name not in made:
            # Nothing was to be done.
            assert event.rows == 0, event
            assert event.kind == "compact" or after(states[event.version], event)[1] == 0, event
        known = max((version for ended, version in answered if ended < event.begun), default=1)
        assert event.version >= known, f"{event} knows less than was answered before: {known}"
    return states


def play(processes, uri: str, seed: int, count: int, durability: str) -> tuple[list[list[Event]], int]:
    pilum.write_dataset(table_of([(k, 0) for k in range(SHARED)]), uri, stable_row_ids=seed % 2 == 0)
    start = time.monotonic_ns() + 20_000_000
    futures = [processes.submit(write_history, uri, writer, seed, STEPS, durability, start) for writer in range(count)]
    return [future.result() for future in futures], start


def test_every_history_is_explained(tmp_path, processes):
    ratios, clocks, efforts = [], [], []
    refused, attempts, commits = 0, 0, 0
    for seed in range(HISTORIES):
        uri = str(tmp_path / f"{seed}")
        count = WRITERS[seed % len(WRITERS)]
        durability = "full" if seed % 5 == 0 else "none"
        histories, start = play(processes, uri, seed, count, durability)
        events = [event for history in histories for event in history]
        states = explain(uri, events)
        # When each writer was done, in versions: how long it takes others to commit is no matter of fairness.
        done = [max(event.version for event in history) - 1 for history in histories]
        ratios.append(max(states) / max(1, min(done)))
        ends = [history[-1].ended - start for history in histories]
        clocks.append(max(ends) / min(ends))
        tries = [sum(event.attempts for event in history) / STEPS for history in histories]
        efforts.append(max(tries) / max(min(tries), 1 / STEPS))
        refused += sum(bool(event.error) for event in events)
        attempts += sum(event.attempts for event in events)
        commits += max(states) - 1
        report = pilum.dataset(uri).verify()
        assert report.ok, report.problems
    print(
        f"{commits} commits in {attempts} attempts, {refused} refused; slowest over fastest writer: "
        f"in versions {statistics.median(ratios):.2f} (at most {max(ratios):.2f}), "
        f"by the clock {statistics.median(clocks):.2f} (at most {max(clocks):.2f}), "
        f"in attempts {statistics.median(efforts):.2f} (at most {max(efforts):.2f})"
    )
    assert refused <= commits // 20
    # Of single histories it is chance; the median of all is far below.
    assert statistics.median(efforts) <= 3


@pytest.mark.parametrize(
    "lie", ["a read without a row", "another version", "a refusal", "an old read", "a row too many"]
)
def test_a_lie_is_noticed(tmp_path, processes, lie):
    uri = str(tmp_path / "t")
    histories, _ = play(processes, uri, 1, 3, "none")
    events = sorted((event for history in histories for event in history), key=lambda event: event.ended)
    states = explain(uri, events)
    reads = [event for event in events if event.kind == "read"]
    append = next(event for event in events if event.kind == "append")
    if lie == "a read without a row":
        assert reads[-1].content is not None
        reads[-1].content.pop()
    elif lie == "another version":
        append.version += 1
    elif lie == "a refusal":
        append.error = "refused"
    elif lie == "an old read":
        # The last look of a writer that had changed something before.
        mine = [event for event in events if event.writer == append.writer and event.begun > append.ended]
        late = [event for event in mine if event.kind == "read"][-1]
        late.version, late.content = 1, states[1]
    else:
        append.rows += 1
    with pytest.raises(AssertionError):
        explain(uri, events)
