"""The command takes every kind of address: exit codes, JSON, and what is refused, command by command."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import pilum
from pilum.cli.commands import pilum as command

ROWS = pa.table(
    {"id": [1, 2, 3], "name": ["a", None, "c"], "f": [0.5, math.nan, -1.0], "s": [{"x": 1}, None, {"x": 3}]}
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make one of each kind: table, data file, Parquet file, Arrow file and stream, Skiff stream, reference set."""
    monkeypatch.chdir(tmp_path)
    ds = pilum.write_dataset(ROWS, "table", durability="none")
    (tmp_path / "one.lance").write_bytes((tmp_path / "table" / ds.fragments[0].files[0]).read_bytes())
    ds.append(ROWS.slice(0, 1), durability="none")
    pq.write_table(ROWS, "rows.parquet")
    with pa.ipc.new_file("rows.arrow", ROWS.schema) as writer:
        writer.write_table(ROWS)
    with pa.ipc.new_stream("rows.arrows", ROWS.schema) as writer:
        writer.write_table(ROWS)
    fmt = pilum.skiff.Format.from_arrow(ROWS.select(["id", "name"]).schema)
    Path("format.json").write_text(fmt.to_json())
    with Path("rows.skiff").open("wb", buffering=0) as file:
        pilum.skiff.encode(ROWS.select(["id", "name"]).to_batches(), file, fmt)
    Path("bytes").write_bytes(b"0123456789")
    refs = {".zgroup": '{"zarr_format":2}', "x/0": [str(tmp_path / "bytes"), 2, 3], "x/1": "base64:AAE="}
    Path("set.json").write_text(json.dumps(refs))
    return tmp_path


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(command, list(map(str, arguments)))
    assert done.exit_code == code, (arguments, done.output, done.exception)
    assert "Traceback" not in done.output
    return done.stdout


def run_json(*arguments: object, code: int = 0) -> dict:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(run(*arguments, "--json", code=code), parse_constant=refuse)


SKIFF = ("--format", "format.json")
READING = [
    ("table",), ("rows.parquet",), ("rows.arrow",), ("rows.arrows",), ("rows.skiff", *SKIFF), ("set.json",), ("one.lance",),
]  # fmt: skip


@pytest.mark.parametrize("uri", READING, ids=lambda it: it[0])
@pytest.mark.parametrize("name", ["inspect", "schema", "head", "count", "stats", "verify"])
def test_commands_that_read_take_every_kind(folder: Path, name: str, uri: tuple[str, ...]) -> None:
    if (name, uri[0]) == ("head", "one.lance"):
        run(name, *uri, code=2)
        assert "its table" in run_json(name, *uri, code=2)["error"]["message"]
        return
    assert run(name, *uri)
    found = run_json(name, *uri)
    num_rows = {"table": 4}.get(uri[0], 3)
    if name == "count":
        assert found == {"num_rows": num_rows}
    if name == "verify":
        assert (found["ok"], found["num_rows"]) == (True, num_rows)
    if name in {"schema", "stats"} and uri[0] != "set.json":
        assert [it.get("name", it.get("column")) for it in found["columns"]][:2] == ["id", "name"]
    if name == "head" and uri[0] not in {"set.json", "rows.skiff"}:
        assert found["rows"][1] == {"id": 2, "name": None, "f": "nan", "s": None}
    if name == "stats" and uri[0] not in {"set.json", "table"}:
        assert found["columns"][0] == {**found["columns"][0], "min": 1, "max": 3, "null_count": 0, "exact": True}


