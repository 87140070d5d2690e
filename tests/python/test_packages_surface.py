"""Public calls of expressions, reference sets, Kartothek datasets and Spark refuse what they do not take, by name.

As `test_public_surface` does for tables: no call ends in an error of Python that comes out of pilum's own code. Calls of Spark
are tried without a session: an argument that is wrong by itself is refused before the session is used.
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
"""Methods that other modules of pilum call, with arguments that they have made."""

FOREIGN = {"FileSystem", "ZarrStore", "register"}
"""Classes of fsspec and zarr: their methods have the arguments, and the errors, of these libraries."""


DOCUMENTED: dict[str, type[Exception]] = {"references.from_hdf5": OSError}
"""Errors of other libraries that a docstring names."""


class Place:
    """What calls need as valid arguments."""

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
        """Return a value that a call takes for an argument that it needs."""
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
        # What Spark needs is never used.
        found = special.get((name, argument), plain.get(argument))
        assert found is not None or name.startswith("spark."), (name, argument)
        return found


def calls(place: Place) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield public functions, and public methods of an object of each public class."""
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
    """Return valid values for the arguments that a call needs."""
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


def test_the_surface_is_found(place: Place) -> None:
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
    """Return what is wrong with how a call ends, None if it does its work or refuses in words."""
    try:
        finish(call(**arguments))
    except pilum.InternalError as error:
        return repr(error)
    except pilum.PilumError as error:
        return None if str(error) else "no message"
    except Exception as error:
        return None if isinstance(error, DOCUMENTED.get(name, ())) else repr(error)
    return None


def test_no_value_of_an_argument_ends_in_an_error_of_our_insides(place: Place) -> None:
    wrong = []
    for name, call in list(calls(place)):
        if name.startswith("spark."):
            continue
        for parameter in inspect.signature(call).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                continue
            for what, value in ODD.items():
                if what == "class" and parameter.name == "progress":
                    continue  # it is called, and its error is raised as it is
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
