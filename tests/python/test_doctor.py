"""`pilum doctor`: stores that can be trusted, and stores that lie."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pilum
from pilum.cli.commands import pilum as command
from support.stores import DYNAMODB_TABLE, Moto, Request, moto_server, options, proxy

NAMES = ["write", "replace", "create", "race", "list", "delete", "clock", "register"]


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with moto_server() as server:
        yield server


def failed(found: pilum.Diagnosis) -> list[str]:
    assert [check.name for check in found.checks] == NAMES
    assert found.trusted == bool(found) == all(check.ok for check in found.checks)
    return [check.name for check in found.checks if not check.ok]


def test_a_table_on_disk_is_not_touched(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    pilum.write_dataset(pa.table({"x": [1]}), uri)
    before = {path: path.stat().st_mtime_ns for path in uri.rglob("*") if path.is_file()}
    assert failed(pilum.doctor(uri)) == []
    assert {path: path.stat().st_mtime_ns for path in uri.rglob("*") if path.is_file()} == before
    assert failed(pilum.doctor(tmp_path / "absent")) == []
    assert not (tmp_path / "absent").exists()
    with pytest.raises(pilum.InvalidInputError):
        pilum.doctor("s3://bucket/t", storage_options={"no such": "option"})


def test_the_command(tmp_path: Path) -> None:
    def run(*arguments: str, code: int) -> str:
        done = CliRunner().invoke(command, ["doctor", *arguments])
        assert done.exit_code == code, done.output
        return done.stdout

    told = json.loads(run(str(tmp_path / "t"), "--json", code=0))
    assert told["trusted"] is True
    assert [check["name"] for check in told["checks"]] == NAMES
    assert list(told) == ["trusted", "uri", "checks"]
    assert "can be trusted" in run(str(tmp_path / "t"), "--rounds", "2", code=0)
    (tmp_path / "file").write_text("no folder")
    told = json.loads(run(str(tmp_path / "file"), "--json", code=1))
    assert told["trusted"] is False
    assert "cannot be trusted" in run(str(tmp_path / "file"), code=1)
    run("s3://user:word@bucket/t", code=2)
    run("ftp://host/t", code=2)
    run(str(tmp_path / "t"), "--rounds", "0", code=2)


def test_stores_that_keep_the_rules(moto: Moto) -> None:
    bucket = moto.new_bucket()
    rows = dict(moto.rows(bucket))
    for uri in (f"s3://{bucket}/t", f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}"):
        found = pilum.doctor(uri, rounds=3, storage_options=moto.options())
        assert failed(found) == [], found
        assert found.uri == uri
    assert moto.keys(bucket) == []
    assert moto.rows(bucket) == rows
    scanned = moto.dynamodb.scan(TableName=DYNAMODB_TABLE)["Items"]
    assert [item for item in scanned if "_doctor" in item["base_uri"]["S"]] == []


class Gateway:
    """Changes what passes between a client and a store, as gateways do."""

    def __init__(self, upstream: str) -> None:
        self.host = upstream.removeprefix("http://")
        self.looked: Counter[str] = Counter()
        self.changed = threading.Condition()

    def exists(self, request: Request) -> bool:
        connection = HTTPConnection(self.host, timeout=30)
        try:
            login = {"authorization": request.headers["authorization"]}
            connection.request("HEAD", request.path.split("?")[0], headers=login)
            return connection.getresponse().status == 200
        finally:
            connection.close()


def ignoring(gateway: Gateway, request: Request) -> str | tuple[int, bytes]:
    """Take every put, whatever its condition."""
    request.headers.pop("if-none-match", None)
    return "pass"


def looking_first(gateway: Gateway, request: Request) -> str | tuple[int, bytes]:
    """Look whether the object is there, and write it when somebody else has looked too, or nobody seems to."""
    if request.headers.pop("if-none-match", None):
        if gateway.exists(request):
            return (412, b"<Error><Code>PreconditionFailed</Code></Error>")
        with gateway.changed:
            gateway.looked[request.path] += 1
            gateway.changed.notify_all()
            gateway.changed.wait_for(lambda: gateway.looked[request.path] > 1, timeout=3)
    return "pass"


def without_listing(gateway: Gateway, request: Request) -> str | tuple[int, bytes]:
    """Answer listings from a time before anything was written."""
    if request.method == "GET" and "list-type=2" in request.path:
        return (200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
    return "pass"


def keeping_deleted(gateway: Gateway, request: Request) -> str | tuple[int, bytes]:
    """Say that objects are deleted, and keep them."""
    if request.method == "DELETE" or "delete" in request.path.partition("?")[2]:
        return (204, b"")
    return "pass"


def forbidding(gateway: Gateway, request: Request) -> str | tuple[int, bytes]:
    """Let nobody write."""
    return (403, b"<Error><Code>AccessDenied</Code></Error>") if request.method == "PUT" else "pass"


@contextmanager
def lying(moto: Moto, lie: Callable[[Gateway, Request], str | tuple[int, bytes]]) -> Iterator[dict[str, str]]:
    gateway = Gateway(moto.url)
    with proxy(moto.url, lambda request: lie(gateway, request)) as url:
        yield options(url, max_retries="0")


@pytest.mark.parametrize(
    ("lie", "expected"),
    [
        (ignoring, ["create", "race"]),
        (looking_first, ["race"]),
        (without_listing, ["list"]),
        (keeping_deleted, ["delete"]),
        (forbidding, NAMES),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_a_store_that_lies_is_caught(moto: Moto, lie: Callable[..., str], expected: list[str]) -> None:
    bucket = moto.new_bucket()
    with lying(moto, lie) as storage:
        found = pilum.doctor(f"s3://{bucket}/t", rounds=3, storage_options=storage)
        assert failed(found) == expected, found
        flags = [word for pair in storage.items() for word in ("--option", "=".join(pair))]
        done = CliRunner().invoke(command, ["doctor", f"s3://{bucket}/t", "--json", "--rounds", "2", *flags])
        assert done.exit_code == 1
        assert json.loads(done.stdout)["trusted"] is False
