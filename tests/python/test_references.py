"""Reference sets beside what fsspec reads through them."""

import gzip
import json
import pickle
import time

import fsspec
import pyarrow as pa
import pytest

import pilum
from pilum import references
from support import references_cases as cases

MODES = {"simple": "simple", "jinja": "full"}
# Deviations of `open`, each a rule in docs/references.md: numbers are no values, and a negative offset or length is an error on
# every target. fsspec gives a byte, or what slicing gives.
STRICTER = {"int", "true", "negoff", "negoff2", "neglen"}


@pytest.fixture(autouse=True)
def memory():
    fs = fsspec.filesystem("memory")
    yield fs
    fs.store.clear()


def opened(case, run):
    options = case.runs[run].get("options", {})
    return references.open(
        case.refs,
        mode=MODES.get(run, "union"),
        template_overrides=options.get("template_overrides"),
        target=options.get("target"),
    )


@pytest.mark.parametrize("name", [name for name in cases.names() if name != "protocols"])
def test_every_key_has_the_bytes_that_fsspec_reads(name, memory):
    case = cases.Case(name)
    case.load(memory)
    for run in case.runs:
        if "init_error" in case.runs[run]:
            with pytest.raises(pilum.InvalidInputError) as raised:
                opened(case, run)
            assert cases.fails_as(raised.value, case.runs[run]["init_error"])
            continue
        refs = opened(case, run)
        wanted = case.keys(run)
        results = refs.get_many([key for key in wanted if key in refs], on_error="return")
        for key, value in wanted.items():
            if name == "v0_errors" and key in STRICTER:
                assert isinstance(results[key], pilum.PilumError), key
            elif isinstance(value, str):
                assert cases.is_equal(key, results[key], cases.bytes_of(value)), key
            elif key in results:
                assert cases.fails_as(results[key], value), (key, results[key])
            else:
                with pytest.raises(references.MissingKeyError) as raised:
                    refs[key]
                assert cases.fails_as(raised.value, value)
                assert isinstance(raised.value, KeyError)


@pytest.mark.parametrize("name", [name for name in cases.names() if name != "v0_errors"])
def test_every_form_keeps_every_key(name, memory, tmp_path):
    case = cases.Case(name)
    case.load(memory)
    run = next(run for run in case.runs if "init_error" not in case.runs[run])
    refs = opened(case, run).load()
    # Relative URLs would start from where the copies lie.
    refs = refs.rewrite({"data.nc": str(case.folder / "data.nc")})
    forms = {
        "0": references.open(json.loads(refs.to_json(version=0))),
        "arrow": references.from_arrow(refs.to_arrow()),
        "pickle": pickle.loads(pickle.dumps(refs)),
    }
    refs.to_json(tmp_path / "set.json", version=1)
    forms["1"] = references.open(tmp_path / "set.json", mode="simple")
    (tmp_path / "set.json.gz").write_bytes(gzip.compress(refs.to_json().encode()))
    forms["gzip"] = references.open(tmp_path / "set.json.gz")
    (tmp_path / "set.json.zst").write_bytes(pa.compress(refs.to_json(version=0).encode(), codec="zstd", asbytes=True))
    forms["zstd"] = references.open(tmp_path / "set.json.zst")
    for form, again in forms.items():
        assert refs.diff(again) == {"added": [], "removed": [], "changed": []}, form
    try:
        refs.to_parquet(tmp_path / "set.parq", record_size=3)
    except (pilum.UnsupportedError, pilum.InvalidInputError):
        assert not (tmp_path / "set.parq").exists()
        return
    again = references.open(tmp_path / "set.parq")
    keys = [key for key in refs if key != ".zmetadata"]
    for key, value in refs.get_many(keys, on_error="return").items():
        moved = key
        if f"{key.partition('/')[0]}/.zarray" in refs and not key.rpartition("/")[2].startswith("."):
            array, _, rest = key.partition("/")
            moved = f"{array}/{rest.replace('/', '.')}" if name == "zarr_v2_nested_keys" else key
        if isinstance(value, bytes) and not key.endswith(".zarray"):
            assert cases.is_equal(key, again[moved], value), key


