"""`FileSystem` beside fsspec's `ReferenceFileSystem`, and under zarr and xarray."""

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import fsspec
import numpy as np
import pytest
import zarr
from fsspec.implementations.reference import ReferenceFileSystem
from fsspec.implementations.reference import ReferenceNotReachable as FsspecNotReachable

from pilum import references
from support import references_cases as cases

# fsspec reads Parquet references with fastparquet only, which pandas announces to drop.
pytestmark = pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")


@pytest.fixture(autouse=True)
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()


def opened(case, run, **more):
    options = dict(case.runs[run].get("options", {}))
    if options.pop("simple_templates", True) is False:
        more["mode"] = "full"
    elif run == "simple":
        more["mode"] = "simple"
    return references.FileSystem(case.refs, **options, **more)


@pytest.mark.parametrize("name", cases.names())
def test_every_key_is_read_as_by_fsspec(name, memory, monkeypatch):
    case = cases.Case(name)
    case.load(memory)
    monkeypatch.chdir(case.folder)
    for run in case.runs:
        if "init_error" in case.runs[run]:
            with pytest.raises(KeyError):
                opened(case, run)
            continue
        fs = opened(case, run)
        for key, wanted in case.keys(run).items():
            if isinstance(wanted, str):
                assert cases.is_equal(key, fs.cat_file(key), cases.bytes_of(wanted)), key
                continue
            with pytest.raises(Exception) as raised:
                fs.cat_file(key)
            assert cases.fails_as(raised.value, wanted), (key, raised.value)
            if wanted["error"] == "ReferenceNotReachable":
                assert isinstance(raised.value, FsspecNotReachable)
                assert isinstance(raised.value, references.ReferenceNotReachable)
                assert type(raised.value.__cause__).__name__ == wanted["cause"], key
        if "find" in case.runs[run]:
            assert fs.find("") == case.runs[run]["find"]
            # The text of inlined objects is that of ujson there: other escapes, so another length. A text counts characters.
            others = {
                key
                for key, value in case.runs[run]["expanded"].items()
                if str(value).startswith("{") or key == "unicode"
            }
            listed, wanted = fs.ls("", detail=True), case.runs[run]["ls_root"]
            assert [entry["name"] for entry in listed] == [entry["name"] for entry in wanted]
            assert [it for it in listed if it["name"] not in others] == [
                it for it in wanted if it["name"] not in others
            ]


