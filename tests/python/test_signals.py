"""Signals while a statement is at work: it ends with nothing half done, or goes on when the handler only did something else."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64())])


def rows(first: int, count: int, x: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"k": pa.array(keys, pa.int64()), "x": pa.array([x] * count, pa.int64())})


def interrupted(at: int) -> pa.RecordBatchReader:
    """Return ten batches; this process gets a signal when one of them is asked for."""

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            if number == at:
                signal.raise_signal(signal.SIGINT)
            yield from rows(number * 100, 100, 1).to_batches()

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def append(uri: str, at: int) -> Any:
    return pilum.dataset(uri).append(interrupted(at))


def merge(uri: str, at: int) -> Any:
    return pilum.dataset(uri).merge_insert("k", interrupted(at))


STATEMENTS: list[Callable[[str, int], Any]] = [append, merge]


def content(uri: str) -> list[tuple[int, int]]:
    table = pilum.dataset(uri).to_table()
    return sorted(zip(table["k"].to_pylist(), table["x"].to_pylist(), strict=True))


def expect_sound(uri: str) -> None:
    report = pilum.dataset(uri).verify()
    assert report.ok
    assert list(report.orphans) == []


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("at", [0, 5, 9])
def test_an_interrupted_statement_changes_nothing(
    tmp_path: Path, statement: Callable[[str, int], Any], at: int
) -> None:
    uri = str(tmp_path / "t")
    pilum.write_dataset(rows(0, 50, 0), uri)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            statement(uri, at)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert pilum.dataset(uri).version == 1
    assert content(uri) == [(key, 0) for key in range(50)]
    expect_sound(uri)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_handler_commits_to_the_table_whose_statement_it_interrupted(
    tmp_path: Path, statement: Callable[[str, int], Any]
) -> None:
    uri = str(tmp_path / "t")
    pilum.write_dataset(rows(5000, 50, 0), uri)
    made: list[int] = []

    def handle(*_: Any) -> None:
        made.append(pilum.dataset(uri).append(rows(9000, 1, 7)).version)

    handler = signal.signal(signal.SIGINT, handle)
    try:
        statement(uri, 5)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert made == [2]
    assert pilum.dataset(uri).version == 3
    expected = [(key, 1) for key in range(1000)] + [(key, 0) for key in range(5000, 5050)] + [(9000, 7)]
    assert content(uri) == expected
    expect_sound(uri)