def test_the_allow_list_and_the_rules_for_targets_are_kept(tmp_path):
    (tmp_path / "data").write_bytes(b"0123456789")
    refs = references.open(
        {
            "local": [str(tmp_path / "data"), 2, 3],
            "bucket": ["s3://bucket/x", 0, 1],
            "meta": ["http://169.254.169.254/latest", 0, 1],
            "number": ["http://2852039166/x"],
        }
    )
    assert refs["local"] == b"234"
    for key in ("bucket", "meta", "number"):
        started = time.thread_time()
        with pytest.raises(pilum.InvalidInputError) as raised:
            refs[key]
        assert time.thread_time() - started < 0.1
        assert isinstance(raised.value, references.ReferenceNotReachable)
    narrow = references.open({"local": [str(tmp_path / "data")]}, allow=["s3://bucket"])
    with pytest.raises(references.TargetRefusedError, match="allow-list"):
        narrow["local"]
    open_wide = references.open({"meta": ["http://169.254.169.254/latest", 0, 1]}, allow=["*"])
    with pytest.raises(references.TargetRefusedError, match="never"):
        open_wide["meta"]


def test_relative_urls_start_from_the_set(tmp_path, monkeypatch):
    (tmp_path / "sets").mkdir()
    (tmp_path / "data").write_bytes(b"0123456789")
    (tmp_path / "sets" / "set.json").write_text(json.dumps({"k": ["../data", 2, 3]}))
    monkeypatch.chdir("/")
    assert references.open(tmp_path / "sets" / "set.json")["k"] == b"234"


def test_hostile_documents_are_refused_at_once():
    loop = {"version": 1, "templates": {"f": "{{c(c=c)}}"}, "refs": {"k": ["{{f(c=f)}}"]}}
    many = {"version": 1, "gen": [{"key": "{{i}}", "url": "u", "dimensions": {"i": {"stop": 10**9}}}]}
    long = {"version": 1, "templates": {"u": "x"}, "refs": {"k": ["{{ u * 10**12 }}"]}}
    attribute = {"version": 1, "templates": {"u": "x"}, "refs": {"k": ["{{ u.__class__ }}"]}}
    for document in (loop, many, long, attribute):
        # `thread_time` measures processor time of this thread, so a busy machine does not make the test fail.
        started = time.thread_time()
        with pytest.raises((pilum.LimitError, pilum.InvalidInputError)):
            references.open(document)
        assert time.thread_time() - started < 0.1
    with pytest.raises(pilum.LimitError, match="max_references"):
        references.open(many, max_references=10)


def test_faults_name_key_and_member(tmp_path):
    document = {"version": 1, "templates": {"u": "x"}, "refs": {"a/0": ["{{u}}", 1]}}
    with pytest.raises(pilum.InvalidInputError, match=r'"a/0", value: an array has 1 or 3 items') as raised:
        references.open(document)
    assert (raised.value.key, raised.value.member) == ("a/0", "value")
    with pytest.raises(pilum.InvalidInputError, match="offset"):
        references.open({"a/0": ["x", None, 1]})["a/0"]
    broken = tmp_path / "broken.json"
    broken.write_text('{"a": 1,')
    with pytest.raises(ValueError, match="not JSON at byte 8"):
        references.open(broken)


def array(shape, chunks, dims):
    metadata = {"zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<i4", "compressor": None, "filters": None,
                "fill_value": 0, "order": "C"}  # fmt: skip
    return {"x/.zarray": json.dumps(metadata), "x/.zattrs": json.dumps({"_ARRAY_DIMENSIONS": dims})}


