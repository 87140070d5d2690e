"""The command `pilum`: what it answers, how it ends, what it never shows."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pilum
from pilum.cli.commands import pilum as command


@pytest.fixture
def uri(tmp_path: Path) -> str:
    rows = pa.table({"id": list(range(100)), "name": ["[b]x"] * 50 + [None] * 50, "list": [[1, None]] * 100})
    ds = pilum.write_dataset(rows, tmp_path / "t").append(rows.slice(0, 10))
    ds.delete("id = 3")
    return str(tmp_path / "t")


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout


def run_json(*arguments: str, code: int = 0) -> dict:
    return json.loads(run(*arguments, "--json", code=code))


def damage(uri: str) -> None:
    path = min((Path(uri) / "data").glob("*.lance"))
    sound = path.read_bytes()
    path.unlink()
    path.write_bytes(bytes([sound[0] ^ 1]) + sound[1:])


def test_a_sound_table_ends_with_0_and_a_damaged_one_with_1(uri: str) -> None:
    report = run_json("verify", uri)
    assert report == {
        "ok": True,
        "uri": uri,
        "version": 3,
        "problems": [],
        "uncovered": [],
        "orphans": [],
        "num_files": 2,
        "num_rows": 108,
    }
    assert "sound" in run("verify", uri)
    damage(uri)
    report = run_json("verify", uri, code=1)
    (problem,) = report["problems"]
    assert not report["ok"]
    assert problem["check"] == "pages"
    assert "checksum" in problem["reason"]
    assert "1 problem (" in run("verify", uri, code=1)


def test_a_table_that_cannot_be_opened_is_a_problem_and_none_is_a_failure(uri: str, tmp_path: Path) -> None:
    newest = min((Path(uri) / "_versions").glob("*.manifest"))
    newest.write_bytes(newest.read_bytes()[:-1])
    (problem,) = run_json("verify", uri, code=1)["problems"]
    assert newest.name in problem["reason"]
    assert run_json("verify", str(tmp_path / "none"), code=1)["error"]["kind"] == "not_found"


def test_one_file_on_its_own(uri: str) -> None:
    path = str(max((Path(uri) / "data").glob("*.lance"), key=lambda path: path.stat().st_size))
    assert run_json("verify", path)["num_rows"] == 100
    found = run_json("inspect", path)
    assert found["kind"] == "file"
    columns = {column["name"]: column for column in found["file"]["columns"]}
    assert list(columns) == ["id", "name", "list", "list.item"]
    (page,) = columns["id"]["pages"]
    assert (page["min"], page["max"], page["null_count"], page["length"]) == ("0", "99", 0, 100)
    assert columns["list.item"]["pages"][0]["validity"] == ["bitmap"]
    assert found["file"]["extension"] == {
        "version": 1,
        "checksum_block_bytes": 512,
        "required": True,
        "dictionary_has_empty": False,
    }
    assert "list.item" in run("inspect", path)
    Path(path).write_bytes(b"no such format")
    assert run_json("verify", path, code=1)["problems"]


def test_inspect_tells_versions_fragments_flags_and_coverage(uri: str) -> None:
    found = run_json("inspect", uri)
    table = found["table"]
    assert (table["version"], table["num_rows"], table["num_deleted_rows"], table["num_files"]) == (3, 108, 2, 2)
    assert table["compat"] == "lossless"
    assert table["reader_flags"] == ["deletion files", "pilum extension"]
    assert table["checksums"] == {"manifest": True, "num_data_files": 2, "num_deletion_files": 2}
    assert [it["operation"] for it in found["versions"]][1:] == ["Append", "Delete"]
    assert sum(it["num_rows"] for it in table["fragments"]) == 108
    assert run_json("inspect", uri, "--version", "1")["table"]["num_rows"] == 100


def test_the_small_commands(uri: str) -> None:
    assert run_json("count", uri) == {"num_rows": 108}
    assert run_json("count", uri, "--filter", "name IS NULL") == {"num_rows": 50}
    assert run("count", uri) == "108\n"
    columns = run_json("schema", uri)["columns"]
    assert [it["name"] for it in columns] == ["id", "name", "list", "list.item"]
    assert [it["data_type"] for it in columns] == ["int64", "string", "list<item: int64>", "int64"]
    rows = run_json("head", uri, "-n", "2")["rows"]
    assert rows == [{"id": row, "name": "[b]x", "list": [1, None]} for row in range(2)]
    assert "[b]x" in run("head", uri)
    assert run_json("tag", uri, "--create", "first", "--version", "1") == {"tags": {"first": 1}}
    assert run_json("versions", uri)["tags"] == {"first": 1}
    assert run_json("restore", uri, "--version", "first") == {"version": 4, "restored": 1}
    assert run_json("tag", uri, "--delete", "first") == {"tags": {}}
    before = sorted(Path(uri).rglob("*"))
    assert run_json("cleanup", uri, "--older-than", "0", "--dry-run")["versions"] == [1, 2, 3]
    assert sorted(Path(uri).rglob("*")) == before
    assert run_json("compact", uri)["rows"] >= 0


def test_diff_tells_what_changed_between_two_versions(uri: str) -> None:
    found = run_json("diff", uri)
    assert (found["from"], found["to"], found["added"], found["removed"]) == (2, 3, 0, 2)
    pilum.dataset(uri).add_columns({"twice": "id * 2"})
    assert run_json("diff", uri, "--with", "1")["added_columns"] == ["twice"]
    assert "twice" in run("diff", uri)
    assert "--with" in CliRunner().invoke(command, ["diff", uri, "--version", "1"]).stderr
    run("diff", uri, "--version", "1", code=2)


def test_wrong_use_ends_with_2_and_secrets_are_not_shown(uri: str) -> None:
    run("verify", code=2)
    run("no-such-command", code=2)
    run("count", uri, "--filter", "no_such_column > 1", code=2)
    done = CliRunner().invoke(command, ["verify", uri, "--option", "hunter2"])
    assert done.exit_code == 2
    assert "hunter2" not in done.output


def test_the_module_runs_in_a_pipe_without_colours_or_traces(uri: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pilum.cli", "inspect", uri], capture_output=True, text=True, check=True
    )
    assert "\x1b" not in done.stdout
    assert "108 live, 2 deleted" in done.stdout
    assert done.stderr == ""
    light = "import pilum, sys; assert not {'click', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", light], check=True)
    without = "import sys; sys.modules['click'] = None; from pilum.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "pilum: the command line needs the package 'click': pip install click rich\n"


def test_head_takes_columns_and_a_filter(uri: str) -> None:
    rows = run_json("head", uri, "--columns", "name, id", "--filter", "id >= 98", "-n", "9")["rows"]
    assert rows == [{"name": None, "id": 98}, {"name": None, "id": 99}]
    assert list(rows[0]) == ["name", "id"]
    assert run("head", uri, "--columns", "id", "--filter", "id = 98") == "id\n98\n"
    assert run("head", uri, "--columns", "id", "--filter", "id = -1") == "id\n"
    run("head", uri, "--columns", "nope", code=2)


def test_head_fits_into_80_columns_of_text_and_breaks_no_line(tmp_path: Path) -> None:
    wide = pa.table({f"column_{i}": [f"value {i} " * 20, "a\nb\x1b[31m"] for i in range(5)})
    pilum.write_dataset(wide, tmp_path / "five")
    shown = run("head", str(tmp_path / "five"))
    assert len(shown.splitlines()) == 3
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown
    many = pa.table({f"column_{i}": ["x" * 30] for i in range(100)})
    pilum.write_dataset(many, tmp_path / "many")
    shown = run("head", str(tmp_path / "many"))
    assert max(map(len, shown.splitlines())) <= 80
    assert "more columns: column_" in shown.splitlines()[-1]


def test_head_of_many_rows_is_fast(tmp_path: Path) -> None:
    rows = pa.table({"id": range(20_000), "text": [f"row {i}" for i in range(20_000)]})
    pilum.write_dataset(rows, tmp_path / "t")
    start = time.process_time()
    shown = run("head", str(tmp_path / "t"), "-n", "20000")
    assert shown.count("\n") == 20_001
    # 0.2 s on one core; a table of rich took 30.
    assert time.process_time() - start < 5


def test_json_is_valid_whatever_the_values(tmp_path: Path) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    rows = pa.table(
        {
            "f": pa.array([float("nan"), float("inf"), -0.5]),
            "b": pa.array([b"\xff\x00", b"", None], pa.binary()),
            "d": pa.array([dt.date(2026, 1, 1)] * 3),
            "m": pa.array([[(1, 2.5)], [], None], pa.map_(pa.int64(), pa.float64())),
            "n": pa.array([{"x": float("-inf")}] * 3),
        }
    )
    pilum.write_dataset(rows, tmp_path / "t", properties={"why": "\u2028"})
    text = run("head", str(tmp_path / "t"), "--json")
    first, second, third = json.loads(text, parse_constant=refuse)["rows"]
    assert first == {"f": "nan", "b": "/wA=", "d": "2026-01-01", "m": [[1, 2.5]], "n": {"x": "-inf"}}
    assert (second["f"], second["b"], third["b"], third["f"]) == ("inf", "", None, -0.5)
    for name in ("inspect", "versions", "schema", "verify", "count"):
        json.loads(run(name, str(tmp_path / "t"), "--json"), parse_constant=refuse)


def pipe_to(reader: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, its output into another program."""
    words = " ".join([sys.executable, "-m", "pilum", *arguments])
    script = f"set -o pipefail; {words} {reader}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_closed_output_ends_the_command_quietly(tmp_path: Path, flags: list[str]) -> None:
    rows = pa.table({"text": ["x" * 70] * 50_000})
    pilum.write_dataset(rows, tmp_path / "t")
    done = pipe_to("| head -c 100", "head", str(tmp_path / "t"), "-n", "50000", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout) == 100


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("arguments", [["count"], ["head", "--json"], ["inspect"]])
def test_a_full_output_is_told_in_one_line(uri: str, arguments: list[str]) -> None:
    done = pipe_to("> /dev/full", arguments[0], uri, *arguments[1:])
    assert done.returncode == 1
    assert done.stderr == "pilum: cannot write to standard output: No space left on device\n"


def test_the_package_runs_as_a_module(uri: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pilum", "count", uri], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("108\n", "")
