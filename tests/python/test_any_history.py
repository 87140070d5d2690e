"""Any history of any operations equals a plain model, at every step and for every version at the end.

The model is a list of rows as Arrow gives them. To add an operation: write a rule that does the same to the table and to
`self.rows`, and ends with `self.became(...)`. Tables live in memory, a step costs about a millisecond.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import pilum
from support.comparing import assert_same, flat, picked
from support.random_schemas import PATTERNS, SIMPLE, Column, random_type
from support.random_tables import FIXED

RUNS = 500 * int(os.environ.get("PILUM_TEST_SCALE", "1"))
STEPS = 40
PAGE = 4
NUMBERS = itertools.count()

K, X, S = pa.field("k", pa.int64(), False), pa.field("x", pa.int64()), pa.field("s", pa.string())

Row = dict[str, Any]
Truth = Callable[[Row], bool]

# SQL beside what it means; a null is not true.
CONDITIONS: list[tuple[str, Truth]] = [
    ("k % 3 = 1", lambda row: row["k"] % 3 == 1),
    ("k % 7 = 0", lambda row: row["k"] % 7 == 0),
    ("x > 5", lambda row: row["x"] is not None and row["x"] > 5),
    ("x IS NULL AND k % 2 = 0", lambda row: row["x"] is None and row["k"] % 2 == 0),
    ("NOT (x < 8)", lambda row: row["x"] is not None and row["x"] >= 8),
    ("s = 'b'", lambda row: row["s"] == "b"),
    ("s IN ('a', 'zz') OR x = 3", lambda row: row["s"] in ("a", "zz") or row["x"] == 3),
    ("s IS NULL", lambda row: row["s"] is None),
    ("x BETWEEN 2 AND 4 AND s IS NOT NULL", lambda row: row["x"] in (2, 3, 4) and row["s"] is not None),
    ("k < 0", lambda _: False),
]
ASSIGNMENTS: list[tuple[dict[str, str], Callable[[Row], Row]]] = [
    ({"x": "x + 1"}, lambda row: {**row, "x": None if row["x"] is None else row["x"] + 1}),
    ({"x": "k % 5", "s": "'b'"}, lambda row: {**row, "x": row["k"] % 5, "s": "b"}),
    ({"s": "'zz'"}, lambda row: {**row, "s": "zz"}),
]
ADDED: list[tuple[str, pa.DataType, Callable[[Row], Any]]] = [
    ("k * 2", pa.int64(), lambda row: row["k"] * 2),
    ("x + 1", pa.int64(), lambda row: None if row["x"] is None else row["x"] + 1),
    ("s", pa.string(), lambda row: row["s"]),
    ("k % 2 = 0", pa.bool_(), lambda row: row["k"] % 2 == 0),
]
OTHER_TYPES = {
    pa.int8(): pa.int16(),
    pa.int16(): pa.int64(),
    pa.int32(): pa.int8(),
    pa.int64(): pa.int32(),
    pa.uint8(): pa.uint64(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.uint8(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.float32(): pa.float64(),
    pa.string(): pa.large_string(),
    pa.large_string(): pa.string(),
    pa.binary(): pa.large_binary(),
    pa.large_binary(): pa.binary(),
    pa.bool_(): pa.int8(),
    pa.date32(): pa.timestamp("s"),
}
"""Types with one that columns are converted to; where a value does not fit, pyarrow refuses it too."""
DURABILITY: dict[str, Any] = {"durability": "none"}


class AnyHistory(RuleBasedStateMachine):
    """A table, and beside it what it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.uri = f"memory://any-history/{next(NUMBERS)}"
        self.next_key = 0
        self.num_names = 9
        self.versions: dict[int, pa.Table] = {}
        self.tags: dict[str, int] = {}
        self.commits: dict[str, int] = {}
        self.config: dict[str, str] = {}
        self.configs: dict[int, dict[str, str]] = {}
        self.cleanups = 0

    # -- The model -----------------------------------------------------------------------------------------------------

    def make(self, seed: int, count: int) -> pa.Table:
        """Return new rows: keys never used before, values and nulls from the seed."""
        maker = Column(random.Random(seed), PAGE, ["none"] if self.is_plain else PATTERNS)
        r = maker.r
        keys = range(self.next_key, self.next_key + count)
        self.next_key += count
        holes = not self.is_plain
        texts = ["a", "b", "zz", "é", None] + ["", None] * holes
        arrays = [
            pa.array(keys, K.type),
            pa.array([None if holes and r.random() < 0.3 else r.randrange(10) for _ in keys], X.type),
            pa.array([r.choice(texts) for _ in keys], S.type),
            *(maker.of(field, count) for field in self.schema if field.name[0] == "c"),
        ]
        return pa.table(arrays, schema=self.schema)

    def first_rows(self, seed: int, count: int) -> pa.Table:
        """Return the first rows of a schema. A dictionary is settled by the first row: later ones bring no new values."""
        return self.make(seed, max(count, 0 if self.is_plain else 1))

    def became(self, ds: pilum.Dataset, rows: pa.Table) -> None:
        """Note the newest version: what was written, and what it should hold."""
        self.ds, self.rows = ds, rows
        self.versions[ds.version] = rows
        self.configs[ds.version] = self.config

    def small(self) -> list[Row]:
        """Return what conditions look at."""
        rows: list[Row] = self.rows.select(["k", "x", "s"]).to_pylist()
        return rows

    def hold(self, got: pa.Table, want: pa.Table, what: str) -> None:
        order = pa.compute.sort_indices(got["k"]).to_pylist()
        assert_same(got if order == sorted(order) else picked(got, order), want, what)

    # -- Rules ---------------------------------------------------------------------------------------------------------

    @initialize(
        seed=st.integers(0, 2**32),
        count=st.integers(0, 12),
        stable=st.booleans(),
        compat=st.sampled_from(["lossless", "lance"]),
    )
    def create(self, seed: int, count: int, stable: bool, compat: str) -> None:
        self.compat, self.is_plain = compat, compat == "lance"
        self.options = {"compat": compat, "max_rows_per_page": PAGE, **DURABILITY}
        self.stable = stable
        self.new_schema(seed)
        rows = self.first_rows(seed, count)
        self.became(pilum.write_dataset(rows, self.uri, stable_row_ids=stable, **self.options), rows)

    def new_schema(self, seed: int) -> None:
        """Choose two more columns: every type has its turn, and in a lossless table may be nested and full of nulls."""
        if self.is_plain:
            # What Lance v1 can hold: no null but that of texts, which then are never empty.
            types = [type_ for type_, _ in FIXED]
            made = [types[seed % len(types)], pa.list_(types[seed // 7 % len(types)], 2)]
            extra = [pa.field(f"c{place}", type_, False) for place, type_ in enumerate(made)]
        else:
            r = random.Random(seed)
            made = [SIMPLE[seed % len(SIMPLE)], random_type(r, r.randint(0, 2), SIMPLE[seed // 7 % len(SIMPLE)])]
            extra = [pa.field(f"c{place}", type_) for place, type_ in enumerate(made)]
        x = X.with_nullable(not self.is_plain)
        self.schema = pa.schema([K, x, S, *extra])

    @rule(seed=st.integers(0, 2**32), count=st.integers(0, 9), files=st.sampled_from([3, 1000]))
    def append(self, seed: int, count: int, files: int) -> None:
        rows = self.make(seed, count)
        ds = self.ds.append(rows, max_rows_per_file=files, **self.options)
        self.became(ds, pa.concat_tables([self.rows, rows]))

    @rule(seed=st.integers(0, 2**32), number=st.integers(0, 5))
    def append_once_by_id(self, seed: int, number: int) -> None:
        name = f"commit-{self.cleanups}-{number}"
        before = self.commits.get(name)
        rows = self.make(seed, 2)
        ds = self.ds.append(rows, commit_id=name, **self.options)
        if before is not None:
            assert ds.version == before, f"{name} was committed as version {before}"
            assert ds.attempts == 0
            return
        self.commits[name] = ds.version
        self.became(ds, pa.concat_tables([self.rows, rows]))

    @rule(seed=st.integers(0, 2**32), count=st.integers(0, 8))
    def overwrite_by_another_schema(self, seed: int, count: int) -> None:
        if seed % 4:  # rare: what came before is what is worth having
            return
        self.new_schema(seed)
        rows = self.first_rows(seed, count)
        self.became(self.ds.overwrite(rows, **self.options), rows)

    @rule(condition=st.sampled_from(CONDITIONS))
    def delete(self, condition: tuple[str, Truth]) -> None:
        text, is_true = condition
        kept = [place for place, row in enumerate(self.small()) if not is_true(row)]
        ds = self.ds.delete(text, **DURABILITY)
        assert ds.rows == self.rows.num_rows - len(kept), text
        self.became(ds, picked(self.rows, kept))

    @rule(condition=st.sampled_from(CONDITIONS), assignment=st.sampled_from(ASSIGNMENTS))
    def update(self, condition: tuple[str, Truth], assignment: tuple[dict[str, str], Callable[[Row], Row]]) -> None:
        (text, is_true), (values, assigned) = condition, assignment
        rows = self.small()
        changed = [assigned(row) if is_true(row) else row for row in rows]
        ds = self.ds.update(values, where=text, **DURABILITY)
        assert ds.rows == sum(map(is_true, rows)), text
        after = self.rows
        for place, field in enumerate([K, X, S]):
            column = pa.array([row[field.name] for row in changed], field.type)
            after = after.set_column(place, self.schema.field(place), column)
        self.became(ds, after)

    @rule(
        seed=st.integers(0, 2**32),
        count=st.integers(0, 4),
        matched=st.sampled_from(["update", "update if source.k % 2 = 0", "keep", "delete"]),
        missed=st.sampled_from(["insert", "ignore"]),
        other=st.sampled_from(["keep", "keep", "delete if k % 7 = 0"]),
    )
    def merge(self, seed: int, count: int, matched: str, missed: str, other: str) -> None:
        if (matched, missed, other) == ("keep", "ignore", "keep"):
            return
        # New rows, and some with keys that are there: in front, behind, and between them.
        source = self.make(seed, count + 3)
        keys: list[int] = self.rows["k"].to_pylist()
        found = [keys[place % len(keys)] for place in (seed, seed // 3, seed // 7) if keys]
        column = list(dict.fromkeys(found)) + source["k"].to_pylist()
        source = source.set_column(0, K, pa.array(column[: source.num_rows], K.type))
        ds = self.ds.merge_insert(
            "k", source, when_matched=matched, when_not_matched=missed, when_not_matched_by_source=other, **DURABILITY
        )
        place_of = {key: place for place, key in enumerate(source["k"].to_pylist())}
        both, chosen = pa.concat_tables([self.rows, source]), []
        counts = {"inserted": 0, "updated": 0, "deleted": 0}
        for place, key in enumerate(keys):
            partner = place_of.get(key)
            is_gone = matched == "delete" if partner is not None else other != "keep" and key % 7 == 0
            counts["deleted"] += is_gone
            if partner is not None and matched.startswith("update") and (matched == "update" or key % 2 == 0):
                counts["updated"] += 1
                chosen.append(self.rows.num_rows + partner)
            elif not is_gone:
                chosen.append(place)
        if missed == "insert":
            new = [place for key, place in place_of.items() if key not in set(keys)]
            counts["inserted"] = len(new)
            chosen += [self.rows.num_rows + place for place in new]
        assert {name: getattr(ds, name) for name in counts} == counts
        chosen.sort(key=lambda place: both["k"][place].as_py())
        self.became(ds, picked(both, chosen))

    # -- Columns: those behind k, x and s come, go and change ----------------------------------------------------------

    def extras(self) -> list[str]:
        return [name for name in self.schema.names if name[0] == "c"]

    def new_name(self) -> str:
        self.num_names += 1
        return f"c{self.num_names}"

    def became_of_columns(self, ds: pilum.Dataset, rows: pa.Table) -> None:
        self.schema = rows.schema
        self.became(ds, rows)

    @rule(choice=st.sampled_from(ADDED))
    def add_column_by_expression(self, choice: tuple[str, pa.DataType, Callable[[Row], Any]]) -> None:
        text, type_, value = choice
        if self.is_plain and text == "s":
            return  # rows to come would bring texts of no bytes
        name = self.new_name()
        ds = self.ds.add_columns({name: text}, **DURABILITY)
        nullable = text in ("s", "k % 2 = 0") or (text[0] == "x" and not self.is_plain)
        field = pa.field(name, type_, nullable)
        column = pa.array([value(row) for row in self.small()], type_)
        self.became_of_columns(ds, self.rows.append_column(field, column))

    @rule(seed=st.integers(0, 2**32), by_function=st.booleans())
    def add_column_of_values(self, seed: int, by_function: bool) -> None:
        r = random.Random(seed)
        type_ = r.choice(SIMPLE) if not self.is_plain else FIXED[seed % len(FIXED)][0]
        if pa.types.is_dictionary(type_) and (by_function or not self.rows.num_rows):
            return  # what a dictionary holds is settled by the first row
        if not self.is_plain and not pa.types.is_dictionary(type_):
            type_ = random_type(r, r.randint(0, 2), type_)
        field = pa.field(self.new_name(), type_, not self.is_plain)
        column = Column(r, PAGE, ["none"] if self.is_plain else PATTERNS).of(field, self.rows.num_rows)
        rows = self.rows.append_column(field, column)
        # Rows are not in the order of the model: values go where their keys are.
        place = {key: at for at, key in enumerate(self.rows["k"].to_pylist())}
        added = rows.select([field.name])

        def of_keys(keys: list[int]) -> pa.Table:
            return picked(added, [place[key] for key in keys])

        if by_function:
            ds = self.ds.add_columns(
                lambda batch: of_keys(batch["k"].to_pylist()), read_columns=["k"], batch_rows=3, **DURABILITY
            )
        else:
            ds = self.ds.add_columns(of_keys(self.ds.to_table(["k"])["k"].to_pylist()), **DURABILITY)
        self.became_of_columns(ds, rows)

    @precondition(lambda self: self.extras())
    @rule(choice=st.integers(0, 2**16))
    def drop_column(self, choice: int) -> None:
        name = self.extras()[choice % len(self.extras())]
        type_ = self.schema.field(name).type
        place = self.schema.get_field_index(name)
        if pa.types.is_struct(type_) and type_.num_fields > 1 and choice % 3:
            member = type_.field(choice // 3 % type_.num_fields).name
            ds = self.ds.drop_columns([f"{name}.{member}"], **DURABILITY)
            column = flat(self.rows[name])
            fields = [field for field in type_ if field.name != member]
            members = [column.field(place) for place, field in enumerate(type_) if field.name != member]
            kept = pa.StructArray.from_arrays(members, fields=fields, mask=column.is_null())
            self.became_of_columns(ds, self.rows.set_column(place, self.schema.field(name).with_type(kept.type), kept))
            return
        self.became_of_columns(self.ds.drop_columns([name], **DURABILITY), self.rows.drop_columns([name]))

    @precondition(lambda self: self.extras())
    @rule(choice=st.integers(0, 2**16))
    def rename_column(self, choice: int) -> None:
        name = self.extras()[choice % len(self.extras())]
        new = self.new_name()
        rows = self.rows.rename_columns([new if it == name else it for it in self.schema.names])
        self.became_of_columns(self.ds.alter_columns({name: {"name": new}}, **DURABILITY), rows)

    @precondition(lambda self: any(self.schema.field(name).type in OTHER_TYPES for name in self.extras()))
    @rule(choice=st.integers(0, 2**16))
    def convert_column(self, choice: int) -> None:
        names = [name for name in self.extras() if self.schema.field(name).type in OTHER_TYPES]
        name = names[choice % len(names)]
        place, field = self.schema.get_field_index(name), self.schema.field(name)
        other = OTHER_TYPES[field.type]
        try:
            column = self.rows[name].cast(other)
        except pa.ArrowInvalid:
            with pytest.raises(pilum.InvalidInputError, match=rf"`{name}`, row \d+: .* cannot become"):
                self.ds.alter_columns({name: {"type": other}}, **DURABILITY)
            return
        ds = self.ds.alter_columns({name: {"type": other}}, **DURABILITY)
        self.became_of_columns(ds, self.rows.set_column(place, field.with_type(other), column))

    @precondition(lambda self: self.extras() and not self.is_plain)
    @rule(choice=st.integers(0, 2**16))
    def allow_or_forbid_nulls(self, choice: int) -> None:
        name = self.extras()[choice % len(self.extras())]
        place, field = self.schema.get_field_index(name), self.schema.field(name)
        if pa.types.is_null(field.type) or pa.types.is_dictionary(field.type):
            return
        change: Any = {name: {"nullable": not field.nullable}}
        if field.nullable and self.rows[name].null_count:
            with pytest.raises(pilum.InvalidInputError, match=rf"`{name}`.* row \d+ is null"):
                self.ds.alter_columns(change, **DURABILITY)
            return
        rows = self.rows.set_column(place, field.with_nullable(not field.nullable), self.rows[name])
        self.became_of_columns(self.ds.alter_columns(change, **DURABILITY), rows)

    # -- What changes no row ---------------------------------------------------------------------------------------------

    @rule(aim=st.sampled_from([5, 50]), share=st.sampled_from([0.0, 0.1, 0.9]))
    def compact(self, aim: int, share: float) -> None:
        done = self.ds.compact(target_rows=aim, max_deleted_fraction=share, **DURABILITY)
        # A compaction takes fragment ids first: that is a version of its own with the same rows.
        for version in range(self.ds.version + 1, done.version + 1):
            self.versions[version] = self.rows
            self.configs[version] = self.config
        self.became(pilum.dataset(self.uri), self.rows)

    @rule(choice=st.integers(0, 2**16))
    def restore(self, choice: int) -> None:
        version = sorted(self.versions)[choice % len(self.versions)]
        rows = self.versions[version]
        ds = self.ds.checkout(version).restore(**DURABILITY)
        self.schema, self.config = rows.schema, self.configs[version]
        self.became(ds, rows)

    @rule(key=st.sampled_from(["one", "two"]), value=st.sampled_from(["", "1", "é", None]))
    def configure(self, key: str, value: str | None) -> None:
        others = {it: text for it, text in self.config.items() if it != key}
        self.config = others if value is None else {**others, key: value}
        self.became(self.ds.update_config({key: value}, **DURABILITY), self.rows)

    @rule(name=st.sampled_from(["one", "two"]), choice=st.integers(0, 2**16))
    def tag(self, name: str, choice: int) -> None:
        version = sorted(self.versions)[choice % len(self.versions)]
        if name in self.tags:
            with pytest.raises(pilum.AlreadyExistsError):
                self.ds.tags.create(name, version)
            self.ds.tags.delete(name)
        self.ds.tags.create(name, version)
        self.tags[name] = version
        assert self.ds.tags.list() == self.tags

    @rule(keep=st.integers(1, 8), dry_run=st.booleans())
    def cleanup(self, keep: int, dry_run: bool) -> None:
        zero = dt.timedelta(0)
        would = self.ds.cleanup(older_than=zero, keep_versions=keep, unverified_older_than=zero, dry_run=True)
        stay = {*sorted(self.versions)[-keep:], *self.tags.values()}
        assert would.versions == sorted(set(self.versions) - stay)
        if dry_run:
            return
        self.ds.cleanup(older_than=zero, keep_versions=keep, unverified_older_than=zero)
        for version in would.versions:
            del self.versions[version]
            with pytest.raises(pilum.NotFoundError):
                self.ds.checkout(version)
        # What an id was committed as is forgotten with old files, at the latest when these have no grace time.
        self.commits = {}
        self.cleanups += 1
        report = self.ds.verify()
        assert report.ok, report.problems
        assert report.orphans == []

    @rule(choice=st.integers(0, 2**16))
    def look_back(self, choice: int) -> None:
        version = sorted(self.versions)[choice % len(self.versions)]
        self.hold(self.ds.checkout(version).to_table(), self.versions[version], f"version {version}, later")

    @precondition(lambda self: self.stable)
    @rule(choice=st.integers(0, 2**16))
    def compare(self, choice: int) -> None:
        version = sorted(self.versions)[choice % len(self.versions)]
        before, after = (set(rows["k"].to_pylist()) for rows in (self.versions[version], self.rows))
        diff = self.ds.diff(version)
        assert (diff.added, diff.removed) == (len(after - before), len(before - after))
        assert diff.updated is not None
        assert diff.updated <= len(after & before)

    @rule(condition=st.sampled_from(CONDITIONS))
    def read_where(self, condition: tuple[str, Truth]) -> None:
        text, is_true = condition
        want = [row for row in self.small() if is_true(row)]
        got = self.ds.to_table(["k", "x", "s"], text).to_pylist()
        assert sorted(got, key=lambda row: row["k"]) == want, text
        assert self.ds.count_rows(text) == len(want), text

    @precondition(lambda self: self.rows.num_rows)
    @rule(choice=st.integers(0, 2**16))
    def take(self, choice: int) -> None:
        keyed = self.ds.to_table(["k"], with_row_id=True)
        places = [choice % keyed.num_rows, 0, choice // 3 % keyed.num_rows]
        keys = [keyed["k"][place].as_py() for place in places]
        position = {key: place for place, key in enumerate(self.rows["k"].to_pylist())}
        want = picked(self.rows, [position[key] for key in keys])
        assert_same(self.ds.take(places), want, "take")
        assert_same(self.ds.take_rows([keyed["_rowid"][place].as_py() for place in places]), want, "take_rows")

    @invariant()
    def the_newest_version_is_the_model(self) -> None:
        self.hold(self.ds.to_table(), self.rows, f"version {self.ds.version}")
        assert self.ds.config == self.config

    def teardown(self) -> None:
        if not self.versions:
            return
        ds = pilum.dataset(self.uri)
        assert ds.version == max(self.versions)
        assert [version.version for version in ds.versions()] == sorted(self.versions)
        for version, rows in self.versions.items():
            old = ds.checkout(version)
            self.hold(old.to_table(), rows, f"version {version}, at the end")
            assert old.config == self.configs[version]
        report = ds.verify()
        assert report.ok, report.problems
        assert report.orphans == []
        if self.stable:
            ids = ds.to_table(["k"], with_row_id=True)["_rowid"].to_pylist()
            assert len(set(ids)) == len(ids)


@pytest.mark.timeout(1800)
def test_any_history_equals_a_model() -> None:
    run_state_machine_as_test(
        AnyHistory,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
