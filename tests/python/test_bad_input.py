"""What is wrong is refused: with the class to catch, the path, the reason, and the table as it was."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import pilum
from support.comparing import assert_same
from support.golden import Golden

TABLE = pa.table({"n": pa.array([1, None, 3], pa.int64()), "s": ["a", "", None]})
AS_ROOT = os.geteuid() == 0


@pytest.fixture
def path(tmp_path) -> Path:
    pilum.write_dataset(TABLE, tmp_path / "t")
    return tmp_path / "t"


def assert_untouched(path: Path, version: int = 1) -> None:
    """The table is what it was, and nothing half-made lies where versions are."""
    ds = pilum.dataset(path)
    assert ds.version == version
    assert_same(ds.to_table(), TABLE)
    assert [file.name for file in (path / "_versions").iterdir() if not file.name.endswith(".manifest")] == []
    assert len(list((path / "_versions").glob("*.manifest"))) == version


def test_the_classes_are_a_tree_that_python_knows():
    assert issubclass(pilum.NotFoundError, FileNotFoundError)
    assert issubclass(pilum.AlreadyExistsError, FileExistsError)
    assert issubclass(pilum.UnsupportedError, NotImplementedError)
    assert issubclass(pilum.InvalidInputError, ValueError)
    assert issubclass(pilum.StoreError, OSError)
    assert issubclass(pilum.LimitError, MemoryError)
    kinds = {}
    for name in pilum.exceptions.__all__:
        kind = getattr(pilum, name)
        assert issubclass(kind, pilum.PilumError)
        if kind is not pilum.PilumError:
            kinds[kind.kind] = kind
    assert len(kinds) == len(pilum.exceptions.__all__) - 1


def test_a_missing_path(tmp_path):
    with pytest.raises(pilum.NotFoundError) as refusal:
        pilum.dataset(tmp_path / "nothing" / "here")
    assert str(tmp_path / "nothing" / "here") in str(refusal.value)
    assert refusal.value.kind == "not_found"
    assert not (tmp_path / "nothing").exists()


def test_a_directory_that_is_no_table(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("no table")
    with pytest.raises(pilum.NotFoundError, match="notes"):
        pilum.dataset(tmp_path / "notes")
    (tmp_path / "notes" / "_versions").mkdir()
    with pytest.raises(pilum.NotFoundError, match="notes"):
        pilum.dataset(tmp_path / "notes")


def test_a_file_that_is_no_table(tmp_path):
    pq.write_table(TABLE, tmp_path / "t.parquet")
    for uri in (tmp_path / "t.parquet", f"file://{tmp_path}/t.parquet"):
        with pytest.raises(pilum.NotFoundError, match=r"t\.parquet is a file, .* pilum\.parquet\.dataset opens"):
            pilum.dataset(uri)


def test_creating_where_a_table_is(path):
    with pytest.raises(pilum.AlreadyExistsError, match=str(path)):
        pilum.write_dataset(TABLE, path)
    assert_untouched(path)


@pytest.mark.parametrize("version", [0, 2, 10**12, 2**63])
def test_a_version_that_is_not_there(path, version):
    with pytest.raises(pilum.PilumError) as refusal:
        pilum.dataset(path, version=version)
    assert isinstance(refusal.value, (pilum.NotFoundError, pilum.InvalidInputError))
    assert str(version) in str(refusal.value)


@pytest.mark.parametrize("version", [-1, "", "../../etc", "a/../../b"])
def test_a_version_that_makes_no_sense(path, version):
    with pytest.raises((pilum.NotFoundError, pilum.InvalidInputError, OverflowError)):
        pilum.dataset(path, version=version)


@pytest.mark.parametrize("name", ["../out", "a/b/../../../c", "", ".", "x" * 300, "nul\x00", "sp ace"])
def test_a_tag_that_would_leave_its_folder(path, name):
    with pytest.raises((pilum.InvalidInputError, pilum.StoreError)):
        pilum.dataset(path).tags.create(name)
    assert not (path.parent / "out.json").exists()


def data_file(path: Path) -> Path:
    (file,) = (path / "data").iterdir()
    return file


def manifest(path: Path) -> Path:
    return next((path / "_versions").glob("*.manifest"))


@pytest.mark.parametrize("part", [data_file, manifest], ids=["data", "manifest"])
def test_a_truncated_file_at_every_length(path, part):
    file = part(path)
    whole = file.read_bytes()
    for length in sorted({*range(0, len(whole), max(1, len(whole) // 150)), *range(len(whole) - 40, len(whole))}):
        file.write_bytes(whole[:length])
        with pytest.raises(pilum.PilumError) as refusal:
            pilum.dataset(path).to_table()
        assert isinstance(refusal.value, (pilum.CorruptError, pilum.UnsupportedError)), f"{length}: {refusal.value!r}"
        assert file.name in str(refusal.value), f"{length}: {refusal.value}"
    file.write_bytes(whole)
    assert_untouched(path)


@pytest.mark.parametrize("part", [data_file, manifest], ids=["data", "manifest"])
def test_a_flipped_bit_is_never_a_wrong_answer(path, part):
    file = part(path)
    whole = bytearray(file.read_bytes())
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        whole[at] ^= 1 << (at % 8)
        file.write_bytes(whole)
        try:
            got = pilum.dataset(path).to_table()
        except pilum.PilumError as refusal:
            refused = str(refusal)
            if str(path) not in refused and file.name not in refused:
                pytest.fail(f"the message names no file: {refused}")
        else:
            assert_same(got, TABLE, f"bit {at % 8} of byte {at} of {file.name}")
        whole[at] ^= 1 << (at % 8)


@pytest.mark.parametrize("part", [data_file, manifest], ids=["data", "manifest"])
@pytest.mark.parametrize("kind", ["empty", "noise", "parquet", "zeros", "magic only"])
def test_a_foreign_file(path, part, kind, tmp_path):
    pq.write_table(TABLE, tmp_path / "t.parquet")
    content = {
        "empty": b"",
        "noise": bytes((i * 7919) % 256 for i in range(4000)),
        "parquet": (tmp_path / "t.parquet").read_bytes(),
        "zeros": bytes(4000),
        "magic only": b"\x00" * 100 + b"\xff" * 8 + b"\x00\x00\x02\x00LANC",
    }[kind]
    file = part(path)
    file.write_bytes(content)
    with pytest.raises((pilum.CorruptError, pilum.UnsupportedError)) as refusal:
        pilum.dataset(path).to_table()
    assert file.name in str(refusal.value)


def test_a_data_file_that_is_gone(path):
    file = data_file(path)
    file.unlink()
    with pytest.raises(pilum.PilumError, match=file.name):
        pilum.dataset(path).to_table()


def test_an_unknown_reader_flag(tmp_path):
    """The flag word of a real manifest is set to a bit that nobody knows."""
    from support.data_file import fields, prefixed

    golden = Golden("one_row")
    shutil.copytree(golden.uri, tmp_path / "t")
    file = manifest(tmp_path / "t")
    content = file.read_bytes()
    at = int.from_bytes(content[-16:-8], "little")
    message = prefixed(content, at)
    assert not [number for number, _ in fields(message) if number == 9]
    changed = message + b"\x48" + b"\x80\x80\x80\x80\x80\x80\x80\x80\x40"  # field 9, a varint: bit 62
    file.write_bytes(content[:at] + len(changed).to_bytes(4, "little") + changed + content[-16:])
    with pytest.raises(pilum.UnsupportedError) as refusal:
        pilum.dataset(tmp_path / "t")
    assert str(tmp_path / "t") in str(refusal.value)
    with pytest.raises(pilum.UnsupportedError):
        pilum.write_dataset(golden.arrow("expected.arrow"), tmp_path / "t", mode="append")


def test_mixed_naming_of_versions(path):
    shutil.copy(manifest(path), path / "_versions" / "2.manifest")
    with pytest.raises((pilum.CorruptError, pilum.UnsupportedError), match=r"naming|scheme|mixed"):
        pilum.dataset(path)


@pytest.mark.parametrize(
    "use",
    [
        lambda ds: ds.to_table(["n", "nope"]),
        lambda ds: ds.take([0], ["nope"]),
        lambda ds: ds.to_table(filter="nope > 3"),
        lambda ds: ds.count_rows("nope IS NULL"),
    ],
    ids=["scan", "take", "filter", "count"],
)
def test_an_unknown_column_is_named_beside_those_there_are(path, use):
    with pytest.raises(pilum.InvalidInputError) as refusal:
        use(pilum.dataset(path))
    assert "nope" in str(refusal.value)


@pytest.mark.parametrize(
    "condition", ["n >", "n > 'text'", "drop table x", "n > 1 AND", "s LIKE 3", "unknown_function(n) = 1", "(", "n"]
)
def test_a_condition_that_does_not_fit(path, condition):
    with pytest.raises((pilum.InvalidInputError, pilum.UnsupportedError)):
        pilum.dataset(path).to_table(filter=condition)


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([3], "position 3 is out of range"),
        ([0, 1, -1], r"-1 \(element 2\)"),
        ([2**40], "1099511627776"),
        ([2**64], r"18446744073709551616 \(element 0\)"),
        ([0.5], r"0\.5 \(element 0\) is no integer"),
        (np.array([0.0]), r"0\.0 \(element 0\) is no integer"),
        ([0, "a"], r"'a' \(element 1\) is no integer"),
        ([None], r"None \(element 0\) is no integer"),
        (pa.array([0, None]), r"None \(element 1\) is no integer"),
        ([True], r"True \(element 0\) is no integer"),
        (np.array([True]), r"True \(element 0\) is no integer"),
        (7, "sequence of integers, not a int"),
    ],
)
def test_positions_that_are_no_rows(path, places, told):
    with pytest.raises(pilum.InvalidInputError, match=told) as refusal:
        pilum.dataset(path).take(places)
    if told.startswith("position 3"):
        assert str(path) in str(refusal.value)


@pytest.mark.parametrize(
    ("appended", "named"),
    [
        (pa.table({"n": [1]}), "column `s` is missing"),
        (pa.table({"n": [1], "s": ["a"], "extra": [1]}), "column `extra` is not in the table"),
        (pa.table({"n": pa.array([1.5]), "s": ["a"]}), "column `n`, row 0: 1.5 (double) cannot become int64"),
        (pa.table({"n": ["text"], "s": ["a"]}), "column `n`: (string) cannot become int64"),
        (pa.table({"N": [1], "s": ["a"]}), "column `N` is not in the table"),
    ],
    ids=["missing", "extra", "value", "other type", "other name"],
)
def test_a_mismatched_schema_is_refused_by_column(path, appended, named):
    with pytest.raises(pilum.InvalidInputError) as refusal:
        pilum.dataset(path).append(appended, missing="error")
    assert named in str(refusal.value)
    assert_untouched(path)
    assert len(list((path / "data").iterdir())) == 1


def test_a_null_where_none_may_be(tmp_path):
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, None])], schema=schema)
    with pytest.raises(pilum.InvalidInputError) as refusal:
        pilum.write_dataset(batch, tmp_path / "t")
    assert "`n`, row 2" in str(refusal.value)
    assert not list(tmp_path.rglob("*.manifest"))


@pytest.mark.parametrize(
    "column",
    [
        pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"])),
    ],
    ids=["union", "run-end encoded"],
)
def test_a_type_that_cannot_be_stored_is_refused_by_name(tmp_path, column):
    with pytest.raises((pilum.UnsupportedError, pilum.InvalidInputError), match="odd"):
        pilum.write_dataset(pa.table({"odd": column}), tmp_path / "t")
    assert not list(tmp_path.rglob("*.manifest"))


@pytest.mark.parametrize("name", ["_rowid", "_rowaddr"])
def test_a_column_named_as_the_row_id_is_refused(tmp_path, name):
    rows = pa.table({"k": [1], name: [7]})
    for mode in ("create", "overwrite"):
        with pytest.raises(pilum.InvalidInputError, match=name):
            pilum.write_dataset(rows, tmp_path / "t", mode=mode)
        with pytest.raises(pilum.InvalidInputError, match=name):
            pilum.fragments.write(rows, tmp_path / "t", mode=mode)
    assert not list(tmp_path.rglob("*.manifest"))
    # Below a struct it cannot be mistaken for anything.
    inner = pa.table({"s": pa.array([{name: 7}])})
    assert_same(pilum.write_dataset(inner, tmp_path / "t").to_table(filter=f"s.{name} = 7"), inner)


@pytest.mark.parametrize(
    "option",
    [
        {"mode": "upsert"}, {"compat": "lossy"}, {"durability": "some"}, {"max_rows_per_file": 0}, {"max_rows_per_page": 0},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_that_does_not_exist(tmp_path, option):
    with pytest.raises(pilum.InvalidInputError) as refusal:
        pilum.write_dataset(TABLE, tmp_path / "t", **option)
    assert next(iter(option)) in str(refusal.value) or str(next(iter(option.values()))) in str(refusal.value)


@pytest.mark.parametrize("uri", ["nowhere://bucket/t", "http:", "s3://", ""])
def test_an_address_that_leads_nowhere(uri):
    with pytest.raises((pilum.InvalidInputError, pilum.UnsupportedError, pilum.NotFoundError, pilum.StoreError)):
        pilum.dataset(uri)


def test_secrets_are_not_shown(tmp_path):
    secret = "canary-0815"
    options = {"aws_secret_access_key": secret}
    task = pilum.ScanTask("s3://bucket/t", 1, (0,), pilum.scanner.ScanOptions(), options)
    assert secret not in repr(task)
    with pytest.raises(pilum.PilumError) as refusal:
        pilum.dataset(tmp_path / "missing", storage_options=options)
    assert secret not in str(refusal.value)
    assert secret not in repr(refusal.value)


def test_an_unwritable_destination(path):
    """A file stands where a folder is needed: that stops root as well."""
    shutil.rmtree(path / "_transactions", ignore_errors=True)
    (path / "_transactions").write_text("in the way")
    folder = path.parent / "file"
    folder.write_text("no folder")
    with pytest.raises(
        (pilum.StoreError, pilum.AlreadyExistsError, pilum.NotFoundError, pilum.InvalidInputError), match="file"
    ):
        pilum.write_dataset(TABLE, folder / "t")
    with pytest.raises(pilum.StoreError, match=str(path)):
        pilum.dataset(path).append(TABLE)
    assert_untouched(path)


def test_a_folder_without_permission():
    """As nobody on the file system, since root may write anywhere."""
    with tempfile.TemporaryDirectory(prefix="pilum-") as folder:
        path = Path(folder) / "t"
        pilum.write_dataset(TABLE, path)
        everything = [Path(folder), path, *path.rglob("*")]
        for place in everything:
            place.chmod(0o555 if place.is_dir() else 0o444)
        told = python(
            f"""
            import ctypes, os
            import pilum, pyarrow as pa
            rows = pa.table({{"n": pa.array([1]), "s": ["a"]}})
            if os.geteuid() == 0:
                ctypes.CDLL(None).setfsuid(65534)
            try:
                pilum.dataset({str(path)!r}).append(rows)
            except pilum.StoreError as error:
                print("refused", error)
            """
        )
        for place in everything:
            place.chmod(0o755 if place.is_dir() else 0o644)
        assert told.stdout.startswith("refused"), told.stderr
        assert str(path) in told.stdout
        assert_untouched(path)


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)


@pytest.fixture
def full_disk(tmp_path):
    """A file system of one megabyte, where one may be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = AS_ROOT and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    yield folder, mounted
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


