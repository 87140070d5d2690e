"""What is written is what is read, for every type, pattern of nulls and size around the borders of pages."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pilum
from support.comparing import assert_same
from support.random_tables import FIXED, INDEX_TYPES, SIZES, VARIABLE, Maker, split

PAGE = 64
BORDERS = st.one_of(
    st.sampled_from([0, 1, 2, 7, 8, 9, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 2 * PAGE + 1]),
    st.integers(0, 200),
)
PROFILE = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def written_and_read(table: pa.Table, batches: list[pa.RecordBatch] | None = None, **options) -> None:
    with tempfile.TemporaryDirectory(prefix="pilum-") as folder:
        uri = Path(folder) / "t"
        data = table if batches is None else pa.RecordBatchReader.from_batches(table.schema, batches)
        ds = pilum.write_dataset(data, uri, durability="none", max_rows_per_page=PAGE, **options)
        assert_same(ds.to_table(), table)
        places = [place for place in (table.num_rows - 1, 0, table.num_rows // 2) if 0 <= place < table.num_rows]
        assert_same(ds.take(places), table.take(pa.array(places, pa.int64())))


@PROFILE
@given(seed=st.integers(0, 2**32), rows=BORDERS)
def test_any_table_in_any_batches(seed, rows):
    table = Maker(seed, rows, lossless=True).table()
    written_and_read(table, split(table, seed), max_rows_per_file=100)


@PROFILE
@given(
    values=st.lists(st.one_of(st.none(), st.text(max_size=6)), max_size=150),
    kind=st.sampled_from([pa.string(), pa.large_string()]),
)
def test_text(values, kind):
    # Half a surrogate pair is no text: Arrow refuses it before we are asked.
    values = [None if value is None else value.encode("utf-8", "replace").decode() for value in values]
    written_and_read(pa.table({"s": pa.array(values, kind)}))


@PROFILE
@given(values=st.lists(st.one_of(st.none(), st.binary(max_size=5)), max_size=150))
def test_bytes(values):
    written_and_read(pa.table({"b": pa.array(values, pa.binary()), "l": pa.array(values, pa.large_binary())}))


@PROFILE
@given(values=st.lists(st.one_of(st.none(), st.floats(width=64)), max_size=150))
def test_floats(values):
    written_and_read(pa.table({"f": pa.array(values, pa.float64())}))


nested = st.recursive(
    st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=1,
)


@PROFILE
@given(
    values=st.lists(
        st.one_of(
            st.none(),
            st.lists(st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=3)), max_size=3),
        ),
        max_size=100,
    )
)
def test_lists_in_lists(values):
    written_and_read(pa.table({"l": pa.array(values, pa.list_(pa.list_(pa.int32())))}))


@PROFILE
@given(
    values=st.lists(
        st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "x": st.one_of(st.none(), st.integers(0, 9)),
                    "y": st.one_of(st.none(), st.text("ab", max_size=2)),
                    "z": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.booleans()), max_size=3)),
                }
            ),
        ),
        max_size=100,
    )
)
def test_structs(values):
    type_ = pa.struct([("x", pa.int16()), ("y", pa.string()), ("z", pa.list_(pa.bool_()))])
    written_and_read(pa.table({"p": pa.array(values, type_), "q": pa.array([[v] for v in values], pa.list_(type_))}))


@pytest.mark.parametrize("nulls", ["none", "some", "first", "last", "all"])
@pytest.mark.parametrize(("type_", "value"), FIXED + VARIABLE, ids=[str(type_) for type_, _ in FIXED + VARIABLE])
def test_every_type_with_every_pattern_of_nulls_at_every_border(type_, value, nulls):
    for rows in (0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE):
        maker = Maker(rows, rows, lossless=False)
        if (type_, value) in FIXED:
            array = maker.fixed(type_, value, rows)
        else:
            array = pa.array([value(maker.random) for _ in range(rows)], type_)
        hidden = {
            "none": [],
            "some": range(0, rows, 3),
            "first": range(min(rows, 1)),
            "last": range(max(0, rows - 1), rows),
            "all": range(rows),
        }[nulls]
        masked = array.take(pa.array([None if row in hidden else row for row in range(rows)], pa.int64()))
        written_and_read(pa.table({"c": masked, "again": masked.slice(0, rows)}))


@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, PAGE, PAGE + 1])
def test_dictionaries_keep_their_type(index, rows):
    values = pa.array(["a", "", None, "délai"])
    column = pa.DictionaryArray.from_arrays(
        pa.array([None if row % 5 == 4 else row % 4 for row in range(rows)], index), values
    )
    written_and_read(pa.table({"d": column}))


@pytest.mark.parametrize("rows", [size for size in SIZES if size])
def test_default_pages_and_slices_with_offsets(rows, tmp_path):
    table = Maker(rows, rows + 5, lossless=True).table().slice(3, rows)
    ds = pilum.write_dataset(table, tmp_path / "t", durability="none")
    assert_same(ds.to_table(), table)


def test_one_value_larger_than_a_page_of_others(tmp_path):
    table = pa.table({"s": ["x" * 3_000_000, "", None, "y"], "n": pa.array([1, None, 3, 4])})
    ds = pilum.write_dataset(table, tmp_path / "t")
    assert_same(ds.to_table(), table)
    assert_same(ds.take([3, 0]), table.take([3, 0]))


def test_thousands_of_columns(tmp_path):
    table = pa.table({f"c{number}": pa.array([number, None], pa.int32()) for number in range(3000)})
    ds = pilum.write_dataset(table, tmp_path / "t", durability="none")
    assert_same(ds.to_table(["c7", "c2999"]), table.select(["c7", "c2999"]))
    assert_same(ds.to_table(), table)