def result_of(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except FileNotFoundError as error:
        return type(error).__name__


def test_listings_are_those_of_fsspec(memory):
    case = cases.Case("listing")
    case.load(memory)
    fs = opened(case, "default")
    for path, wanted in case.expected["listing"].items():
        if path.startswith("#"):
            continue
        for call in ("exists", "isdir", "isfile"):
            assert getattr(fs, call)(path) == wanted[call], (path, call)
        assert fs.find(path) == wanted["find"], path
        missing = {"error": "FileNotFoundError", "cause": None}
        listed = result_of(lambda path=path: fs.ls(path, detail=True))
        assert listed == (wanted["ls"] if wanted["ls"] != missing else "FileNotFoundError"), path
        info = result_of(lambda path=path: fs.info(path))
        assert info == (wanted["info"] if wanted["info"] != missing else "FileNotFoundError"), path
    listing = case.expected["listing"]
    assert fs.find("", withdirs=True) == listing["#find_withdirs"]
    assert fs.glob("a/*") == listing["#glob a/*"]
    assert [[root, sorted(dirs), sorted(files)] for root, dirs, files in fs.walk("")] == [
        [root, sorted(dirs), sorted(files)] for root, dirs, files in listing["#walk"]
    ]
    assert fs.du("") == listing["#du"]


def test_slices_and_bulk_reads_are_those_of_fsspec(memory):
    case = cases.Case("ranges_and_merging")
    case.load(memory)
    fs = opened(case, "default")
    for key, start, end, wanted in case.expected["cat_file_ranges"]:
        assert fs.cat_file(key, start=start, end=end) == cases.bytes_of(wanted), (key, start, end)
    for bulk in case.expected["cat_merging"]:
        merging = opened(case, "default", **bulk["options"])
        requests = []
        target = merging.fss["memory"]
        original = target._cat_ranges

        async def recorded(paths, starts, ends, requests=requests, original=original, **more):
            requests.append([list(it) for it in zip(paths, starts, ends, strict=True)])
            return await original(paths, starts, ends, **more)

        target._cat_ranges = recorded
        got = merging.cat(list(bulk["result"]))
        target._cat_ranges = original
        assert got == {key: cases.bytes_of(value) for key, value in bulk["result"].items()}
        assert [sorted(it, key=str) for it in requests] == [sorted(it, key=str) for it in bulk["requests"]]
    ranges = case.expected["cat_ranges"]
    results = fs.cat_ranges(ranges["paths"], ranges["starts"], ranges["ends"])
    for got, wanted in zip(results, ranges["result"], strict=True):
        if isinstance(wanted, str):
            assert got == cases.bytes_of(wanted)
        else:
            assert cases.fails_as(got, wanted)
    for on_error, wanted in case.expected["cat_on_error"].items():
        got = fs.cat(["r", "nope", "i"], on_error=on_error)
        assert list(got) == list(wanted)


def test_keys_are_written_removed_saved_and_opened(memory, tmp_path):
    memory.pipe("/f", b"0123456789")
    fs = references.FileSystem({"a": ["memory://f", 2, 5], "b": "text"}, remote_protocol="memory")
    fs.pipe_file("c/d", b"\xff\x00")
    fs.rm("b")
    with fs.open("a") as file:
        assert (file.seek(1), file.read(2), file.read()) == (1, b"34", b"56")
    assert sorted(fs.find("")) == ["a", "c/d"]
    fs.save_json(str(tmp_path / "set.json"))
    again = ReferenceFileSystem(str(tmp_path / "set.json"), remote_protocol="memory")
    assert (again.cat("a"), again.cat("c/d"), again.exists("b")) == (b"23456", b"\xff\x00", False)
    mapper = fs.get_mapper("")
    assert (mapper["a"], sorted(mapper)) == (b"23456", ["a", "c/d"])
    assert "x" not in mapper
    assert pickle.loads(pickle.dumps(fs)).cat("a") == b"23456"


def test_metadata_services_are_never_asked():
    fs = references.FileSystem({"k": ["http://2852039166/x", 0, 1]}, fs={"http": fsspec.filesystem("memory")})
    with pytest.raises(references.ReferenceNotReachable, match="never asked"):
        fs.cat_file("k")


ARRAYS = [name for name in cases.names() if "arrays" in cases.Case(name).expected and name != "netcdf3"]


@pytest.mark.parametrize("name", ARRAYS)
def test_zarr_reads_through_it_what_it_reads_through_fsspec(name, memory, monkeypatch, tmp_path):
    case = cases.Case(name)
    case.load(memory)
    monkeypatch.chdir(case.folder)
    run = next(iter(case.runs))
    fs = opened(case, run, asynchronous=True, remote_options={"asynchronous": True})
    group = zarr.open_group(zarr.storage.FsspecStore(fs, read_only=True), mode="r")
    refs = references.open(case.refs)
    forms = {"json": tmp_path / "set.json"}
    refs.to_json(forms["json"])
    if not name.startswith("zarr_v3"):
        forms["parquet"] = tmp_path / "set.parq"
        refs.to_parquet(forms["parquet"], record_size=4)
    for path, wanted in case.expected["arrays"].items():
        array = np.asarray(group[path][...])
        assert list(array.shape) == wanted["shape"]
        # What pilum writes, fsspec itself reads.
        for form, written in forms.items():
            peer = ReferenceFileSystem(
                f"{written}/" if form == "parquet" else str(written),
                remote_protocol="memory", asynchronous=True, remote_options={"asynchronous": True},
            )  # fmt: skip
            read = zarr.open_group(zarr.storage.FsspecStore(peer, read_only=True), mode="r")
            np.testing.assert_array_equal(array, np.asarray(read[path][...]))


def test_asynchronous_calls_read_together(memory):
    memory.pipe("/f", bytes(range(100)))
    document = {str(at): ["memory://f", at, 2] for at in range(50)}

    async def read():
        fs = references.FileSystem(
            document, remote_protocol="memory", remote_options={"asynchronous": True}, asynchronous=True
        )
        return await fs._cat_ranges(list(document), 0, 1), await fs._cat([*document])

    firsts, whole = asyncio.run(read())
    assert firsts == [bytes([at]) for at in range(50)]
    assert whole["7"] == bytes([7, 8])


def test_it_is_a_protocol_of_fsspec(memory, tmp_path):
    references.register()
    (tmp_path / "set.json").write_text(json.dumps({"k": "text"}))
    assert fsspec.filesystem("pilum-reference", fo=str(tmp_path / "set.json")).cat("k") == b"text"
