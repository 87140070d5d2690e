"""Every public call, found by introspection, refuses arguments that it does not know and values that it cannot use by name.

No call ends in a `TypeError`, an `AttributeError` or another error of Python that comes out of pilum's own code.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import inspect
import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from support.odd_values import ODD, finish
from support.surface import needed, taken_or_badly_refused

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "x": ["a", "b", None]})

CALLED = {"progress", "columns", "storage_options", "table_storage_options"}
"""Arguments that may be functions: an error of such a function is raised as it is, so no class is passed."""


class Place:
    """A table, opened, and what calls need as valid arguments."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.ds = pilum.write_dataset(
            ROWS, "memory://surface", mode="overwrite", stable_row_ids=True, durability="none"
        ).dataset
        self.parquet = Path("rows.parquet").absolute()
        if not self.parquet.exists():
            pilum.parquet.export(self.ds, self.parquet, durability="none")
        self.pieces = pilum.fragments.write(ROWS, self.ds.uri, durability="none")

    def valid(self, name: str, argument: str) -> Any:
        """Return a value that a call takes for an argument that it needs."""
        special = {
            ("add_columns", "columns"): {"new": "id + 1"},
            ("drop_columns", "columns"): ["x"],
            ("coalesce", "values"): 1,
            ("write_dataset", "uri"): f"memory://surface-{next(self.numbers)}",
            ("parquet.export", "uri"): f"out-{next(self.numbers)}.parquet",
            ("parquet.inspect", "uri"): self.parquet,
            ("parquet.dataset", "uri_or_uris"): self.parquet,
            ("parquet.import_", "uri_or_uris"): self.parquet,
            ("describe_file", "uri"): "nowhere.lance",
            ("verify_file", "uri"): "nowhere.lance",
            ("Tags.create", "name"): f"tag-{next(self.numbers)}",
            ("Tags.delete", "name"): "tag",
            ("update_field_metadata", "column"): "x",
            ("col", "name"): "id",
        }
        plain = {
            "uri": self.ds.uri,
            "data": ROWS,
            "batches": ROWS,
            "source": ROWS,
            "predicate": "id = 1",
            "assignments": {"x": "'new'"},
            "on": "id",
            "changes": {"x": {"name": "renamed"}},
            "version": 1,
            "other_version": 1,
            "indices": [0],
            "row_ids": [0],
            "operation": pilum.Append(self.pieces),
            "pieces": self.pieces,
            "table_uri": f"memory://surface-{next(self.numbers)}",
            "ds": self.ds,
            "given": 1,
        }
        return special[name, argument] if (name, argument) in special else plain[argument]


def calls(place: Place) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function, and every public method of an object of each public class."""
    for name in pilum.__all__:
        if inspect.isfunction(getattr(pilum, name)):
            yield name, getattr(pilum, name)
    yield "fragments.write", pilum.fragments.write
    for kind in (pilum.Append, pilum.Overwrite, pilum.Create):
        yield kind.__name__, kind
    for name in ("dataset", "export", "import_", "inspect"):
        yield f"parquet.{name}", getattr(pilum.parquet, name)
    files = pilum.parquet.dataset(place.parquet)
    objects = {
        "": place.ds,
        "Scanner.": place.ds.scanner(),
        "Tags.": place.ds.tags,
        "ScanTask.": place.ds.scanner().tasks()[0],
        "parquet.Dataset.": files,
        "parquet.Scanner.": files.scanner(),
    }
    for prefix, of in objects.items():
        for name in sorted(dir(type(of))):
            method = getattr(of, name)
            if not name.startswith("_") and inspect.ismethod(method):
                yield f"{prefix}{name}", method


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("names"))
        return [name for name, _ in calls(Place())]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place()


def test_the_public_calls_are_found(names: list[str]) -> None:
    for name in (
        "write_dataset",
        "scanner",
        "merge_insert",
        "statistics",
        "Tags.create",
        "Scanner.tasks",
        "parquet.export",
    ):
        assert name in names
    assert len(names) > 80


def test_no_value_of_an_argument_causes_an_internal_error(place: Place) -> None:
    wrong = []
    for name, call in calls(place):
        for parameter in inspect.signature(call).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                continue
            for what, value in ODD.items():
                if what == "class" and parameter.name in CALLED:
                    continue
                arguments = needed(place.valid, name, call, parameter.name)
                try:
                    finish(call(**arguments, **{parameter.name: value}))
                except pilum.InternalError as error:
                    wrong.append(f"{name}({parameter.name}=<{what}>): {error!r}")
                except pilum.PilumError as error:
                    if not str(error):
                        wrong.append(f"{name}({parameter.name}=<{what}>): no message")
                except Exception as error:
                    wrong.append(f"{name}({parameter.name}=<{what}>): {error!r}")
    assert not wrong, "\n".join([f"{len(wrong)} calls:", *wrong])


def test_an_unknown_keyword_is_refused_with_the_nearest_name(place: Place) -> None:
    wrong = taken_or_badly_refused(calls(place), place.valid)
    assert not wrong, "\n".join(wrong)


def test_every_public_call_says_what_it_does_with_each_argument(place: Place) -> None:
    wrong = []
    for name, call in calls(place):
        text = inspect.getdoc(call) or ""
        if not text:
            wrong.append(f"{name}: no docstring")
        refers = "arguments are those of" in text or "arguments as in" in text
        for argument in inspect.signature(call).parameters:
            if argument == "self" or refers or re.search(rf"\b{argument}\b", text):
                continue
            wrong.append(f"{name}: {argument} is not described")
    assert not wrong, "\n".join(wrong)


EXAMPLE = re.compile(r"Example:\n\s+`(.+?)`\s*(?:\n\n|\Z)", re.DOTALL)


def test_every_public_call_has_an_example_that_runs(place: Place) -> None:
    wrong = []
    for name, call in calls(place):
        if name.startswith("parquet.") or inspect.isclass(call):
            continue
        example = EXAMPLE.search(inspect.getdoc(call) or "")
        if example is None:
            wrong.append(f"{name}: no example")
            continue
        uri = f"table-{next(place.numbers)}"
        ds = pilum.write_dataset(ROWS, uri, stable_row_ids=True, durability="none").append(ROWS, durability="none")
        ds.tags.create("tag", version=1)
        pieces = pilum.fragments.write(ROWS, uri, durability="none")
        known = {"pilum": pilum, "pa": pa, "dt": dt, "ds": ds, "uri": uri, "rows": ROWS, "pieces": pieces}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(" ".join(example[1].split()), known)
    assert not wrong, "\n".join(wrong)
