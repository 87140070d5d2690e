"""Credentials: renewed before they expire, and sent to no other host than the one they are for."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.location import Location, Renewing
from support.stores import Fate, Moto, Request, moto_server, options, proxy, serving

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with moto_server() as server:
        yield server


class Keys:
    """Notes which key id each request was signed with."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, request: Request) -> Fate:
        signed = request.headers.get("authorization", "")
        self.seen.append(signed.partition("Credential=")[2].partition("/")[0])
        return "pass"


class Issuer:
    """Gives out numbered keys that are good for so many seconds; without a number, as long as they are asked for."""

    def __init__(self, url: str, seconds: float | None) -> None:
        self.url, self.seconds, self.asked = url, seconds, 0

    def __call__(self) -> dict[str, str]:
        self.asked += 1
        given = options(self.url, aws_access_key_id=f"key{self.asked}")
        if self.seconds is not None:
            given["expires_at_millis"] = str(int((time.time() + self.seconds) * 1000))
        return given


def test_options_are_asked_for_again_before_they_expire(moto: Moto) -> None:
    keys, uri = Keys(), f"s3://{moto.new_bucket()}/t"
    with proxy(moto.url, keys) as url:
        lasting = Issuer(url, 3600)
        ds = pilum.write_dataset(ROWS, uri, storage_options=lasting)
        assert ds.count_rows() == ds.to_table().num_rows == 3
        assert ds.delete("id = 1").count_rows() == 2
        assert (lasting.asked, set(keys.seen)) == (1, {"key1"})

        # Good for less than a minute: asked for before every use, through one handle.
        keys.seen.clear()
        short = Issuer(url, 30)
        ds = pilum.dataset(uri, storage_options=short)
        assert set(keys.seen) == {"key1"}
        for _ in range(3):
            before = short.asked
            keys.seen.clear()
            assert ds.take([0]).num_rows == 1
            assert short.asked > before
            assert set(keys.seen) == {f"key{short.asked}"}
        scanner, tags = ds.scanner(), ds.tags
        for use in (scanner.to_table, scanner.count_rows, tags.list, scanner.to_table):
            before = short.asked
            keys.seen.clear()
            use()
            assert all(int(key.removeprefix("key")) > before for key in keys.seen)
        assert keys.seen
        keys.seen.clear()
        assert ds.append(ROWS).version == 3
        assert max(int(key.removeprefix("key")) for key in keys.seen) > before
        assert (ds.version, ds.uri) == (2, uri)


def test_options_that_stay_the_same_open_nothing_anew(moto: Moto) -> None:
    keys, uri = Keys(), f"s3://{moto.new_bucket()}/t"
    with proxy(moto.url, keys) as url:
        asked: list[int] = []

        def ask() -> dict[str, str]:
            asked.append(1)
            return options(url)

        ds = pilum.write_dataset(ROWS, uri, storage_options=ask)
        ds.to_table()
        keys.seen.clear()
        assert ds.count_rows() == 3
        assert keys.seen == []
        assert len(asked) >= 3


def issue() -> dict[str, str]:
    return {"mmap": "false"}


def test_a_handle_that_is_sent_asks_at_its_destination(tmp_path: Any) -> None:
    ds = pilum.write_dataset(ROWS, tmp_path / "t", storage_options=issue)
    again = pickle.loads(pickle.dumps(ds))
    assert again == ds
    assert again.to_table().num_rows == 3
    (task,) = pickle.loads(pickle.dumps(ds.scanner().tasks(1)))
    assert task.to_reader().read_all().num_rows == 3
    assert "mmap" not in repr(task) + repr(Location.of("x", issue)) + repr(Renewing(issue))


def test_a_failing_issuer_is_heard(tmp_path: Any) -> None:
    def refuse() -> dict[str, str]:
        raise PermissionError("no ticket")

    with pytest.raises(PermissionError, match="no ticket"):
        pilum.dataset(tmp_path / "t", storage_options=refuse)
    with pytest.raises(pilum.InvalidInputError, match="expires_at_millis"):
        pilum.dataset(tmp_path / "t", storage_options=lambda: {"expires_at_millis": "c4n4ry"})


