"""Tables in Google's and Azure's stores: conditional puts, lost answers, refusals; what requests cost in each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import pilum
from support.buckets import Bucket, bucket_server

if TYPE_CHECKING:
    from support.stores import Fate, Request

Place = tuple[Bucket, str, dict[str, str]]


@pytest.fixture(params=["gs", "az"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with bucket_server(request.param) as served:
        yield served


def table(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array([f"row {i}" for i in ids])})


def ids(ds: pilum.Dataset) -> list[int]:
    return sorted(ds.to_table().column("id").to_pylist())


def test_a_life_of_a_table(place: Place) -> None:
    bucket, uri, storage = place
    ds = pilum.write_dataset(table(*range(100)), uri, storage_options=storage)
    ds.append(table(*range(100, 150))).delete("id % 2 = 0").update({"s": "'neu'"}, where="id < 10")
    newest = pilum.dataset(uri, storage_options=storage)
    assert newest.version == 4
    assert ids(newest) == [i for i in range(150) if i % 2]
    assert newest.to_table(filter="s = 'neu'").num_rows == 5
    newest.tags.create("x")
    assert pilum.dataset(uri, version="x", storage_options=storage).version == 4
    report = newest.verify()
    assert report.ok, report.problems
    assert report.orphans == []
    assert all(key.startswith("some/table/") for key in bucket.objects)
    # A manifest is written once, and only if it is absent.
    manifests = {key: count for key, count in bucket.generations.items() if key.endswith(".manifest")}
    assert set(manifests.values()) == {1}
    conditions = {"if-none-match", "x-goog-if-generation-match"}
    assert all(conditions & set(request.headers) for request in bucket.requests if request.is_manifest)
    with pytest.raises(pilum.AlreadyExistsError):
        pilum.write_dataset(table(1), uri, storage_options=storage)


def test_racing_writers_all_count(place: Place) -> None:
    _, uri, storage = place
    pilum.write_dataset(table(0), uri, storage_options=storage)
    failures: list[BaseException] = []

    def work(writer: int) -> None:
        try:
            for number in range(4):
                pilum.write_dataset(table(1 + writer * 4 + number), uri, mode="append", storage_options=storage)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    newest = pilum.dataset(uri, storage_options=storage)
    assert (newest.version, ids(newest)) == (13, list(range(13)))
    assert newest.verify().orphans == []


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(
    "fate",
    ["lose", "forget", (503, b"busy"), (500, b""), (409, b"conflict"), (412, b"condition"), (429, b"slower")],
    ids=str,
)
def test_spoiled_answers_to_a_commit_lose_and_double_nothing(place: Place, fate: Fate, times: int) -> None:
    bucket, uri, storage = place
    pilum.write_dataset(table(0), uri, storage_options=storage)
    spoiled: list[Request] = []

    def decide(request: Request) -> Fate:
        if request.is_manifest and len(spoiled) < times:
            spoiled.append(request)
            return fate
        return "pass"

    bucket.decide = decide
    quick = storage | {"max_retries": "2", "retry_timeout_seconds": "20"}
    ds = pilum.write_dataset(table(1), uri, mode="append", storage_options=quick)
    bucket.decide = lambda _: "pass"
    assert 1 <= len(spoiled) <= times
    assert ds.version == 2
    newest = pilum.dataset(uri, storage_options=storage)
    assert (newest.version, ids(newest)) == (2, [0, 1])
    assert newest.verify().orphans == []


def test_a_commit_that_is_never_answered_is_unknown_and_can_be_asked_for(place: Place) -> None:
    bucket, uri, storage = place
    pilum.write_dataset(table(0), uri, storage_options=storage)
    told: list[Request] = []

    def decide(request: Request) -> Fate:
        # The commit takes effect, and from then on nobody answers any more.
        if request.is_manifest or told:
            told.append(request)
            return "forget" if request.is_manifest else "lose"
        return "pass"

    bucket.decide = decide
    options = storage | {"max_retries": "0"}
    with pytest.raises(pilum.CommitUnknownError) as unknown:
        pilum.write_dataset(table(1), uri, mode="append", commit_id="load", storage_options=options)
    bucket.decide = lambda _: "pass"
    assert unknown.value.token == "load"
    again = pilum.write_dataset(table(1), uri, mode="append", commit_id="load", storage_options=storage)
    assert again.version == 2
    assert ids(pilum.dataset(uri, storage_options=storage)) == [0, 1]


def test_a_store_that_refuses_is_a_plain_failure(place: Place) -> None:
    bucket, uri, storage = place
    pilum.write_dataset(table(0), uri, storage_options=storage)
    before = dict(bucket.objects)
    bucket.decide = lambda request: (403, b"no") if request.is_manifest else "pass"
    with pytest.raises(pilum.StoreError):
        pilum.write_dataset(table(1), uri, mode="append", storage_options=storage)
    bucket.decide = lambda _: "pass"
    assert bucket.objects == before


def test_the_store_is_trusted(place: Place) -> None:
    bucket, uri, storage = place
    found = pilum.doctor(uri, rounds=2, storage_options=storage)
    assert found, found
    assert bucket.objects == {}


def count(bucket: Bucket, work: Callable[[], object]) -> list[str]:
    bucket.requests.clear()
    work()
    return [f"{request.method} {request.path.rpartition('/')[2][-9:]}" for request in bucket.requests]


def test_requests_do_not_grow_with_the_history(place: Place) -> None:
    bucket, uri, storage = place
    rows = pa.table({"id": list(range(5000)), "s": [f"row {i}" for i in range(5000)]})
    pilum.write_dataset(rows, uri, storage_options=storage)
    for _ in range(2):
        opened = count(bucket, lambda: pilum.dataset(uri, storage_options=storage))
        assert len(opened) == 2, opened
        ds = pilum.dataset(uri, storage_options=storage)
        taken = count(bucket, lambda ds=ds: ds.take([0], columns=["id"]))
        # Azure cannot be asked for the end of an object: one question for its size.
        assert len([it for it in taken if it.startswith("GET")]) <= 2 + (bucket.dialect == "az"), taken
        ds = pilum.dataset(uri, storage_options=storage)
        appended = count(bucket, lambda ds=ds: ds.append(table(1)))
        # Opening the newest version, three objects, and a look at the listing before the commit.
        assert sorted(it.split()[0] for it in appended) == ["GET", "GET", "GET", "PUT", "PUT", "PUT"], appended
        for number in range(20):
            ds = pilum.write_dataset(table(number), uri, mode="append", storage_options=storage)
