"""Tables in S3, with DynamoDB and without: races, lost answers, refusals, and the peer on the same table."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator

import lance
import pyarrow as pa
import pytest

import pilum
from support.stores import DYNAMODB_TABLE, Fate, Moto, Request, moto_server, options, proxy


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with moto_server() as server:
        yield server


def table(*ids: int) -> pa.Table:
    names = [None if i % 3 == 0 else f"row {i}" for i in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array(names, pa.string())})


def ids(ds: pilum.Dataset) -> list[int]:
    return sorted(ds.to_table().column("id").to_pylist())


def test_every_kind_of_change_in_s3(moto: Moto) -> None:
    bucket = moto.new_bucket()
    uri, storage = f"s3://{bucket}/some folder/täble", moto.options()
    ds = pilum.write_dataset(table(*range(100)), uri, storage_options=storage)
    ds = ds.append(table(*range(100, 150)))
    deleted = ds.delete("id % 2 = 0")
    updated = deleted.update({"s": "'neu'"}, where="id < 10")
    assert updated.compact().fragments_removed > 0
    newest = pilum.dataset(uri, storage_options=storage)
    assert ids(newest) == [i for i in range(150) if i % 2]
    assert newest.to_table(filter="s = 'neu'").num_rows == 5
    assert ids(pilum.dataset(uri, version=2, storage_options=storage)) == list(range(150))
    newest.tags.create("five")
    assert pilum.dataset(uri, version="five", storage_options=storage).version == newest.version
    with pytest.raises(pilum.AlreadyExistsError):
        newest.tags.create("five")
    with pytest.raises(pilum.AlreadyExistsError):
        pilum.write_dataset(table(1), uri, storage_options=storage)
    report = newest.verify()
    assert report.ok, report.problems
    assert [key for key in moto.keys(bucket) if ".tmp" in key] == []
    assert all(key.startswith("some folder/täble/") for key in moto.keys(bucket))


def append_from_threads(uri: str, storage: dict[str, str], writers: int, each: int) -> None:
    start, failures = threading.Barrier(writers), []

    def work(writer: int) -> None:
        start.wait()
        try:
            for number in range(each):
                mine = table(1 + writer * each + number)
                pilum.write_dataset(mine, uri, mode="append", storage_options=storage)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("kind", ["s3", "s3+ddb"])
def test_racing_writers_all_count(moto: Moto, kind: str) -> None:
    bucket = moto.new_bucket()
    uri = f"s3://{bucket}/t" if kind == "s3" else f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}"
    storage = moto.options()
    pilum.write_dataset(table(0), uri, storage_options=storage)
    append_from_threads(uri, storage, 4, 4)
    ds = pilum.dataset(uri, storage_options=storage)
    assert ds.version == 17
    assert ids(ds) == list(range(17))
    report = ds.verify()
    assert report.ok
    assert report.orphans == []


class Spoiler:
    """Spoils what a test says, and counts what it spoiled."""

    def __init__(self, fate: Fate, times: int) -> None:
        self.fate, self.left, self.spoiled = fate, times, 0
        self.is_meant = lambda request: request.is_manifest

    def __call__(self, request: Request) -> Fate:
        if self.left and self.is_meant(request):
            self.left -= 1
            self.spoiled += 1
            return self.fate
        return "pass"


@pytest.mark.parametrize("retries", ["0", "3"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "fate",
    [
        "lose",
        "forget",
        "slow",
        (503, b"<Error><Code>SlowDown</Code></Error>"),
        (500, b""),
        (409, b"<Error><Code>ConditionalRequestConflict</Code></Error>"),
        (412, b"<Error><Code>PreconditionFailed</Code></Error>"),
    ],
    ids=str,
)
def test_spoiled_answers_to_a_commit_lose_and_double_nothing(moto: Moto, fate: Fate, times: int, retries: str) -> None:
    bucket = moto.new_bucket()
    uri = f"s3://{bucket}/t"
    pilum.write_dataset(table(0), uri, storage_options=moto.options())
    spoil = Spoiler(fate, times)
    with proxy(moto.url, spoil) as url:
        ds = pilum.write_dataset(
            table(1), uri, mode="append", storage_options=options(url, max_retries=retries, retry_timeout_seconds="20")
        )
    # A commit that took effect although its answer was forgotten is not sent twice.
    assert 1 <= spoil.spoiled <= times
    assert ds.version == 2
    newest = pilum.dataset(uri, storage_options=moto.options())
    assert newest.version == 2
    assert ids(newest) == [0, 1]
    assert newest.verify().orphans == []


def from_the_commit_on(fate: Fate) -> Callable[[Request], Fate]:
    """Return a decision: what becomes of a commit, after which nobody answers any more."""
    told: list[str] = []

    def decide(request: Request) -> Fate:
        if request.is_manifest or told:
            told.append(request.path)
            return fate if request.is_manifest else "lose"
        return "pass"

    return decide


def test_a_commit_that_is_never_answered_is_unknown_and_can_be_asked_for(moto: Moto) -> None:
    bucket = moto.new_bucket()
    uri = f"s3://{bucket}/t"
    pilum.write_dataset(table(0), uri, storage_options=moto.options())
    for fate, happened in (("lose", False), ("forget", True)):
        rows = table(1 if happened else 2)
        before = set(moto.keys(bucket))
        with proxy(moto.url, from_the_commit_on(fate)) as url, pytest.raises(pilum.CommitUnknownError) as unknown:
            pilum.write_dataset(
                rows, uri, mode="append", commit_id=f"id-{fate}", storage_options=options(url, max_retries="0")
            )
        assert unknown.value.token == f"id-{fate}"
        # Nothing was removed that the commit may need.
        assert {key.split("/")[1] for key in set(moto.keys(bucket)) - before} >= {"data", "_transactions"}
        version = pilum.dataset(uri, storage_options=moto.options()).version
        again = pilum.write_dataset(rows, uri, mode="append", commit_id=f"id-{fate}", storage_options=moto.options())
        assert again.version == (version if happened else version + 1)
    assert ids(pilum.dataset(uri, storage_options=moto.options())) == [0, 1, 2]


@pytest.mark.parametrize("statement", ["delete", "update", "add_columns", "compact"])
def test_a_statement_that_is_never_answered_is_told_by_its_id(moto: Moto, statement: str) -> None:
    uri = f"s3://{moto.new_bucket()}/t"
    for mode in ("create", "append"):
        pilum.write_dataset(pa.table({"a": [1, 2]}), uri, mode=mode, storage_options=moto.options())
    arguments = {"delete": ["a = 1"], "update": [{"a": "a + 1"}], "add_columns": [{"b": "a + 1"}], "compact": []}
    with proxy(moto.url, from_the_commit_on("lose")) as url:
        ds = pilum.dataset(uri, storage_options=options(url, max_retries="0"))
        with pytest.raises(pilum.CommitUnknownError) as unknown:
            getattr(ds, statement)(*arguments[statement], commit_id="mine")
    assert unknown.value.token == "mine"


@pytest.mark.parametrize(
    ("target", "fate", "commits"),
    [
        ("PutItem", "lose", True),
        ("PutItem", "forget", True),
        ("PutItem", "slow", True),
        ("PutItem", (500, b'{"__type": "InternalServerError"}'), True),
        ("PutItem", (400, b'{"__type": "x#ThrottlingException", "message": "later"}'), True),
        ("Query", "lose", True),
        ("PutItem", (400, b'{"__type": "x#AccessDeniedException", "message": "no"}'), False),
        ("Query", (400, b'{"__type": "x#ResourceNotFoundException", "message": "no"}'), False),
    ],
    ids=str,
)
def test_spoiled_answers_of_the_register(moto: Moto, target: str, fate: Fate, commits: bool) -> None:
    bucket = moto.new_bucket()
    uri = f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}"
    pilum.write_dataset(table(0), uri, storage_options=moto.options())
    spoil = Spoiler(fate, 1)
    spoil.is_meant = lambda request: request.target == target
    with proxy(moto.url, spoil) as url:
        storage = moto.options(dynamodb_endpoint=url)
        if commits:
            assert pilum.write_dataset(table(1), uri, mode="append", storage_options=storage).version == 2
        else:
            with pytest.raises(pilum.StoreError) as refusal:
                pilum.write_dataset(table(1), uri, mode="append", storage_options=storage)
            assert "no" in str(refusal.value)
            assert ("base_uri (S)" in str(refusal.value)) == (target == "Query")
    assert spoil.spoiled == 1
    newest = pilum.dataset(uri, storage_options=moto.options())
    assert ids(newest) == ([0, 1] if commits else [0])
    rows = moto.rows(bucket)
    assert len(rows) == newest.version
    assert all(row["path"]["S"].endswith(".manifest") for row in rows.values())


def test_a_writer_that_dies_between_the_stores_is_finished_by_a_reader(moto: Moto) -> None:
    bucket = moto.new_bucket()
    uri = f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}"
    pilum.write_dataset(table(0), uri, storage_options=moto.options())
    told: list[Request] = []

    def decide(request: Request) -> Fate:
        # The row is inserted, and then the writer is cut off from both stores.
        is_insert = request.target == "PutItem"
        if told or is_insert:
            told.append(request)
            return "pass" if len(told) == 1 else (403, b"")
        return "pass"

    with proxy(moto.url, decide) as url:
        storage = options(url, dynamodb_endpoint=url, max_retries="0")
        # The row decides, so this is a success, whatever comes after.
        assert pilum.write_dataset(table(1), uri, mode="append", storage_options=storage).version == 2
    staged = moto.rows(bucket)[2]["path"]["S"]
    assert ".manifest-" in staged
    assert staged in moto.keys(bucket)
    assert ids(pilum.dataset(uri, storage_options=moto.options())) == [0, 1]
    row = moto.rows(bucket)[2]
    assert row["path"]["S"].endswith("18446744073709551613.manifest")
    assert staged not in moto.keys(bucket)
    assert row["path"]["S"] in moto.keys(bucket)


def test_pylance_and_pilum_share_one_table(moto: Moto) -> None:
    bucket = moto.new_bucket()
    uri, storage = f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}", moto.options()
    pilum.write_dataset(table(0), uri, compat="lance", storage_options=storage)
    lance.write_dataset(table(1), uri, mode="append", storage_options=storage)
    pilum.dataset(uri, storage_options=storage).append(table(2))
    peer = lance.dataset(uri, storage_options=storage)
    peer.delete("id = 1")
    pilum.dataset(uri, storage_options=storage).delete("id = 0")
    assert peer.checkout_version(5).to_table().column("id").to_pylist() == [2]
    assert ids(pilum.dataset(uri, storage_options=storage)) == [2]
    rows = moto.rows(bucket)
    assert sorted(rows) == [1, 2, 3, 4, 5]
    shapes = {
        (tuple(sorted(row)), row["committer"]["S"], row["path"]["S"] in moto.keys(bucket)) for row in rows.values()
    }
    assert shapes == {(("base_uri", "committer", "path", "size", "version"), "lancedb", True)}
    assert {row["path"]["S"].rpartition("/")[0] for row in rows.values()} == {f"{bucket}/_versions"}


def test_pylance_and_pilum_append_at_the_same_time(moto: Moto) -> None:
    bucket = moto.new_bucket()
    uri, storage = f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}", moto.options()
    pilum.write_dataset(table(0), uri, compat="lance", storage_options=storage)
    failures: list[BaseException] = []

    def peer() -> None:
        try:
            for i in range(1, 7):
                lance.write_dataset(table(i), uri, mode="append", storage_options=storage)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=peer)
    thread.start()
    for i in range(7, 13):
        pilum.write_dataset(table(i), uri, mode="append", storage_options=storage)
    thread.join()
    assert failures == []
    assert ids(pilum.dataset(uri, storage_options=storage)) == list(range(13))
    assert sorted(lance.dataset(uri, storage_options=storage).to_table().column("id").to_pylist()) == list(range(13))
    lance.dataset(uri, storage_options=storage).validate()


def test_what_pylance_staged_pilum_finishes_and_the_other_way_round(moto: Moto) -> None:
    for reads in ("pilum", "lance"):
        bucket = moto.new_bucket()
        uri, storage = f"s3+ddb://{bucket}/{bucket}?ddbTableName={DYNAMODB_TABLE}", moto.options()
        write = lance.write_dataset if reads == "pilum" else pilum.write_dataset
        legacy = {"data_storage_version": "legacy"} if reads == "pilum" else {"compat": "lance"}
        write(table(0), uri, storage_options=storage, **legacy)
        write(table(1), uri, mode="append", storage_options=storage)
        # As its writer would have left it, had it died after the row.
        row = moto.rows(bucket)[2]
        final = row["path"]["S"]
        staged = f"{final}-0b0f6f2e-8c0f-4c57-9d1c-8a3f5a2b7c11"
        moto.s3.copy_object(Bucket=bucket, Key=staged, CopySource={"Bucket": bucket, "Key": final})
        moto.s3.delete_object(Bucket=bucket, Key=final)
        moto.dynamodb.put_item(TableName=DYNAMODB_TABLE, Item=row | {"path": {"S": staged}})
        if reads == "pilum":
            assert ids(pilum.dataset(uri, storage_options=storage)) == [0, 1]
        else:
            found = lance.dataset(uri, storage_options=storage).to_table().column("id").to_pylist()
            assert sorted(found) == [0, 1]
        assert moto.rows(bucket)[2]["path"]["S"] == final
        assert final in moto.keys(bucket)
        assert staged not in moto.keys(bucket)


def test_moto_keeps_the_rule_of_conditional_puts_one_at_a_time(moto: Moto) -> None:
    # How far the races above can be believed: many threads, one key each round, the winners counted.
    import boto3

    bucket, rounds, racers = moto.new_bucket(), 20, 4
    winners: Counter[int] = Counter()
    start = threading.Barrier(racers)

    def race() -> None:
        login = {"region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
        s3 = boto3.session.Session().client("s3", endpoint_url=moto.url, **login)
        for turn in range(rounds):
            start.wait()
            try:
                s3.put_object(Bucket=bucket, Key=f"k{turn}", Body=b"x", IfNoneMatch="*")
                winners[turn] += 1
            except s3.exceptions.ClientError:
                pass

    threads = [threading.Thread(target=race) for _ in range(racers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(winners[turn] for turn in range(rounds)) >= 1
    print("rounds with more than one winner:", sum(winners[turn] > 1 for turn in range(rounds)))
