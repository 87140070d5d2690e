"""Overwrites with `replace_where` replace the rows for which a condition is true, in one version, also beside other writers."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum import spark as ps
from pilum.spark import replacing, staging

SCHEMA = pa.schema([("day", pa.int32()), ("id", pa.int64())])


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "t")


def days(*pairs):
    """Return a table of (day, id)."""
    return pa.table({name: [pair[at] for pair in pairs] for at, name in enumerate(SCHEMA.names)}, SCHEMA)


def contents(uri, version=None):
    rows = pilum.dataset(uri, version=version).to_table().to_pylist()
    return sorted(((row["day"], row["id"]) for row in rows), key=str)


def prepared(uri, condition, columns=SCHEMA, **options):
    return staging.prepare(columns, uri, "overwrite", replace_where=condition, options=options or None)


def staged(plan, *tables):
    """Run one task for each table as a worker of Spark does, which gets the description of the write pickled."""
    spec = pickle.loads(pickle.dumps(plan.spec))
    return [piece for table in tables for piece in staging.write_task(table.to_batches(), spec).pieces]


def replaced(uri, condition, *tables, **options):
    plan = prepared(uri, condition, tables[0].schema, **options)
    return replacing.commit(plan, staged(plan, *tables))


def made(uri, **options):
    return pilum.write_dataset(days((1, 10), (1, 11), (2, 20), (None, 0), (3, 30)), uri, max_rows_per_file=2, **options)


@pytest.mark.parametrize(
    ("condition", "new", "left"),
    [
        ("day = 1", [(1, 12)], [(1, 12), (2, 20), (3, 30), (None, 0)]),
        ("day >= 2", [(2, 21), (9, 90), (3, 31)], [(1, 10), (1, 11), (2, 21), (3, 31), (9, 90), (None, 0)]),
        # Rows for which the condition is null stay; `IS NULL` chooses rows with a null.
        ("day <> 1", [], [(1, 10), (1, 11), (None, 0)]),
        ("day IS NULL", [(None, 5), (None, 6)], [(1, 10), (1, 11), (2, 20), (3, 30), (None, 5), (None, 6)]),
        ([("day", "in", [1, 2]), ("id", ">", 10)], [(1, 99)], [(1, 10), (1, 99), (3, 30), (None, 0)]),
        (pilum.col("id") > 5, [(7, 70)], [(7, 70), (None, 0)]),
        ("day = 4", [(4, 40)], [(1, 10), (1, 11), (2, 20), (3, 30), (4, 40), (None, 0)]),
        ("true", [(5, 50)], [(5, 50)]),
    ],
)
@pytest.mark.parametrize("stable", [False, True])
def test_rows_for_which_the_condition_is_true_are_replaced_in_one_version(uri, condition, new, left, stable):
    before = made(uri, stable_row_ids=stable)
    ds = replaced(uri, condition, days(*new))
    assert (ds.version, contents(uri)) == (2, left)
    assert contents(uri, 1) == sorted([(1, 10), (1, 11), (2, 20), (None, 0), (3, 30)], key=str)
    assert ds.schema == before.schema
    report = ds.verify()
    assert (report.problems, report.orphans) == ([], [])


def test_nothing_to_remove_and_nothing_to_add_makes_no_version(uri):
    made(uri)
    assert replaced(uri, "day = 77", days()).version == 1


@pytest.mark.parametrize("wrong", [(2, 1), (None, 1)])
def test_a_new_row_that_the_condition_does_not_choose_is_refused(uri, wrong):
    made(uri)
    plan = prepared(uri, "day = 1")
    batches = days((1, 1), (1, 2)).to_batches() + days((1, 3), wrong).to_batches()
    with pytest.raises(pilum.InvalidInputError, match=r"row 3 of a partition does not match replace_where, .*day.*1"):
        staging.write_task(batches, plan.spec)
    assert contents(uri) == contents(uri, 1)


def test_the_condition_is_evaluated_on_the_rows_after_casts(uri):
    made(uri)
    wide = pa.table({"id": pa.array([1, 2], pa.int8()), "day": pa.array([1.4, 1.0]), "note": ["a", "b"]})
    # The lossy cast to int32 makes 1 of 1.4, so both rows match.
    assert replaced(uri, "day = 1", wide, cast="lossy", extra="ignore").count_rows("day = 1") == 2
    with pytest.raises(pilum.InvalidInputError, match="`note`"):
        prepared(uri, "day = 1", wide.schema)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("nope = 1", "unknown column nope"),
        ("day +", "syntax error"),
        ("day + 1", "type mismatch in a filter"),
        (" ", "needs a condition"),
    ],
)
def test_conditions_that_do_not_fit_are_refused_before_a_task_runs(uri, condition, said):
    made(uri)
    with pytest.raises(pilum.InvalidInputError, match=f"replace_where.*{said}"):
        prepared(uri, condition)
    # If the table does not exist yet, the condition is checked against the columns of the new rows.
    with pytest.raises(pilum.InvalidInputError, match=f"replace_where.*{said}"):
        prepared(uri + "-new", condition)
    with pytest.raises(pilum.InvalidInputError, match="replace_where needs the mode 'overwrite'"):
        staging.prepare(SCHEMA, uri, "append", replace_where="day = 1")


def test_rows_that_others_add_or_change_meanwhile_are_replaced_or_stay(uri):
    made(uri)
    plan = prepared(uri, "day = 1")
    pieces = staged(plan, days((1, 100)), days((1, 101)))
    ds = pilum.dataset(uri)
    # Other writers add rows that match and rows that do not, change a row so that it does not match any more, change one so
    # that it matches now, and delete one.
    ds.append(days((1, 13), (8, 80)))
    ds.append(days((9, 90)))
    pilum.dataset(uri).update({"day": "5"}, "id = 10")
    pilum.dataset(uri).update({"day": "1"}, "id = 20")
    pilum.dataset(uri).delete("id = 11")
    pilum.dataset(uri).compact()
    done = replacing.commit(plan, pieces)
    assert contents(uri) == sorted([(1, 100), (1, 101), (3, 30), (None, 0), (8, 80), (9, 90), (5, 10)], key=str)
    assert done.verify().ok


@pytest.mark.parametrize("matches", [False, True])
def test_rows_that_are_added_between_the_search_and_the_commit_are_considered(uri, monkeypatch, matches):
    """Another writer commits after the overwrite has searched for the rows to remove, and before it commits."""
    made(uri)
    searches = []
    matching = replacing.st.matching

    def late(*arguments):
        found = matching(*arguments)
        if not searches:
            pilum.dataset(uri).append(days((1 if matches else 2, 77)))
        searches.append(len(found))
        return found

    monkeypatch.setattr(replacing.st, "matching", late)
    ds = replaced(uri, "day = 1", days((1, 100)))
    # If an added row matches, the overwrite searches a second time; else counting the added rows that match is enough.
    assert len(searches) == 1 + matches
    expected = [(1, 100), (2, 20), (None, 0), (3, 30)] + ([] if matches else [(2, 77)])
    assert (ds.version, contents(uri)) == (3, sorted(expected, key=str))


def test_two_overwrites_of_the_same_rows_have_the_result_of_one_after_the_other(uri):
    made(uri)
    plans = [prepared(uri, "day = 1") for _ in range(2)]
    pieces = [staged(plan, days((1, 100 + number), (1, 200 + number))) for number, plan in enumerate(plans)]
    for plan, its in zip(plans, pieces, strict=True):
        replacing.commit(plan, its)
    assert [row for row in contents(uri) if row[0] == 1] == [(1, 101), (1, 201)]


def test_rows_are_not_added_to_a_table_that_another_writer_creates_meanwhile(spark, uri, monkeypatch):
    plan = prepared(uri, "day = 1")
    pieces = staged(plan, days((1, 1)))
    made(uri)
    with pytest.raises(pilum.AlreadyExistsError):
        replacing.commit(plan, pieces)
    # `write` runs its job again, and replaces rows in the table of the other writer.
    other = uri + "-2"
    stage = replacing.commit
    rivals = [other]

    def late(*arguments):
        if rivals:
            made(rivals.pop())
        return stage(*arguments)

    monkeypatch.setattr(replacing, "commit", late)
    df = spark.createDataFrame([(1, 5)], "day int, id bigint")
    ds = ps.write(df, other, "overwrite", replace_where="day = 1")
    assert contents(other) == sorted([(1, 5), (2, 20), (None, 0), (3, 30)], key=str)
    assert ds.verify().orphans == []


def test_a_dictionary_column_gets_the_values_of_the_new_rows(uri):
    def table(*texts):
        return pa.table({"k": pa.array(texts).dictionary_encode(), "n": range(len(texts))})

    pilum.write_dataset(table("a", "b", None), uri)
    plan = prepared(uri, "k = 'c' OR k = 'a'", table("c").schema)
    pieces = staged(plan, table("c", "a"))
    pilum.dataset(uri).append(table("d"))
    ds = replacing.commit(plan, pieces)
    assert sorted(map(str, ds.to_table()["k"].to_pylist())) == ["None", "a", "b", "c", "d"]
    assert ds.verify().ok


# -- Through Spark ------------------------------------------------------------------------------------------------------------


def test_a_dataframe_replaces_rows_through_write_and_through_the_data_source(spark, uri):
    df = spark.range(0, 100, 1, 4).selectExpr("cast(id % 4 as int) as day", "id")
    new = spark.range(0, 10, 1, 3).selectExpr("3 as day", "id + 1000 as id")
    # If the table does not exist, the overwrite creates it.
    assert ps.write(new, uri, "overwrite", replace_where="day = 3").version == 1
    ps.write(df, uri, "overwrite")
    for _ in range(2):
        ds = ps.write(new, uri, "overwrite", "job 1", replace_where="day = 3")
    assert (ds.version, ds.count_rows(), ds.count_rows("day = 3")) == (3, 85, 10)
    options = {"replaceWhere": "day = 3 OR id < 4", "commitId": "job 2"}
    for _ in range(2):
        new.limit(2).write.format("pilum").mode("overwrite").options(**options).save(uri)
    ds = pilum.dataset(uri)
    assert (ds.version, ds.count_rows(), ds.count_rows("day = 3")) == (4, 74, 2)
    # An overwrite with no rows only removes the rows that match.
    new.limit(0).write.format("pilum").mode("overwrite").option("replaceWhere", "day = 3").save(uri)
    wider = new.withColumn("note", new.id.cast("string"))
    wider.write.format("pilum").mode("overwrite").options(replaceWhere="day = 3", mergeSchema=True).save(uri)
    ds = pilum.dataset(uri)
    assert (ds.count_rows(), ds.schema.names, ds.count_rows("note IS NOT NULL")) == (82, ["day", "id", "note"], 10)
    assert ds.verify().problems == []


def test_refused_overwrites_leave_the_table_unchanged(spark, uri):
    made(uri)
    df = spark.createDataFrame([(1, 5), (2, 6)], "day int, id bigint").coalesce(1)
    writer = df.write.format("pilum")
    for use in (
        lambda: ps.write(df, uri, "overwrite", replace_where="day = 1"),
        lambda: writer.mode("overwrite").option("replaceWhere", "day = 1").save(uri),
    ):
        with pytest.raises(Exception, match="row 1 of a partition does not match replace_where"):
            use()
    with pytest.raises(pilum.InvalidInputError, match="needs the mode 'overwrite'"):
        ps.write(df, uri, replace_where="day = 1")
    with pytest.raises(Exception, match=r"'replaceWhere' needs mode\('overwrite'\)"):
        writer.mode("append").option("replaceWhere", "day = 1").save(uri)
    assert contents(uri) == contents(uri, 1)
    assert pilum.dataset(uri).version == 1
    pilum.dataset(uri).cleanup(older_than=dt.timedelta(0), unverified_older_than=dt.timedelta(0))
    assert len(list(Path(uri, "data").iterdir())) == 3