KEEPING = {
    "versions": (), "diff": (), "compact": (), "cleanup": ("--dry-run",), "restore": ("--version", "1"),
    "tag": ("--create", "a"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEEPING)
def test_commands_that_keep_a_table_refuse_other_kinds_by_name(folder: Path, name: str) -> None:
    for uri, called in (("rows.parquet", "Parquet"), ("set.json", "reference"), ("one.lance", "data file")):
        error = run_json(name, uri, *KEEPING[name], code=2)["error"]
        assert called in error["message"]
        assert "table" in error["message"]
    run_json(name, "table", *KEEPING[name])
    assert run(name, "table", *{**KEEPING, "tag": ()}[name])


EVERY = {
    **KEEPING, "inspect": (), "schema": (), "head": (), "count": (), "stats": (), "verify": (), "refs": (), "convert": ("out",),
}  # fmt: skip


def test_every_command_of_the_contract_is_there() -> None:
    assert set(command.commands) == {*EVERY, "doctor"}


@pytest.mark.parametrize("name", EVERY)
def test_exit_codes_are_those_of_the_contract(folder: Path, name: str) -> None:
    error = run_json(name, "nowhere", *EVERY[name], code=1)["error"]
    assert error["kind"] == "not_found"
    run(name, code=2)
    run(name, "table", *EVERY[name], "--no-such-option", code=2)
    assert run(name, "--help").startswith("Usage:")


def test_doctor_ends_with_0_for_a_sound_folder_and_2_for_wrong_use(folder: Path) -> None:
    assert run_json("doctor", "some", "--rounds", "1")["trusted"]
    run("doctor", "some", "--rounds", "0", code=2)
    run("doctor", code=2)


def test_verify_ends_with_1_for_damage_of_every_kind(folder: Path) -> None:
    for name in ("rows.parquet", "rows.arrow", "one.lance"):
        sound = Path(name).read_bytes()
        place = sound.index(b"ac") if b"ac" in sound else 8
        Path(name).write_bytes(sound[:place] + b"\xff\xff" + sound[place + 2 : -8])
        report = run_json("verify", name, code=1)
        assert not report.get("ok")
        assert report["problems"]
    Path("set.json").write_text(json.dumps({"x/0": ["bytes", 8, 30], "x/1": [str(folder / "bytes"), 5, 50]}))
    assert len(run_json("verify", "set.json", code=1)["problems"]) >= 1


ARRAY = {
    "zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|u1", "compressor": None, "filters": None, "fill_value": 0,
    "order": "C",
}  # fmt: skip
CONVERSIONS = ["table", "rows.parquet", "rows.arrow", "rows.arrows"]


@pytest.mark.parametrize("source", CONVERSIONS)
@pytest.mark.parametrize("target", ["t2", "x.parquet", "x.arrow", "x.arrows"])
def test_rows_are_the_same_after_every_conversion(folder: Path, source: str, target: str) -> None:
    num_rows = 4 if source == "table" else 3
    assert run_json("convert", source, target) == {"rows": num_rows}
    assert run_json("head", target)["rows"] == run_json("head", source)["rows"]
    assert run_json("convert", source, target, code=1)["error"]["kind"] == "already_exists"


def test_skiff_streams_and_sets_are_converted_too(folder: Path) -> None:
    assert run_json("convert", "rows.skiff", "x.parquet", "--format", "format.json", "--text") == {"rows": 3}
    assert run_json("head", "x.parquet")["rows"][0] == {"id": 1, "name": "a"}
    assert run_json("convert", "set.json", "x.json") == {"rows": 3}
    assert run_json("refs", "x.json")["num_keys"] == 3
    zarr = {".zgroup": {"zarr_format": 2}, "x/.zarray": ARRAY, "x/0": [str(folder / "bytes"), 2, 3]}
    Path("zarr.json").write_text(json.dumps({"version": 1, "refs": zarr}))
    assert run_json("convert", "zarr.json", "x.parq")["rows"] == 3
    assert run_json("convert", "x.parq", "back.json")["rows"] >= 3
    assert run_json("refs", "x.parq", "--keys", "x/0")["keys"][0]["offset"] == 2
    assert run_json("convert", "table", "rows2.parq") == {"rows": 4}
    assert run_json("count", "rows2.parq") == {"num_rows": 4}
    run("convert", "zarr.json", "x.parq", code=1)
    run("convert", "set.json", "table2", code=2)
    run("convert", "one.lance", "x.arrow", code=2)
    run("convert", "table", "no/such/folder/x.arrow", code=1)
    assert not list(folder.rglob("*.part"))


def test_refs_shows_lists_reads_and_writes_sets(folder: Path) -> None:
    found = run_json("refs", "set.json")
    assert found == {
        "num_keys": 3, "num_inline": 2, "num_ranges": 1, "num_whole_files": 0, "urls": [str(folder / "bytes")],
    }  # fmt: skip
    assert "x/0" in run("refs", "set.json", "--keys", "x/")
    keys = run_json("refs", "set.json", "--keys", "x/")["keys"]
    assert keys[0] == {"key": "x/0", "path": str(folder / "bytes"), "offset": 2, "size": 3}
    assert CliRunner().invoke(command, ["refs", "set.json", "--get", "x/0"]).stdout_bytes == b"234"
    assert run_json("refs", "set.json", "--get", "x/1")["bytes"] == base64.b64encode(b"\0\1").decode()
    run("refs", "set.json", "--get", "nope", code=1)
    assert run_json("refs", "set.json", "--to", "copy.json") == {"target": "copy.json", "num_keys": 3}
    run("refs", "set.json", "--to", "copy.json", code=1)
    run("refs", "set.json", "--to", "copy.txt", code=2)
    run("refs", "rows.parquet", code=2)
    run("restore", "table", "--version", "1")
    assert run_json("refs", "table", "--of", "id", "--to", "ids.json")["num_keys"] > 1
    assert run_json("refs", "table", "--of", "id")["num_ranges"] >= 1


def test_head_as_json_keeps_every_value(folder: Path) -> None:
    rows = pa.table(
        {
            "big": pa.array([2**63 - 1]),
            "f": [-0.0],
            "d": pa.array([Decimal("1.20")], pa.decimal128(9, 2)),
            "ns": pa.array([1], pa.timestamp("ns", "Europe/Berlin")),
            "far": pa.array([2**40], pa.timestamp("s")),
            "span": pa.array([1500], pa.duration("ms")),
            "m": pa.array([[(b"k", math.inf)]], pa.map_(pa.binary(), pa.float64())),
            "day": [dt.date(2026, 1, 31)],
        }
    )
    pilum.write_dataset(rows, "wide")
    assert run_json("head", "wide")["rows"] == [
        {
            "big": 2**63 - 1, "f": -0.0, "d": "1.20", "ns": "1970-01-01T00:00:00.000000001Z", "far": "+36812-02-20T00:36:16",
            "span": "PT1.500S", "m": [["aw==", "inf"]], "day": "2026-01-31",
        }
    ]  # fmt: skip
    assert "-0.0" in run("head", "wide", "--json")
    # Python has no date in the year 36812: the text for people is that of JSON.
    assert "36812-02-20" in run("head", "wide", "--columns", "far")


def test_stats_of_a_table_say_what_is_exact(folder: Path) -> None:
    pilum.dataset("table").delete("id = 3")
    bounds = {it["column"]: it for it in run_json("stats", "table")["columns"]}
    exact = {it["column"]: it for it in run_json("stats", "table", "--exact")["columns"]}
    assert (bounds["id"]["max"], bounds["id"]["exact"], exact["id"]["max"], exact["id"]["exact"]) == (3, False, 2, True)
    assert exact["s.x"] == {**exact["s.x"], "null_count": 1, "min": 1, "max": 1}
    assert (exact["f"]["min"], exact["f"]["max"], exact["f"]["null_count"]) == (0.5, 0.5, 0)
    assert "bounds" in run("stats", "table")
    assert run_json("stats", "table", "--version", "1")["columns"][0]["exact"]
    run("stats", "rows.parquet", "--version", "1", code=2)
