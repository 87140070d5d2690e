"""Object stores for the tests: moto's S3 and DynamoDB in a thread, and a proxy that spoils answers."""

from __future__ import annotations

import http.client
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3

BUCKET = "bucket"
REGION = "us-east-1"
DYNAMODB_TABLE = "versions"


# Servers of one process share what they hold.
_NUMBERS = itertools.count()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that tests cut are no news."""


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Run a handler in a thread and give its URL."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Moto:
    """moto's server, with clients that look at it past pilum."""

    url: str
    s3: Any
    dynamodb: Any

    def new_bucket(self) -> str:
        """Return a bucket that no other test has."""
        name = f"{BUCKET}-{next(_NUMBERS)}"
        self.s3.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str) -> list[str]:
        """Return the keys of all objects."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def rows(self, base: str) -> dict[int, dict[str, Any]]:
        """Return the rows of a table in the register, by version."""
        items = self.dynamodb.scan(TableName=DYNAMODB_TABLE, ConsistentRead=True)["Items"]
        return {int(item["version"]["N"]): item for item in items if item["base_uri"]["S"] == base}

    def options(self, **more: str) -> dict[str, str]:
        """Return storage options for this server."""
        return options(self.url, dynamodb_endpoint=self.url) | more


def options(endpoint: str, **more: str) -> dict[str, str]:
    """Return storage options for a local S3."""
    return {
        "aws_endpoint": endpoint,
        "allow_http": "true",
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_region": REGION,
    } | more


@contextmanager
def moto_server() -> Iterator[Moto]:
    """Run moto in a thread, with the DynamoDB table of the registers."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    login = {
        "endpoint_url": url,
        "region_name": REGION,
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
    }
    dynamodb = boto3.client("dynamodb", **login)
    tables = dynamodb.list_tables()["TableNames"]
    create = dynamodb.create_table if DYNAMODB_TABLE not in tables else dict
    create(
        TableName=DYNAMODB_TABLE,
        KeySchema=[
            {"AttributeName": "base_uri", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "base_uri", "AttributeType": "S"},
            {"AttributeName": "version", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    try:
        yield Moto(url, boto3.client("s3", **login), dynamodb)
    finally:
        server.stop()


@dataclass
class Request:
    """What a client asked the proxy for."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def is_manifest(self) -> bool:
        """Whether it writes a manifest: the instant of a commit."""
        return self.method == "PUT" and self.path.split("?")[0].endswith(".manifest")

    @property
    def target(self) -> str:
        """The operation asked of DynamoDB."""
        return self.headers.get("x-amz-target", "").rpartition(".")[2]


Answer = tuple[int, bytes]
# What happens to a request: "pass"; "lose" it before it is served, or "forget" its answer after; "slow"; or an answer.
Fate = str | Answer


@contextmanager
def proxy(upstream: str, decide: Callable[[Request], Fate]) -> Iterator[str]:  # noqa: C901 - a server in one place
    """Stand before a server and spoil what `decide` says."""
    host = upstream.removeprefix("http://")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def cut(self) -> None:
            self.close_connection = True
            self.connection.shutdown(2)

        def answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in {"connection", "transfer-encoding", "content-length", "keep-alive"}:
                    self.send_header(name, value)
            sizes = [value for name, value in headers if name.lower() == "content-length"]
            self.send_header("Content-Length", sizes[0] if self.command == "HEAD" and sizes else str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers)
            fate = decide(request)
            if isinstance(fate, tuple):
                self.answer(fate[0], [], fate[1])
                return
            if fate == "lose":
                self.cut()
                return
            if fate == "slow":
                time.sleep(0.3)
            connection = http.client.HTTPConnection(host, timeout=30)
            try:
                connection.request(self.command, self.path, body, request.headers)
                found = connection.getresponse()
                content = found.read()
                if fate == "forget":
                    self.cut()
                else:
                    self.answer(found.status, found.getheaders(), content)
            finally:
                connection.close()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve  # noqa: N815 - names that the base class looks for

    with serving(Handler) as url:
        yield url
