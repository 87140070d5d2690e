"""Tests against the original Kartothek 5.3.0: pilum reads its datasets, and writes datasets that it accepts.

`tests/fixtures/kartothek_random.tar.gz` has 30 datasets that `tests/support/kartothek_530.py` wrote with Kartothek: the tests
compare every row, and the results of random predicates. `tests/fixtures/kartothek/verdicts.json` has the digests of 200
datasets of pilum that Kartothek accepted, see `tests/support/kartothek_verdicts.py`. Tests with the marker `kartothek_peer`
run Kartothek itself, in the interpreter that `PILUM_KARTOTHEK_PYTHON` names: `make test-kartothek`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import pilum.kartothek
from support.random_kartothek import digest, make

ROOT = Path(__file__).parent.parent
SCALE = float(os.environ.get("PILUM_TEST_SCALE", "1"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("kartothek")
    with tarfile.open(ROOT / "fixtures" / "kartothek_random.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return sorted(folder.iterdir())


def typed(value: Any, kind: str) -> Any:
    if value is None:
        return None
    if kind == "date":
        return dt.date.fromisoformat(value)
    if kind == "time":
        return dt.datetime.fromisoformat(value)
    return bytes.fromhex(value) if kind == "bytes" else value


def holds(value: Any, op: str, other: Any) -> bool:
    if op == "in":
        return value in other
    if other is None:
        return (value is None) == (op == "==")
    if value is None:
        return op == "!="
    answers = {"==": value == other, "!=": value != other}
    if op in answers:
        return answers[op]
    return {"<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other}[op]


def condition(kinds: dict[str, str], rows: list[dict[str, Any]], rng: random.Random) -> tuple[str, str, Any]:
    column = rng.choice(list(kinds))
    pool = [row[column] for row in rows]
    op = rng.choice(["==", "!=", "in", *([] if kinds[column] == "bool" else ["<", "<=", ">", ">="])])
    if op == "in":
        return column, op, rng.choices([*pool, None], k=rng.randint(0, 3))
    value = rng.choice([*pool, None] if op in {"==", "!="} else [it for it in pool if it is not None] or [None])
    return (column, "!=", None) if value is None else (column, op, value)


def check(folder: Path) -> None:
    """Compare the rows that pilum reads from a dataset of Kartothek, and the results of random predicates."""
    told = json.loads((folder / "rows.json").read_text())
    kinds = told["kinds"]
    rows = [{name: typed(row[name], kind) for name, kind in kinds.items()} for row in told["rows"]]
    rows.sort(key=lambda row: row["rid"])
    k = pilum.kartothek.dataset(folder / "store", "random", slashes="join")
    assert (k.partition_keys, sorted(k.indices)) == (told["keys"], sorted(told["indices"])), folder
    read = k.to_table(columns=list(kinds)).sort_by("rid").to_pylist()
    assert read == rows, folder
    rng = random.Random(folder.name)
    for number in range(int(40 * SCALE)):
        predicates = [[condition(kinds, rows, rng) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))]
        want = [
            row["rid"] for row in rows if any(all(holds(row[c], op, v) for c, op, v in terms) for terms in predicates)
        ]
        got = sorted(k.to_table(predicates=predicates, columns=["rid"])["rid"].to_pylist())
        assert got == want, f"{folder} {number}: {predicates}"
        labels = k.dispatch(predicates)
        assert k.count_rows(None, predicates, labels=labels) == len(want), f"{folder} {number}: {predicates}"


def test_random_datasets_of_kartothek_are_read_and_queried(kept: list[Path]) -> None:
    assert len(kept) == 30
    for folder in kept:
        check(folder)


@pytest.mark.kartothek_peer
def test_new_random_datasets_of_kartothek_are_read_and_queried(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    script = ROOT / "support" / "kartothek_530.py"
    command = [os.environ["PILUM_KARTOTHEK_PYTHON"], str(script), str(tmp_path), str(seed), str(int(20 * SCALE))]
    subprocess.run(command, check=True, timeout=240)
    for folder in sorted(tmp_path.iterdir()):
        check(folder)


def test_pilum_writes_the_bytes_that_kartothek_accepted(tmp_path: Path) -> None:
    recorded = json.loads((ROOT / "fixtures" / "kartothek" / "verdicts.json").read_text())["digests"]
    assert len(recorded) >= 200
    # By default only every fourth dataset is made: writing one with its updates takes a quarter of a second.
    for number in range(0, len(recorded), 4 if SCALE == 1 else 1):
        made = make(number, tmp_path / str(number), named=True)
        assert digest(made.store) == recorded[str(number)], (
            f"dataset {number}: pilum writes other bytes than those that Kartothek 5.3.0 accepted; run "
            "tests/support/kartothek_verdicts.py with an interpreter that has Kartothek"
        )
