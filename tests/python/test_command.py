"""The command `pilum`: what it answers, how it ends, what it never shows."""

from __future__ import annotations

import json
import subprocess
import sys
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
    assert "1 problems" in run("verify", uri, code=1)


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
    assert [it["name"] for it in run_json("schema", uri)["columns"]] == ["id", "name", "list", "list.item"]
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
