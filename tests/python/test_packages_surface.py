"""Public calls of expressions, reference sets, Kartothek datasets and Spark name the argument that they refuse.

`test_public_surface` checks the same of tables: no call ends with a Python error from inside of pilum. The tests call the
functions of Spark without a session: these must refuse a wrong argument before they use the session.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import kartothek, references, spark
from support.odd_values import ODD, finish

ROWS = pa.table({"id": [1, 2, 3], "x": ["a", "b", None]})
INTERNAL = {"of_rows", "table", "filter", "warn_of_slashes"}
"""Methods that only other modules of pilum call, with arguments that are always valid."""

FOREIGN = {"FileSystem", "ZarrStore", "register"}
"""Classes for fsspec and zarr: these libraries define the arguments and the errors of the methods."""


DOCUMENTED: dict[str, type[Exception]] = {"references.from_hdf5": OSError}
"""Errors of other libraries that the docstring of a call documents."""


class Place:
    """Holds tables, sets and datasets, from which `valid` makes valid arguments for every call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers = itertools.count()
        (folder / "data").write_bytes(b"0123456789")
        self.set = references.open({"a/0": [str(folder / "data"), 2, 3], "b": "inline"}, allow=[str(folder)])
        self.ds = pilum.write_dataset(ROWS, folder / "table", mode="overwrite", durability="none").dataset
        self.kartothek = kartothek.write(ROWS, folder / "store", "sales", overwrite=True, secondary_indices=["id"])
        self.parquet = folder / "rows.parquet"
        if not self.parquet.exists():
            pilum.parquet.export(self.ds, self.parquet, durability="none")

    def valid(self, name: str, argument: str) -> Any:
        """Return a valid value for a required argument of a call."""
        special = {
            ("references.open", "source"): {"a": "b"},
            ("references.from_arrow", "table"): self.set.to_arrow(),
            ("references.from_hdf5", "source"): self.folder / "data",
            ("references.from_parquet", "uri"): self.parquet,
            ("references.to_parquet", "uri"): self.folder / f"set-{next(self.numbers)}.parq",
            ("references.rewrite", "prefixes"): {"a": "b"},
            ("references.read_many", "wanted"): [("a/0", None, None)],
            ("kartothek.dataset", "dataset_uuid"): "sales",
            ("kartothek.from_pilum", "source"): self.ds,
            ("kartothek.from_pilum", "dataset_uuid"): f"sales-{next(self.numbers)}",
            ("kartothek.write", "dataset_uuid"): f"sales-{next(self.numbers)}",
            ("kartothek.copy_to", "dataset_uuid"): f"copy-{next(self.numbers)}",
            ("kartothek.build_indices", "columns"): ["x"],
            ("kartothek.checkout", "version"): 1,
            ("kartothek.asof", "time"): pa.scalar(2**50, pa.timestamp("us")).as_py(),
            ("Expr.cast", "type"): "INT",
            ("Expr.try_cast", "type"): "INT",
            ("Expr.date_trunc", "unit"): "day",
            ("Expr.date_part", "part"): "day",
            ("Expr.isin", "values"): [1],
            ("spark.update", "assignments"): {"x": "'new'"},
            ("spark.add_columns", "columns"): {"new": "id + 1"},
            ("spark.merge", "on"): "id",
        }
        if name.startswith("Expr."):
            return special.get((name, argument), 1)
        plain = {
            "changes": {"a/0": None},
            "dataset": self.kartothek,
            "dataset_uuid": "sales",
            "data": ROWS,
            "ds": self.ds,
            "key": "a/0",
            "keys": ["a/0"],
            "other": self.set,
            "references": self.set,
            "sets": [{"a": "b"}],
            "store_uri": self.folder / "store",
            "table_uri": self.folder / f"to-{next(self.numbers)}",
            "uri": self.ds.uri,
        }
        # Calls of Spark get None for a session or a DataFrame: they refuse another argument before they use it.
        found = special.get((name, argument), plain.get(argument))
        assert found is not None or name.startswith("spark."), (name, argument)
        return found


def calls(place: Place) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield public functions, and the public methods of one object of each class, with their names."""
    objects = {"references": place.set, "kartothek": place.kartothek, "Expr": pilum.col("id")}
    for prefix, module in {"references": references, "kartothek": kartothek, "spark": spark}.items():
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)) and name not in FOREIGN:
                yield f"{prefix}.{name}", getattr(module, name)
    for prefix, of in objects.items():
        for name in dir(type(of)):
            if (
                not name.startswith("_")
                and name not in INTERNAL
                and inspect.ismethod(inspect.getattr_static(of, name, None) and getattr(of, name))
            ):
                yield f"{prefix}.{name}", getattr(of, name)


def needed(place: Place, name: str, call: Callable[..., Any], without: str | None = None) -> dict[str, Any]:
    """Return valid values for the required arguments of a call, `without` excepted."""
    return {
        it.name: place.valid(name, it.name)
        for it in inspect.signature(call).parameters.values()
        if it.default is inspect.Parameter.empty
        and it.kind not in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        and it.name != without
    }


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path)


def test_the_public_calls_are_found(place: Place) -> None:
    names = [name for name, _ in calls(place)]
    for name in (
        "Expr.isin",
        "references.open",
        "references.get_many",
        "kartothek.write",
        "kartothek.update",
        "spark.read",
    ):
        assert name in names
    assert len(names) > 100


def outcome(name: str, call: Callable[..., Any], arguments: dict[str, Any]) -> str | None:
    """Return an unexpected error as text; None if the call succeeds, or raises an error of pilum that has a message."""
    try:
        finish(call(**arguments))
    except pilum.InternalError as error:
        return repr(error)
    except pilum.PilumError as error:
        return None if str(error) else "no message"
    except Exception as error:
        return None if isinstance(error, DOCUMENTED.get(name, ())) else repr(error)
    return None


def test_no_value_of_an_argument_causes_an_internal_error(place: Place) -> None:
    wrong = []
    for name, call in list(calls(place)):
        if name.startswith("spark."):
            continue
        for parameter in inspect.signature(call).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                continue
            for what, value in ODD.items():
                if what == "class" and parameter.name == "progress":
                    continue  # pilum calls the class, and raises the error of this call unchanged
                arguments = needed(place, name, call, parameter.name)
                found = outcome(name, call, {**arguments, parameter.name: value})
                if found is not None:
                    wrong.append(f"{name}({parameter.name}=<{what}>): {found}")
    assert not wrong, "\n".join([f"{len(wrong)} calls:", *wrong])


def test_an_unknown_keyword_is_refused_with_the_nearest_name(place: Place) -> None:
    wrong = []
    for name, call in list(calls(place)):
        known = [
            it.name
            for it in inspect.signature(call).parameters.values()
            if it.kind in {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        ]
        target = max(known, key=len, default="")
        misspelt = target[:1] + target[2:] + "s" if len(target) > 3 else "no_such_argument"
        try:
            call(**needed(place, name, call), **{misspelt: 1})
        except pilum.InvalidInputError as error:
            message = str(error)
            if f"no argument {misspelt!r}" not in message or (
                len(target) > 3 and f"did you mean {target!r}" not in message
            ):
                wrong.append(f"{name}: {message}")
        except Exception as error:
            wrong.append(f"{name}({misspelt}=): {error!r}")
        else:
            wrong.append(f"{name}({misspelt}=): taken")
    assert not wrong, "\n".join(wrong)
