"""Public calls of expressions, reference sets, Kartothek datasets, Skiff and Spark name the argument that they refuse.

`test_public_surface` checks the same of tables: no call ends with a Python error from inside of pilum. The tests call the
functions of Spark without a session: these must refuse a wrong argument before they use the session.
"""

from __future__ import annotations

import inspect
import io
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import kartothek, references, skiff, spark
from support.odd_values import ODD, finish
from support.surface import needed, taken_or_badly_refused

ROWS = pa.table({"id": [1, 2, 3], "x": ["a", "b", None]})
OTHERS = pa.record_batch(
    {"$other_columns": pa.array([b"{z=1}"])},
)
"""A row with a map of columns that its format does not name."""

INTERNAL = {"of_rows", "table", "filter", "warn_of_slashes"}
"""Methods that only other modules of pilum call, with arguments that are always valid."""

CLASSES = {"FileSystem", "ZarrStore"}
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
        self.format = skiff.Format.from_arrow(ROWS.schema)
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
            ("references.FileSystem", "fo"): {"a": "b"},
            ("references.ZarrStore", "source"): {"a": "b"},
            ("skiff.decode", "readable"): b"",
            ("skiff.encode", "batches"): ROWS,
            ("skiff.encode", "writable"): io.BytesIO(),
            ("skiff.convert", "source"): self.ds.uri,
            ("skiff.convert", "target"): str(self.folder / f"rows-{next(self.numbers)}.skiff"),
            ("skiff.json_to_yson", "texts"): ["1"],
            ("skiff.yson_get", "path"): "",
            ("skiff.run", "stdin"): b"",
            ("skiff.run", "stdout"): io.BytesIO(),
            ("skiff.promote_other_columns", "batch"): OTHERS,
            ("skiff.promote_other_columns", "columns"): {"z": pa.int64()},
            ("Format.load", "source"): self.format.to_json(),
            ("Format.from_json", "format"): self.format.to_json(),
            ("Format.from_yson", "format"): self.format.to_yson(),
            ("Format.from_arrow", "schema"): ROWS.schema,
            ("Format.with_schema", "schema"): pa.schema([("id", pa.int64())]),
            ("Format.from_table_schema", "columns"): [{"name": "a", "type": "int64"}],
            ("Format.annotate", "stream"): b"",
            ("Format.annotate_start", "stream"): b"",
            ("Format.annotate_start", "num_more"): 0,
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
            "format": self.format,
            "func": iter,
            "key": "a/0",
            "keys": ["a/0"],
            "nodes": [b"1"],
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


def making(kind: type) -> Callable[..., Any]:
    """Return a function that makes an object of a class, with the arguments that the class has."""

    def make(*values: Any, **named: Any) -> Any:
        return kind(*values, **named)

    signature = inspect.signature(kind.__init__)
    make.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[it for it in signature.parameters.values() if it.name != "self"]
    )
    return make


def calls(place: Place) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield public functions, and the public methods of one object of each class, with their names."""
    objects = {
        "references": place.set,
        "kartothek": place.kartothek,
        "Expr": pilum.col("id"),
        "Format": place.format,
    }
    modules = {"references": references, "kartothek": kartothek, "skiff": skiff, "spark": spark}
    for prefix, module in modules.items():
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found) or name in CLASSES:
                yield f"{prefix}.{name}", making(found) if name in CLASSES else found
    for prefix, of in objects.items():
        for name in dir(type(of)):
            if (
                not name.startswith("_")
                and name not in INTERNAL
                and inspect.ismethod(inspect.getattr_static(of, name, None) and getattr(of, name))
            ):
                yield f"{prefix}.{name}", getattr(of, name)


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
        "spark.register_view",
        "references.FileSystem",
        "references.ZarrStore",
        "references.register",
        "skiff.run",
        "Format.from_json",
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
                if what == "numpy array" and parameter.name in {"asynchronous", "skip_instance_cache"}:
                    continue  # fsspec reads them before the class is made
                arguments = needed(place.valid, name, call, parameter.name)
                found = outcome(name, call, {**arguments, parameter.name: value})
                if found is not None:
                    wrong.append(f"{name}({parameter.name}=<{what}>): {found}")
    assert not wrong, "\n".join([f"{len(wrong)} calls:", *wrong])


def test_an_unknown_keyword_is_refused_with_the_nearest_name(place: Place) -> None:
    wrong = taken_or_badly_refused(list(calls(place)), place.valid)
    assert not wrong, "\n".join(wrong)