def test_credentials_of_a_container_are_renewed_as_they_expire(moto: Moto, tmp_path: Any) -> None:
    keys, uri = Keys(), f"s3://{moto.new_bucket()}/t"
    issued: list[str] = []

    class Agent(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            assert self.headers["Authorization"] == "ticket"
            issued.append(f"container{len(issued)}")
            soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 20))
            given = {"AccessKeyId": issued[-1], "SecretAccessKey": "s", "Token": "t", "Expiration": soon}
            body = json.dumps(given).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    (tmp_path / "ticket").write_text("ticket")
    with serving(Agent) as agent, proxy(moto.url, keys) as url:
        storage = {
            "aws_endpoint": url,
            "allow_http": "true",
            "aws_region": "us-east-1",
            "aws_container_credentials_full_uri": f"{agent}/credentials",
            "aws_container_authorization_token_file": str(tmp_path / "ticket"),
        }
        ds = pilum.write_dataset(ROWS, uri, storage_options=storage)
        for _ in range(3):
            # They are good for less than the client wants, so it asks again, but never twice within 100 ms.
            time.sleep(0.3)
            ds = ds.append(ROWS)
    assert ds.count_rows() == 12
    assert len(set(issued)) > 3
    # All that was signed with was issued.
    assert set(keys.seen) <= set(issued)
    assert len(set(keys.seen)) > 3


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_follow_no_redirect_to_another_host(moto: Moto, status: int) -> None:
    strangers: list[str] = []

    class Stranger(BaseHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

        def serve(self) -> None:
            strangers.append(f"{self.command} {dict(self.headers.items())}")
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve  # noqa: N815 - names that the base class looks for

    class Door(BaseHTTPRequestHandler):
        elsewhere = ""

        def log_message(self, *args: Any) -> None:
            pass

        def serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Location", f"{self.elsewhere}{self.path}&secret=c4n4ry")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve  # noqa: N815 - names that the base class looks for

    with serving(Stranger) as stranger, serving(Door) as door:
        places = {
            "s3://bucket/t": options(door, aws_session_token="ticket-0123", max_retries="0"),
            "s3+ddb://bucket/t?ddbTableName=t": options(door, dynamodb_endpoint=door, max_retries="0"),
            "az://bucket/t": {
                "azure_storage_account_name": "a",
                "azure_storage_endpoint": f"{door}/a",
                "azure_storage_token": "ticket-0123",
                "allow_http": "true",
                "max_retries": "0",
            },
        }
        # Another name, another port: both are another host.
        for elsewhere in (stranger, stranger.replace("127.0.0.1", "localhost")):
            Door.elsewhere = elsewhere
            for uri, storage in places.items():
                for work in (
                    pilum.dataset,
                    lambda uri, storage_options: pilum.write_dataset(ROWS, uri, storage_options=storage_options),
                ):
                    with pytest.raises(pilum.PilumError) as error:
                        work(uri, storage_options=storage)
                    assert "c4n4ry" not in str(error.value)
                    assert "is not sent the credentials" in str(error.value)
    assert strangers == []


def test_a_redirect_on_the_same_host_is_followed(moto: Moto) -> None:
    bucket = moto.new_bucket()
    uri, seen = f"s3://{bucket}/t", []
    pilum.write_dataset(ROWS, uri, storage_options=moto.options())

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            import http.client

            if not self.path.startswith("/inner"):
                seen.append(self.path)
                self.send_response(307)
                self.send_header("Location", f"/inner{self.path}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(moto.url.removeprefix("http://"), timeout=30)
            login = {"authorization": self.headers["authorization"]}
            connection.request("GET", self.path.removeprefix("/inner"), headers=login)
            found = connection.getresponse()
            body = found.read()
            connection.close()
            self.send_response(found.status)
            for name in ("ETag", "Last-Modified", "Content-Range"):
                if found.headers[name]:
                    self.send_header(name, found.headers[name])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Door) as door:
        assert pilum.dataset(uri, storage_options=options(door)).version == 1
    assert seen