def day(at, length=4):
    chunks = {f"x/{i}.{j}": [f"day{at}.nc", 100 * i + j, 8] for i in range(length // 2) for j in range(3)}
    return {".zgroup": '{"zarr_format":2}', **array([length, 6], [2, 2], ["time", "y"]), **chunks}


def test_sets_are_concatenated_along_a_dimension():
    made = references.combine([day(1), day(2), day(3, 2)], concat_dim="time", coords={"time": r"day(\d+)"})
    assert json.loads(made["x/.zarray"])["shape"] == [10, 6]
    assert made.locate("x/0.1") == ("day1.nc", 1, 8)
    assert made.locate("x/3.2") == ("day2.nc", 102, 8)
    assert made.locate("x/4.0") == ("day3.nc", 0, 8)
    assert len([key for key in made.keys("x/") if key[2] != "."]) == 15
    assert json.loads(made["time/.zarray"])["shape"] == [3]
    assert made["time/0"] == b"".join(value.to_bytes(8, "little") for value in (1, 2, 3))
    with pytest.raises(pilum.InvalidInputError, match="within a chunk"):
        references.combine([day(1) | array([3, 6], [2, 2], ["time", "y"]), day(2)], concat_dim="time")
    with pytest.raises(pilum.InvalidInputError, match="chunks in set 1"):
        references.combine([day(1), day(2) | array([4, 6], [2, 3], ["time", "y"])], concat_dim="time")


def test_sets_are_stacked_along_a_new_dimension_and_merged():
    made = references.combine([day(1), day(2)], new_dim="run", coords={"run": lambda refs, at: at * 10})
    assert json.loads(made["x/.zarray"])["shape"] == [2, 4, 6]
    assert json.loads(made["x/.zarray"])["chunks"] == [1, 2, 2]
    assert json.loads(made["x/.zattrs"])["_ARRAY_DIMENSIONS"] == ["run", "time", "y"]
    assert made.locate("x/1.1.2") == ("day2.nc", 102, 8)
    merged = references.combine([{"a": "1", ".zattrs": "{}"}, {"b": "2", ".zattrs": '{"c":1}'}])
    assert (merged["a"], merged["b"], merged[".zattrs"]) == (b"1", b"2", b"{}")
    with pytest.raises(pilum.InvalidInputError, match="different values"):
        references.combine([{"a": "1"}, {"a": "2"}])
    assert references.combine([{"a": "1"}, {"a": "2"}], on_conflict="last")["a"] == b"2"


def test_sets_are_rewritten_cut_compared_and_checked(tmp_path):
    (tmp_path / "data").write_bytes(bytes(100))
    refs = references.open(
        {"a/0": ["old/data", 0, 50], "a/1": ["old/data", 40, 20], "b": ["old/data", 90, 20], "bad": [1]}
    )
    moved = refs.rewrite({"old/": f"{tmp_path}/", "o": "no"})
    assert moved.locate("a/0") == (f"{tmp_path}/data", 0, 50)
    assert moved.subset("a/").keys() == ["a/0", "a/1"]
    changed = moved.changed({"b": None, "c": "text", "a/0": ("other",)})
    assert moved.diff(changed) == {"added": ["c"], "removed": ["b"], "changed": ["a/0"]}
    problems = dict(moved.validate(reachable=True))
    assert set(problems) == {"a/1", "b", "bad"}
    assert "overlap" in problems["a/1"]
    assert "beyond the 100 bytes" in problems["b"]
    info = moved.info("a/0")
    assert (info["size"], info["offset"], moved.info("a")["type"]) == (50, 0, "directory")


def test_a_million_references_open_in_little_memory(tmp_path):
    count = 200_000
    refs = {f"t/{i // 100}.{i % 100}": [f"s3://bucket/folder/file{i // 1000}.nc", i * 1000, 1000] for i in range(count)}
    (tmp_path / "set.json").write_text(json.dumps({"version": 1, "refs": refs}))
    opened = references.open(tmp_path / "set.json")
    assert len(opened) == count
    assert opened.nbytes < count * 100
    assert opened.locate("t/1999.99") == ("s3://bucket/folder/file199.nc", 199_999_000, 1000)


def test_regular_arrays_are_written_as_gen_on_request():
    array = json.dumps({"zarr_format": 2, "shape": [100, 10], "chunks": [1, 1], "dtype": "|u1", "compressor": None,
                        "fill_value": 0, "filters": None, "order": "C"})  # fmt: skip
    chunks = {f"x/{i}.{j}": ["memory://data.bin", 16 + 20 * i + 2 * j, 2] for i in range(100) for j in range(10)}
    refs = references.open({".zgroup": '{"zarr_format":2}', "x/.zarray": array, **chunks})
    plain, short = refs.to_json(), refs.to_json(gen=True)
    assert "gen" not in json.loads(plain)
    assert json.loads(short)["gen"][0]["offset"] == "{{16+i0*20+i1*2}}"
    assert len(short) < len(plain) / 20
    again = references.open(json.loads(short))
    assert refs.diff(again) == {"added": [], "removed": [], "changed": []}
    with pytest.raises(pilum.InvalidInputError, match="version 0 has no `gen`"):
        refs.to_json(version=0, gen=True)
    with pytest.raises(pilum.InvalidInputError, match="gen='yes': True or False"):
        refs.to_json(gen="yes")
