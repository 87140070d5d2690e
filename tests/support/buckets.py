"""Small servers that speak as much of Google's and Azure's object stores as tables need, and keep their rules."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from support.stores import Fate, Request, serving

Reply = tuple[int, dict[str, str], bytes]


@dataclass
class Bucket:
    """The objects of one server: key to bytes, and how often each key was written."""

    dialect: str
    objects: dict[str, bytes] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    lock: Any = field(default_factory=threading.Lock)
    decide: Callable[[Request], Fate] = lambda _request: "pass"

    def serve(self, method: str, key: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Reply:
        """Answer one request, one at a time."""
        with self.lock:
            if method == "PUT":
                return self._put(key, headers, body)
            if method == "POST":
                return self._delete_many(body)
            if method == "DELETE":
                return (202 if self.objects.pop(key, None) is not None else 404, {}, b"")
            if not key or query.get("comp") == "list" or "list-type" in query:
                return self._list(query)
            return self._get(key, headers)

    def _put(self, key: str, headers: dict[str, str], body: bytes) -> Reply:
        is_new_only = headers.get("if-none-match") == "*" or headers.get("x-goog-if-generation-match") == "0"
        if is_new_only and key in self.objects:
            # Azure and its emulator differ in the number.
            return (412 if self.dialect == "gs" else 409, {}, b"<Error><Code>BlobAlreadyExists</Code></Error>")
        self.objects[key] = body
        self.times[key] = time.time()
        self.generations[key] = self.generations.get(key, 0) + 1
        return (201 if self.dialect == "az" else 200, self._about(key), b"")

    def _delete_many(self, body: bytes) -> Reply:
        """Answer a batch of Azure, which deletes no other way."""
        parts, number = [], 0
        for line in body.decode().splitlines():
            if not line.startswith("DELETE "):
                continue
            key = unquote(line.split()[1]).partition("/bucket/")[2]
            status = "202 Accepted" if self.objects.pop(key, None) is not None else "404 Not Found"
            head = f"--batchresponse_x\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
            parts.append(f"{head}HTTP/1.1 {status}\r\nx-ms-version: 2023-11-03\r\n\r\n")
            number += 1
        text = "\r\n".join([*parts, "--batchresponse_x--\r\n"])
        return (202, {"Content-Type": "multipart/mixed; boundary=batchresponse_x"}, text.encode())

    def _about(self, key: str) -> dict[str, str]:
        version = f"{self.generations[key]}-{len(self.objects[key])}"
        return {
            "ETag": f'"{version}"',
            "Last-Modified": formatdate(self.times[key], usegmt=True),
            "x-goog-generation": str(self.generations[key]),
            "x-ms-version-id": version,
        }

    def _get(self, key: str, headers: dict[str, str]) -> Reply:
        if key not in self.objects:
            return (404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        whole, about = self.objects[key], self._about(key)
        wanted = headers.get("range") or headers.get("x-ms-range")
        if wanted is None:
            return (200, about, whole)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        if not first and self.dialect == "az":
            return (400, {}, b"<Error><Code>InvalidHeaderValue</Code></Error>")
        start = int(first) if first else max(0, len(whole) - int(last))
        end = min(int(last) + 1 if first and last else len(whole), len(whole))
        if start >= len(whole):
            return (416, {}, b"")
        return (206, about | {"Content-Range": f"bytes {start}-{end - 1}/{len(whole)}"}, whole[start:end])

    def _list(self, query: dict[str, str]) -> Reply:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        found = sorted(key for key in self.objects if key.startswith(prefix))
        if delimiter:
            found = [key for key in found if delimiter not in key[len(prefix) :]]
        return (
            200,
            {"Content-Type": "application/xml"},
            (self._as_google if self.dialect == "gs" else self._as_azure)(found),
        )

    def _as_google(self, keys: list[str]) -> bytes:
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects[key])}</Size>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(self.times[key]))}</LastModified>"
            f'<ETag>"{self.generations[key]}"</ETag></Contents>'
            for key in keys
        )
        return f"<ListBucketResult>{entries}<IsTruncated>false</IsTruncated></ListBucketResult>".encode()

    def _as_azure(self, keys: list[str]) -> bytes:
        entries = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            f"<Last-Modified>{formatdate(self.times[key], usegmt=True)}</Last-Modified>"
            f"<Content-Length>{len(self.objects[key])}</Content-Length><Content-Type>x/y</Content-Type>"
            f"<Etag>{self.generations[key]}</Etag></Properties></Blob>"
            for key in keys
        )
        body = f"<EnumerationResults><Blobs>{entries}</Blobs><NextMarker /></EnumerationResults>"
        return body.encode()


@contextmanager
def bucket_server(dialect: str) -> Iterator[tuple[Bucket, str, dict[str, str]]]:
    """Run a server of one dialect, `gs` or `az`; give its bucket, a URI of a table in it, and the storage options."""
    bucket = Bucket(dialect)
    depth = 1 if dialect == "gs" else 2

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def cut(self) -> None:
            self.close_connection = True
            self.connection.shutdown(2)

        def serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            url = urlsplit(self.path)
            key = "/".join(unquote(url.path).split("/")[1 + depth :])
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
            request = Request(self.command, unquote(url.path), headers)
            bucket.requests.append(request)
            fate = bucket.decide(request)
            if fate == "lose":
                self.cut()
                return
            if isinstance(fate, tuple):
                reply: Reply = (fate[0], {}, fate[1])
            else:
                reply = bucket.serve(self.command, key, query, headers, body)
            if fate == "forget":
                self.cut()
                return
            status, more, content = reply
            self.send_response_only(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve  # noqa: N815 - names that the base class looks for

    with serving(Handler) as url:
        if dialect == "gs":
            account = {"private_key": "", "private_key_id": "", "client_email": "", "disable_oauth": True}
            yield (
                bucket,
                "gs://bucket/some/table",
                {"google_service_account_key": json.dumps(account), "google_base_url": url, "allow_http": "true"},
            )
        else:
            options = {
                "azure_storage_account_name": "account",
                "azure_storage_endpoint": f"{url}/account",
                "azure_skip_signature": "true",
                "allow_http": "true",
            }
            yield bucket, "az://bucket/some/table", options
