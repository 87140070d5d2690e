"""Random datasets that the original Kartothek 5.3.0 wrote: every row, and random predicates.

`tests/fixtures/kartothek_random.tar.gz` has 30 of them, made by `tests/support/kartothek_530.py`. Where there is a Python with
Kartothek 5.3.0, which `PILUM_KARTOTHEK_PYTHON` names, or a `python3.8` for which pip can install it, new ones are written too.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import pilum.kartothek

ROOT = Path(__file__).parent.parent
SCALE = float(os.environ.get("PILUM_TEST_SCALE", "1"))
REQUIREMENTS = [
    *("kartothek==5.3.0", "numpy==1.23.5", "pandas==1.3.5", "pyarrow==6.0.1", "dask[dataframe]==2021.12.0"),
    *("simplekv==0.14.1", "storefact==0.11.0", "urlquote==2.2.0", "msgpack==1.1.1", "zstandard==0.23.0"),
    *("simplejson==4.1.2", "deprecation==2.1.0", "decorator==5.3.1", "toolz==1.0.0", "attrs==25.3.0"),
]


def peer(scratch: Path) -> str | None:
    """Return a Python with Kartothek 5.3.0, if there is one or can be one."""
    given = os.environ.get("PILUM_KARTOTHEK_PYTHON")
    if given:
        return given
    python = shutil.which("python3.8")
    if python is None:
        return None
    made = scratch / "venv" / "bin" / "python"
    steps = [
        [python, "-m", "venv", str(scratch / "venv")],
        [str(made), "-m", "pip", "install", "-q", "setuptools<60", "wheel"],
        [str(made), "-m", "pip", "install", "-q", *REQUIREMENTS],
    ]
    for step in steps:
        if subprocess.run(step, check=False, capture_output=True, timeout=240).returncode != 0:
            return None
    return str(made)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    scratch = tmp_path_factory.mktemp("kartothek")
    kept = scratch / "kept"
    with tarfile.open(ROOT / "fixtures" / "kartothek_random.tar.gz") as archive:
        archive.extractall(kept, filter="data")
    found = sorted(kept.iterdir())
    assert len(found) == 30
    python = peer(scratch)
    if python is not None:
        seed = random.SystemRandom().randrange(10**6)
        count = int(20 * SCALE)
        script = ROOT / "support" / "kartothek_530.py"
        subprocess.run([python, str(script), str(scratch / "new"), str(seed), str(count)], check=True, timeout=240)
        found += sorted((scratch / "new").iterdir())
    return found


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


def test_random_datasets_of_kartothek_are_read_and_queried(datasets: list[Path]) -> None:
    for folder in datasets:
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
            predicates = [
                [condition(kinds, rows, rng) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))
            ]
            want = [
                row["rid"]
                for row in rows
                if any(all(holds(row[c], op, v) for c, op, v in terms) for terms in predicates)
            ]
            got = sorted(k.to_table(predicates=predicates, columns=["rid"])["rid"].to_pylist())
            assert got == want, f"{folder} {number}: {predicates}"
            labels = k.dispatch(predicates)
            assert k.count_rows(None, predicates, labels=labels) == len(want), f"{folder} {number}: {predicates}"
