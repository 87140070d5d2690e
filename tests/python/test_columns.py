"""Columns added, dropped, renamed and converted; with the real pylance before, between and behind."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from support.comparing import assert_same

INNER = pa.struct([pa.field("p", pa.float64(), False), pa.field("q", pa.int64(), False)])
OUTER = pa.struct([pa.field("x", pa.int64(), False), pa.field("y", pa.string()), pa.field("t", INNER, False)])
SCHEMA = pa.schema([pa.field("a", pa.int64(), False), pa.field("b", pa.string()), pa.field("s", OUTER, False)])
ROWS = [{"a": i, "b": f"v{i}", "s": {"x": i, "y": f"y{i}", "t": {"p": i / 2, "q": -i}}} for i in range(20)]
TABLE = pa.Table.from_pylist(ROWS, schema=SCHEMA)


def both(uri: Path, want: list[dict[str, Any]], what: str) -> None:
    """Pilum and pylance read the same rows, and neither finds fault."""
    ds = pilum.dataset(uri)
    report = ds.verify()
    assert report.ok, (what, report.problems)
    assert ds.to_table().to_pylist() == want, what
    peer = lance.dataset(uri)
    peer.validate()
    assert peer.to_table().to_pylist() == want, what
    live = {field.id for field in walk(peer.lance_schema.fields())}
    for fragment in peer.get_fragments():
        held = [id_ for file in fragment.metadata.files for id_ in file.fields if id_ in live]
        assert len(held) == len(set(held)), (what, held)
        for file in fragment.metadata.files:
            kept = [id_ for id_ in file.fields if id_ >= 0]
            assert file.fields[0] >= 0, what
            assert kept == sorted(kept), what


def walk(fields: Any) -> Any:
    for field in fields:
        yield field
        yield from walk(field.children())


@pytest.mark.parametrize("stable", [False, True])
def test_pylance_reads_every_change_of_columns(tmp_path: Path, stable: bool) -> None:
    uri = tmp_path / "t"
    ds = pilum.write_dataset(TABLE, uri, compat="lance", max_rows_per_file=7, stable_row_ids=stable)
    ds.delete("a IN (0, 6, 7, 19)")
    want = [dict(row) for row in ROWS if row["a"] not in (0, 6, 7, 19)]

    def step(what: str, act: Any, change: Any) -> None:
        nonlocal want
        made = act(pilum.dataset(uri))
        assert made.version == pilum.dataset(uri).version
        want = [change(row) for row in want]
        both(uri, want, what)

    step("expression", lambda t: t.add_columns({"c": "a * 2"}), lambda r: {**r, "c": r["a"] * 2})
    step("col()", lambda t: t.add_columns({"d": pilum.col("c") + 1}), lambda r: {**r, "d": r["c"] + 1})

    def plus_half(batch: pa.RecordBatch) -> pa.RecordBatch:
        made = pc.add(batch["a"].cast(pa.float64()), 0.5)
        return pa.record_batch([made], schema=pa.schema([pa.field("e", pa.float64(), False)]))

    step("function", lambda t: t.add_columns(plus_half, batch_rows=4), lambda r: {**r, "e": r["a"] + 0.5})
    step(
        "values",
        lambda t: t.add_columns(pa.table({"f": [None if row["a"] % 3 else f"f{row['a']}" for row in want]})),
        lambda r: {**r, "f": None if r["a"] % 3 else f"f{r['a']}"},
    )
    step(
        "rename",
        lambda t: t.alter_columns({"c": {"name": "cc"}, "s.x": {"name": "xx"}}),
        lambda r: {
            **{"cc" if key == "c" else key: value for key, value in r.items()},
            "s": {"xx": r["s"]["x"], "y": r["s"]["y"], "t": r["s"]["t"]},
        },
    )

    def same(row: dict[str, Any]) -> dict[str, Any]:
        return row

    casts = [
        {"s.xx": {"type": pa.int32()}},
        {"s.t.p": {"type": pa.float32()}},
        {"s.t.q": {"type": pa.int16()}, "d": {"type": pa.int32()}},
        {"s.y": {"type": pa.large_string()}, "b": {"type": pa.large_string(), "name": "bb"}},
    ]
    for cast in casts[:3]:
        step(f"convert {list(cast)}", lambda t, cast=cast: t.alter_columns(cast), same)
    step(
        "convert and rename",
        lambda t: t.alter_columns(casts[3]),
        lambda r: {"bb" if key == "b" else key: value for key, value in r.items()},
    )
    schema = pilum.dataset(uri).schema
    assert (schema.field("d").type, schema.field("bb").type) == (pa.int32(), pa.large_string())
    assert schema.field("s").type.field("t").type.field("q").type == pa.int16()
    step(
        "drop", lambda t: t.drop_columns(["cc", "bb"]), lambda r: {k: v for k, v in r.items() if k not in ("cc", "bb")}
    )
    step(
        "drop a member",
        lambda t: t.drop_columns(["s.t.p"]),
        lambda r: {**r, "s": {**r["s"], "t": {"q": r["s"]["t"]["q"]}}},
    )
    pilum.dataset(uri).compact()
    # Compacted rows may come in another order; they are the rows that were there.
    compacted = lance.dataset(uri).to_table().to_pylist()
    assert sorted(compacted, key=lambda row: row["a"]) == sorted(want, key=lambda row: row["a"])
    want = compacted
    both(uri, want, "compact")
    lance.write_dataset(lance.dataset(uri).to_table().slice(0, 2), uri, mode="append")
    both(uri, want + want[:2], "append by pylance")


def test_pilum_reads_columns_that_pylance_changed(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    lance.write_dataset(TABLE, uri, data_storage_version="legacy", max_rows_per_file=7)
    lance.dataset(uri).delete("a IN (0, 6, 7, 19)")
    want = [dict(row) for row in ROWS if row["a"] not in (0, 6, 7, 19)]
    lance.dataset(uri).add_columns({"c": "a + 1"})
    want = [{**row, "c": row["a"] + 1} for row in want]
    both(uri, want, "add")
    lance.dataset(uri).alter_columns({"path": "c", "name": "cc", "data_type": pa.int32()})
    want = [{**{k: v for k, v in row.items() if k != "c"}, "cc": row["c"]} for row in want]
    both(uri, want, "convert and rename")
    # Its conversion of a member: the struct is named by both files.
    lance.dataset(uri).alter_columns({"path": "s.x", "data_type": pa.int32()})
    assert pilum.dataset(uri).to_table().to_pylist() == want
    # A second one fails in pylance itself; pilum does it, and pylance reads that.
    pilum.dataset(uri).alter_columns({"s.t.q": {"type": pa.int32()}})
    both(uri, want, "convert a second member")
    pilum.dataset(uri).alter_columns({"s.t.p": {"type": pa.float32()}})
    both(uri, want, "and a third")
    lance.dataset(uri).drop_columns(["b"])
    want = [{k: v for k, v in row.items() if k != "b"} for row in want]
    both(uri, want, "drop")
    pilum.dataset(uri).add_columns({"b": "a * 10"})
    want = [{**row, "b": row["a"] * 10} for row in want]
    both(uri, want, "add again")
    lance.dataset(uri).optimize.compact_files()
    both(uri, want, "compact by pylance")


def test_values_come_back_as_they_were_given(tmp_path: Path) -> None:
    ds = pilum.write_dataset(TABLE.select(["a"]), tmp_path / "t", max_rows_per_file=6)
    ds.delete("a % 4 = 3")
    given = pa.table(
        {
            "text": pa.array(["", None, "é"] * 5),
            "list": pa.array([[1, None], [], None] * 5, pa.list_(pa.int8())),
            "map": pa.array([[("k", 1.5)], None, []] * 5, pa.map_(pa.string(), pa.float64())),
            "choice": pa.array(["x", "y", None] * 5).dictionary_encode(),
            "struct": pa.array([{"n": None}, None, {"n": -0.0}] * 5, pa.struct([("n", pa.float64())])),
        }
    )
    made = pilum.dataset(tmp_path / "t").add_columns(given)
    assert made.rows == 15
    assert_same(made.to_table(given.schema.names), given)
    assert made.verify().ok
    # A slice of something larger, as a reader.
    longer = pa.table({"n": pa.array(range(40))}).slice(3, 15)
    again = made.add_columns(longer.to_reader(max_chunksize=4))
    assert again.to_table(["n"])["n"].to_pylist() == list(range(3, 18))


def test_a_function_is_called_again_when_rows_came_meanwhile(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    ds = pilum.write_dataset(TABLE.select(["a"]), uri)
    calls: list[int] = []

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        if len(calls) == 1:
            pilum.dataset(uri).append(pa.table({"a": [100]}, schema=pa.schema([SCHEMA.field("a")])))
        return pa.record_batch({"d": pc.multiply(batch["a"], 2)})

    made = ds.add_columns(double)
    assert made.to_table(["d"])["d"].to_pylist() == [2 * i for i in range(20)] + [200]
    assert made.verify().orphans == []

    def add_a_row(batch: pa.RecordBatch) -> pa.RecordBatch:
        pilum.dataset(uri).append(made.to_table().slice(0, 1))
        return pa.record_batch([batch["a"]], names=["z"])

    with pytest.raises(pilum.ConflictError, match="Append"):
        made.add_columns(add_a_row, retries=0)
    newest = pilum.dataset(uri)
    assert newest.schema.names == ["a", "d"]
    assert newest.verify().orphans == []


def files(uri: Path) -> list[Path]:
    return sorted(path for path in uri.rglob("*") if path.is_file())


def test_bad_changes_of_columns_say_so_and_leave_nothing(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    ds = pilum.write_dataset(TABLE, uri, max_rows_per_file=7)
    before = files(uri)

    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["a"][0].as_py() > 5:
            raise RuntimeError("the function broke")
        return pa.record_batch({"n": batch["a"]})

    cases: list[tuple[Any, str]] = [
        (lambda: ds.drop_columns(["bb"]), "unknown column bb; did you mean b"),
        (lambda: ds.drop_columns(["s.tt"]), r"did you mean s\.t"),
        (lambda: ds.drop_columns("ab"), "takes a list"),
        (lambda: ds.drop_columns(["a", "b", "s"]), "at least one"),
        (lambda: ds.alter_columns({"aa": {"name": "c"}}), "did you mean a"),
        (lambda: ds.alter_columns({"a": {"name": "b"}}), "`b`.* exists already"),
        (lambda: ds.alter_columns({"a": {"nmae": "c"}}), "'nmae' is none of"),  # type: ignore[typeddict-unknown-key]
        (lambda: ds.alter_columns({"a": {"type": "int33"}}), "no type of pyarrow"),  # type: ignore[typeddict-item]
        (lambda: ds.alter_columns({"b": {"type": pa.int64()}}), r"`b`: \(string\) cannot become int64"),
        (lambda: ds.alter_columns({"s.t.p": {"type": pa.int64()}}), r"`s\.t\.p`, row 1: 0\.5 "),
        (lambda: ds.alter_columns({"s": {"type": pa.int64()}}), "cannot become int64"),
        (lambda: ds.add_columns({"a": "1"}), "`a`.* exists already"),
        (lambda: ds.add_columns({"n": "a + "}), "syntax error"),
        (lambda: ds.add_columns({"n": "aa + 1"}), "unknown column aa; did you mean a"),
        (lambda: ds.add_columns({"n": "a + b"}), "type mismatch"),
        (lambda: ds.add_columns({"n": "CAST(b AS BIGINT)"}), "v0"),
        (lambda: ds.add_columns(pa.table({"n": [1, 2]})), "2 rows and the table has 20"),
        (lambda: ds.add_columns(pa.table({"n": range(21)})), "21 rows and the table has 20"),
        (lambda: ds.add_columns(pa.table({})), "column"),
        (lambda: ds.add_columns(lambda batch: batch.slice(1)), "19 rows for a batch of 20|6 rows for a batch of 7"),
        (lambda: ds.add_columns(lambda _: [1]), "returned a list"),
        (lambda: ds.add_columns(3), "int"),
    ]
    for act, told in cases:
        with pytest.raises((pilum.InvalidInputError, pilum.UnsupportedError), match=told):
            act()
        assert files(uri) == before, told
    with pytest.raises(RuntimeError, match="the function broke"):
        ds.add_columns(fails, batch_rows=3)
    assert files(uri) == before
    assert ds.latest_version() == 1
    both(uri, ROWS, "untouched")


def test_a_folder_without_permission_keeps_its_columns() -> None:
    """As nobody on the file system, since root may write anywhere."""
    with tempfile.TemporaryDirectory(prefix="pilum-") as folder:
        path = Path(folder) / "t"
        pilum.write_dataset(TABLE, path)
        before = files(path)
        everything = [Path(folder), path, *path.rglob("*")]
        for place in everything:
            place.chmod(0o555 if place.is_dir() else 0o444)
        code = f"""
            import ctypes, os
            import pilum, pyarrow as pa
            if os.geteuid() == 0:
                ctypes.CDLL(None).setfsuid(65534)
            ds = pilum.dataset({str(path)!r})
            for act in (
                lambda: ds.add_columns({{"n": "a"}}),
                lambda: ds.drop_columns(["a"]),
                lambda: ds.alter_columns({{"a": {{"name": "n"}}}}),
                lambda: ds.alter_columns({{"a": {{"type": pa.int32()}}}}),
            ):
                try:
                    act()
                except pilum.StoreError as error:
                    print("refused", error)
        """
        told = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
        )
        for place in everything:
            place.chmod(0o755 if place.is_dir() else 0o644)
        lines = told.stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["refused"] * 4, told
        assert all(str(path) in line for line in lines)
        assert files(path) == before


def test_config_metadata_and_diff(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    ds = pilum.write_dataset(TABLE.select(["a", "b"]), uri, stable_row_ids=True, compat="lance")
    ds = ds.update_config({"k": "v", "gone": "1"}).update_config(delete=["gone"])
    assert ds.config == {"k": "v"}
    assert lance.dataset(uri).config() == {"k": "v", "pilum.compat": "lance"}
    lance.dataset(uri).update_config({"theirs": "2"})
    assert pilum.dataset(uri).config == {"k": "v", "theirs": "2"}
    ds = pilum.dataset(uri).update_metadata({"who": "me"})
    ds = ds.update_schema_metadata({"unit": "s"}).update_field_metadata("a", {"title": "A"})
    assert ds.metadata == {"who": "me"}
    assert ds.schema.metadata == {b"unit": b"s"}
    assert ds.schema.field("a").metadata == {b"title": b"A"}
    lance.dataset(uri).validate()
    assert lance.dataset(uri).schema.field("a").metadata == {b"title": b"A"}
    before = ds.version
    assert ds.update_metadata({"who": "me"}).version == before
    for act, told in [
        (lambda: ds.update_field_metadata("aa", {"x": "y"}), "did you mean a"),
        (lambda: ds.update_config({"lance.auto_cleanup.interval": "often"}), "often"),
        (lambda: ds.update_config({"k": "1"}, delete=["k"]), "both set and deleted"),
        (lambda: ds.update_config(delete="k"), "list of keys"),
    ]:
        with pytest.raises(pilum.InvalidInputError, match=told):
            act()
    assert ds.latest_version() == before
    ds.delete("a < 3")
    ds.update({"b": "'new'"}, where="a = 10")
    newest = pilum.dataset(uri).append(pa.table({"a": [50], "b": ["x"]}, schema=TABLE.select(["a", "b"]).schema))
    diff = newest.diff(before)
    assert (diff.added, diff.removed, diff.updated, diff.exact) == (1, 3, 1, True)
    assert newest.checkout(before).diff(newest.version) == diff
    altered = newest.alter_columns({"b": {"name": "c"}}).add_columns({"d": "a"}).diff(before)
    assert (altered.added_columns, altered.altered_columns, altered.removed_columns) == (["d"], ["c"], [])
    ids = newest.to_table(["a"], "a IN (5, 10, 50)", with_row_id=True)
    rows = dict(zip(ids["a"].to_pylist(), ids["_rowid"].to_pylist(), strict=True))
    versions = newest.row_versions([rows[50], rows[10], rows[5]]).to_pylist()
    assert versions[0]["_row_created_at_version"] == newest.version
    assert versions[1]["_row_created_at_version"] == 1
    assert before < versions[1]["_row_last_updated_at_version"] < newest.version
    assert versions[2]["_row_last_updated_at_version"] == 1
    with pytest.raises(pilum.NotFoundError):
        newest.diff(999)
