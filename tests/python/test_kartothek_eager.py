"""Kartothek's eager functions: the examples of its documentation with the results of 5.3.0, stores, and what is refused."""

from __future__ import annotations

import functools
import json
import tarfile
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import pilum
from pilum.kartothek import eager
from support.kartothek_cubes import CONDITIONS
from support.kartothek_cubes import told as told_of_cube
from support.kartothek_examples import EXAMPLES, FIRST, SALES, SECOND

FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORDED = json.loads((Path(__file__).parents[1] / "fixtures/kartothek/examples.json").read_text())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda it: it.__name__)
def test_examples_give_the_results_of_kartothek(example: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = json.loads(json.dumps(example(eager, f"hfs://{tmp_path}"), default=str))
    assert found == RECORDED[example.__name__]


class DictStore:
    """A store by duck typing: it can do nothing but this."""

    def __init__(self) -> None:
        self.d: dict[str, bytes] = {}

    def get(self, key: str) -> bytes:
        return self.d[key]

    def put(self, key: str, data: bytes) -> str:
        self.d[key] = bytes(data)
        return key

    def delete(self, key: str) -> None:
        self.d.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        return [key for key in self.d if key.startswith(prefix)]


class FolderStore(DictStore):
    """A store that keeps its files in a folder."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = str(root)


def stores(tmp_path: Path) -> Iterable[tuple[str, Any]]:
    mirrored = DictStore()
    yield "object", mirrored
    yield "factory", lambda: mirrored
    yield "folder", FolderStore(tmp_path / "folder")
    yield "url", f"hfs://{tmp_path}/url?create_if_missing=true"
    yield "memory", "hmemory://eager-stores"
    yield "path", tmp_path / "path"


def test_stores_are_urls_objects_and_functions(tmp_path: Path) -> None:
    for number, (kind, store) in enumerate(stores(tmp_path)):
        uuid = f"d{number}"
        eager.store_dataframes_as_dataset(store, uuid, [SALES], partition_on=["country"], secondary_indices=["sold"])
        eager.update_dataset_from_dataframes([SALES], store=store, dataset_uuid=uuid, delete_scope=[{"country": "DE"}])
        assert len(eager.read_table(uuid, store)) == 6, kind
        eager.garbage_collect_dataset(uuid, store)
        assert len(eager.read_table(uuid, store, predicates=[[("sold", "==", 3)]])) == 2, kind
        eager.delete_dataset(uuid, store)
        with pytest.raises(KeyError):
            eager.read_table(uuid, store)
    assert list((tmp_path / "url").glob("d3.*")) == []
    with pytest.raises(pilum.InvalidInputError, match="is no store"):
        eager.read_table("x", object())


def test_a_mirrored_store_refuses_to_undo_another_writer() -> None:
    store = DictStore()
    eager.store_dataframes_as_dataset(store, "d", [FIRST])
    from pilum.kartothek.stores import opened

    mirror = opened(store, "d", writing=True)
    where = mirror.__enter__()
    eager.update_dataset_from_dataframes([FIRST], store=where, dataset_uuid="d")
    eager.update_dataset_from_dataframes([SECOND], store=store, dataset_uuid="d")
    with pytest.raises(pilum.ConflictError):
        mirror.__exit__(None, None, None)
    assert len(eager.read_table("d", store)) == len(FIRST) + len(SECOND)


def test_dangerous_deletes_are_refused(tmp_path: Path) -> None:
    eager.store_dataframes_as_dataset(tmp_path, "d", [SALES], partition_on=["country"])
    for scope in [{"sold": 1}, {}]:
        with pytest.raises(ValueError, match="delete_scope"):
            eager.update_dataset_from_dataframes(None, store=tmp_path, dataset_uuid="d", delete_scope=[scope])
    # Kartothek raises a KeyError for two scopes that mean one partition.
    eager.update_dataset_from_dataframes(
        None, store=tmp_path, dataset_uuid="d", delete_scope=[{"country": "DE"}, {"country": "DE"}]
    )
    assert set(eager.read_table("d", tmp_path)["country"]) == {"FR", "UK"}


def test_where_kartothek_is_wrong_a_warning_says_so_once(tmp_path: Path) -> None:
    frame = pd.DataFrame({"p": [True, False], "x": ["a", None], "v": [1, 2]})
    eager.store_dataframes_as_dataset(tmp_path, "d", [frame], partition_on=["p"], secondary_indices=["x"])
    with pytest.warns(UserWarning, match="always reads as True"):
        assert set(eager.read_table("d", tmp_path)["p"]) == {True, False}
    with pytest.warns(UserWarning, match="null rows of 'x'"):
        found = eager.read_table("d", tmp_path, predicates=[[("x", "!=", "a")]])
    assert list(found["v"]) == [2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eager.read_table("d", tmp_path, predicates=[[("x", "!=", "a")]])


def test_an_empty_header_takes_partitions_without_a_commit(tmp_path: Path) -> None:
    schema = pa.schema({"country": pa.string(), "sold": pa.int64(), "day": pa.date32()})
    made = eager.create_empty_dataset_header(
        tmp_path, "d", {"table": schema}, partition_on=["country"], metadata={"a": 1}
    )
    assert (made.explicit_partitions, made.partitions, made.metadata["a"]) == (False, {}, 1)
    assert made.table_meta["table"].names == ["country", "day", "sold"]
    eager.write_single_partition(store=tmp_path, dataset_uuid="d", data=SALES)
    assert len(eager.read_table("d", tmp_path)) == 4
    done = eager.update_dataset_from_dataframes([SALES], store=tmp_path, dataset_uuid="d")
    assert done.explicit_partitions
    assert len(done.partitions) == 6
    with pytest.raises(ValueError, match="Schema violation"):
        eager.write_single_partition(store=tmp_path, dataset_uuid="d", data=SALES.assign(sold="x"))
    with pytest.raises(RuntimeError):
        eager.create_empty_dataset_header(tmp_path, "d", {"table": schema})


def test_partitions_written_in_threads_are_committed_at_once(tmp_path: Path) -> None:
    eager.store_dataframes_as_dataset(tmp_path, "d", [SALES], partition_on=["country"], secondary_indices=["sold"])
    written: list[eager.MetaPartition] = []

    def write() -> None:
        written.append(eager.write_single_partition(store=tmp_path, dataset_uuid="d", data=SALES))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    done = eager.commit_dataset(store=tmp_path, dataset_uuid="d", new_partitions=written, delete_scope=[{"sold": 4}])
    assert len(done.partitions) == 2 + 4 * 3
    assert len(eager.read_table("d", tmp_path, predicates=[[("sold", "==", 4)]])) == 4


def query_cube(store: str, prefix: str, conditions: list[tuple[str, str, Any]]) -> pd.DataFrame:
    """Join the datasets of a cube to its seed, as the format says."""
    datasets = {path.name.split(".")[0]: path for path in Path(store.removeprefix("hfs://")).glob(f"{prefix}++*.json")}
    parts = []
    for uuid in sorted(datasets):
        k = pilum.kartothek.dataset(store, uuid)
        own = [it for it in conditions if it[0] in k.schema().names]
        parts.append((k.metadata, bool(own), eager.read_table(uuid, store, predicates=[own] if own else None)))
    (seed,) = [it for it in parts if it[0]["ktk_cube_is_seed"]]
    dimensions = [*seed[0]["ktk_cube_dimension_columns"], *seed[0]["ktk_cube_partition_columns"]]

    def join(left: pd.DataFrame, part: tuple[dict[str, Any], bool, pd.DataFrame]) -> pd.DataFrame:
        _, is_restricted, right = part
        columns = [name for name in dimensions if name in right.columns]
        return left.merge(right, on=columns, how="inner" if is_restricted else "left")

    return functools.reduce(join, [it for it in parts if it is not seed], seed[2])


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cube")
    with tarfile.open(FIXTURES / "kartothek_cube.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("name", CONDITIONS)
def test_datasets_of_a_cube_give_the_rows_of_its_query(cube: Path, name: str) -> None:
    expected = json.loads((cube / "queries.json").read_text())[name]
    found = told_of_cube(query_cube(f"hfs://{cube}/store", "geodata", CONDITIONS[name]))
    assert found["rows"] == expected["rows"]
    assert found["columns"] == expected["columns"] or not expected["rows"]


def test_an_update_of_a_seed_keeps_what_makes_it_a_cube(cube: Path, tmp_path: Path) -> None:
    k = pilum.kartothek.dataset(cube / "store", "geodata++seed").copy_to(tmp_path)
    more = pd.DataFrame({"avg_temp": [1], "city": ["Oslo"], "country": ["NO"], "day": [pd.Timestamp(2018, 1, 1)]})
    k = k.update(more)
    assert [k.metadata[f"ktk_cube_{name}"] for name in ("is_seed", "dimension_columns", "partition_columns")] == [
        True,
        ["city", "day"],
        ["country"],
    ]
    assert k.dispatch([[("city", "==", "Oslo")]]) == [label for label in k.labels if label.startswith("country=NO/")]
