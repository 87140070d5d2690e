"""Expression objects: operators, pickles, and every call that takes them."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum import spark
from pilum.expr import from_message
from support.sql_expressions import Expressions, rows

CASES = 5_000 * int(os.environ.get("PILUM_TEST_SCALE", "1"))

C = pilum.col


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        (1 + C("a"), "1 + a"),
        (7 - C("a") % 3, "7 - a % 3"),
        (10 // C("a"), "10 // a"),
        (-C("a"), "-a"),
        (abs(C("a")), "ABS(a)"),
        (C("s")["member"] == 1, "s['member'] = 1"),
        (C("l")[0], "ITEM(l, 0)"),
        (C("a").cast(pa.decimal128(9, 2)), "CAST(a AS DECIMAL(9, 2))"),
        (C("a").try_cast("TIMESTAMP(9) WITH TIME ZONE"), "TRY_CAST(a AS TIMESTAMP(9) WITH TIME ZONE)"),
        (C("a").ilike("%x!%", escape="!"), "a ILIKE '%x!%' ESCAPE '!'"),
        (C("a").is_nan() & True, "ISNAN(a) AND TRUE"),
        (C("a").regexp_matches("^x"), "REGEXP_MATCHES(a, '^x')"),
        (C("a").substring(2, 3).concat("-", C("b")), "CONCAT(SUBSTRING(a, 2, 3), '-', b)"),
        (C("a").date_trunc("day") == dt.date(2026, 1, 2), "DATE_TRUNC('day', a) = DATE '2026-01-02'"),
        (pilum.case_when((C("a") > 0, "plus"), otherwise="minus"), "CASE WHEN a > 0 THEN 'plus' ELSE 'minus' END"),
        (pilum.coalesce(C("a"), C("b"), 0), "COALESCE(a, b, 0)"),
        (C("a").list_contains("x"), "LIST_CONTAINS(a, 'x')"),
        (C("a").is_distinct_from(None), "a IS DISTINCT FROM NULL"),
        (
            C("a") == np.datetime64("2026-01-02T03:04:05.000000006", "ns"),
            "a = TIMESTAMP '2026-01-02 03:04:05.000000006'",
        ),
        (C("a") == pa.scalar(1, pa.timestamp("s", "UTC")), "a = TIMESTAMP '1970-01-01 00:00:01Z'"),
        (C("a") == Decimal("-0.10"), "a = -0.10"),
        (C("a") > 0.00001, "a > 0.00001"),
    ],
)
def test_objects_are_the_tree_of_their_text(written, sql):
    assert written.sql == sql
    assert str(pilum.Expr(sql)) == sql
    assert eval(repr(written), {"Expr": pilum.Expr}).sql == sql
    assert pickle.loads(pickle.dumps(written)).sql == sql


def test_an_expression_has_no_truth_value_no_rows_and_no_hash():
    for use in (bool, list, hash, lambda x: 1 in x, lambda x: not x):
        with pytest.raises(TypeError):
            use(C("a"))
    with pytest.raises(TypeError, match=r"isin"):
        1 in C("a")  # noqa: B015


@pytest.mark.parametrize("value", [object(), 2**300, dt.time(1, tzinfo=dt.UTC), {"a": 1}, np.array([1, 2])])
def test_a_value_without_a_literal_is_refused(value):
    with pytest.raises(pilum.InvalidInputError):
        C("a") == value  # noqa: B015


def test_a_message_of_another_release_is_refused_by_version():
    _, (message,) = C("a").__reduce__()
    assert from_message(message).sql == "a"
    with pytest.raises(pilum.UnsupportedError, match="version 9"):
        from_message(b"\x08\x09" + message[2:])
    for damaged in (b"", b"\xff" * 9, message[:-1], message + b"\x12"):
        with pytest.raises(pilum.PilumError):
            from_message(damaged)


@pytest.mark.parametrize(
    "values",
    [
        range(0, 2_000_000, 2),
        pa.array(range(0, 2_000_000, 2)),
        pa.chunked_array([pa.array([0, 2], pa.int8()), pa.array([4], pa.int8())]),
        np.arange(0, 2_000_000, 2),
        [0, 2, 4],
        {0, 2, 4},
    ],
    ids=["range", "array", "chunks", "numpy", "list", "set"],
)
def test_isin_takes_values_of_every_kind(values, tmp_path):
    ds = pilum.write_dataset(pa.table({"a": [1, 2, None, 4]}), tmp_path / "t").dataset
    condition = C("a").isin(values)
    assert ds.to_table(filter=condition)["a"].to_pylist() == [2, 4]
    assert ds.count_rows(pickle.loads(pickle.dumps(condition))) == 2
    with pytest.raises(pilum.InvalidInputError, match="isin"):
        C("a").isin("text")


def test_every_call_takes_every_spelling(tmp_path):
    spellings = [
        "a > 1",
        C("a") > 1,
        pc.field("a") > 1,
        [("a", ">", 1)],
        [[("a", ">", 1), ("a", "!=", None)], [("a", "in", [2, 3])]],
        bytes((pc.field("a") > 1).to_substrait(pa.schema([("a", pa.int64())]))),
    ]
    for place, filter_ in enumerate(spellings):
        ds = pilum.write_dataset(pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}), tmp_path / str(place)).dataset
        assert ds.to_table(filter=filter_)["a"].to_pylist() == [2, 3]
        assert ds.count_rows(filter_) == 2
        tasks = pickle.loads(pickle.dumps(ds.scanner(filter=filter_).tasks()))
        assert sum(task.to_reader().read_all().num_rows for task in tasks) == 2
        updated = ds.update({"b": pilum.lit("new")}, where=filter_)
        assert updated.rows == 2
        with pytest.raises(pilum.ConflictError):
            updated.dataset.append(pa.table({"a": [1], "b": ["x"]}), expect=filter_)
        merged = updated.dataset.merge_insert(
            "a", pa.table({"a": [1], "b": ["x"]}), when_not_matched_by_source=("delete", filter_)
        )
        assert merged.deleted == 2
        deleted = merged.dataset.append(pa.table({"a": [3], "b": ["q"]})).delete(filter_)
        assert deleted.rows == 1
    added = deleted.dataset.add_columns({"c": C("a") * 2, "d": "a + 1", "e": pc.field("a") + 1, "f": 7})
    assert added.dataset.to_table().to_pylist() == [{"a": 1, "b": "x", "c": 2, "d": 2, "e": 2, "f": 7}]
    assert spark.read.__name__ == "read"


@pytest.mark.parametrize("seed", range(2))
def test_trees_and_their_texts_and_messages_have_the_same_values(seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    made = Expressions(r)
    t = rows(r, 40)
    ds = pilum.write_dataset(t, tmp_path / "t", durability="none").dataset
    for _ in range(CASES // 2 // 50):
        trees = [pilum.Expr(made.any()) for _ in range(50)]
        for tree in trees:
            assert pilum.Expr(tree.sql).sql == tree.sql
        sent = pickle.loads(pickle.dumps(trees))
        by_tree, by_text, by_message = (
            {f"e{place}": each for place, each in enumerate(forms)}
            for forms in (trees, [tree.sql for tree in trees], sent)
        )
        try:
            expected = ds.to_table(columns=by_tree)
        except pilum.InvalidInputError:
            continue
        assert ds.to_table(columns=by_text).to_pydict().__repr__() == expected.to_pydict().__repr__()
        assert ds.to_table(columns=by_message).to_pydict().__repr__() == expected.to_pydict().__repr__()


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2], pa.duration("ns")),
        pa.array([5], pa.duration("us")),
        pa.array([5, None], pa.time32("s")),
        pa.array([5, 7], pa.time64("ns")),
        pa.array([Decimal("1.5")], pa.decimal256(50, 2)),
        pa.array([5, 5], pa.time64("us")).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)
def test_isin_takes_arrays_of_types_that_the_engine_keeps_no_arrays_of(values: pa.Array) -> None:
    plain = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
    ds = pilum.write_dataset(pa.table({"x": plain[:1]}), "memory://isin/table", mode="overwrite")
    assert ds.count_rows(pilum.col("x").isin(values)) == 1
    assert ds.count_rows(pc.field("x").isin(plain)) == 1
    assert ds.count_rows(~pilum.col("x").isin(values)) == 0