BIG = pa.table({"n": pa.array(range(400_000), pa.int64())})


def test_a_full_disk(full_disk):
    folder, mounted = full_disk
    path = folder / "t"
    pilum.write_dataset(TABLE, path)
    if mounted:
        with pytest.raises(pilum.StoreError, match=str(path)):
            pilum.write_dataset(BIG, path, mode="overwrite")
    else:
        # No mount allowed: a process that may write files of no more than a megabyte meets the same error at the same place.
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        try:
            with pytest.raises(pilum.StoreError, match=str(path)):
                pilum.write_dataset(BIG, path, mode="overwrite")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, ignored)
    assert_untouched(path)
    kept = " ".join(str(fragment.files) for fragment in pilum.dataset(path).fragments)
    for leftover in (path / "data").iterdir():
        if leftover.name not in kept:
            leftover.unlink()
    assert pilum.write_dataset(TABLE, path, mode="overwrite").version == 2


def test_a_full_disk_by_limit(tmp_path):
    """The same by a limit on the size of files, in a process of its own: it works everywhere."""
    pilum.write_dataset(TABLE, tmp_path / "t")
    told = python(
        f"""
        import resource, signal
        import pilum, pyarrow as pa
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        table = pa.table({{"n": pa.array(range(400_000), pa.int64()), "s": [""] * 400_000}})
        try:
            pilum.dataset({str(tmp_path / "t")!r}).append(table)
        except pilum.StoreError as error:
            print("refused", error)
        """
    )
    assert told.stdout.startswith("refused"), told.stderr
    assert str(tmp_path / "t") in told.stdout
    assert_untouched(tmp_path / "t")
