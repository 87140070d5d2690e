"""A bucket far away: as much of S3 as readers use, over files of a folder, each answer late, all of them counted."""

from __future__ import annotations

import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.sax.saxutils import escape

BUCKET = "far"


@dataclass
class FarStore:
    """What the bucket was asked, and how late it answers."""

    folder: Path
    endpoint: str
    late: float = 0.0
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, key and bytes of the answer, in the order of the answers."""

    def uri(self, path: Path) -> str:
        """Return the address of a file or folder below the folder."""
        return f"s3://{BUCKET}/{path.relative_to(self.folder).as_posix()}"

    def options(self) -> dict[str, str]:
        """Return the storage options that every reader understands."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": "nobody",
            "aws_secret_access_key": "nothing",
            "allow_http": "true",
        }

    def forget(self) -> None:
        """Count from zero."""
        self.asked.clear()

    @property
    def requests(self) -> int:
        """How many requests were answered."""
        return len(self.asked)

    @property
    def bytes_sent(self) -> int:
        """Bytes of the answers' bodies."""
        return sum(size for _, _, size in self.asked)


class _Handler(BaseHTTPRequestHandler):
    store: FarStore

    protocol_version = "HTTP/1.1"
    # Bodies would wait for the acknowledgement of the headers before them.
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args: object) -> None:
        """Keep quiet."""

    def answer(self, status: int, body: bytes, headers: dict[str, str], key: str) -> None:
        time.sleep(self.store.late)
        # Before the reader can know: whoever has its answer finds it counted.
        self.store.asked.append((self.command, key, 0 if self.command == "HEAD" else len(body)))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(path.query, keep_blank_values=True))
        key = urllib.parse.unquote(path.path).removeprefix(f"/{BUCKET}").lstrip("/")
        if not key:
            self.answer(
                200,
                listing(self.store.folder, query),
                {"Content-Type": "application/xml"},
                f"?{query.get('prefix', '')}",
            )
            return
        file = self.store.folder / key
        if not file.is_file():
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {"Content-Type": "application/xml"}, key)
            return
        self.object(file, key)

    do_HEAD = do_GET  # noqa: N815 - as above

    def object(self, file: Path, key: str) -> None:
        stat = file.stat()
        headers = {
            "ETag": f'"{stat.st_mtime_ns:x}-{stat.st_size:x}"',
            "Last-Modified": formatdate(stat.st_mtime, usegmt=True),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }
        if self.command == "HEAD":
            self.answer(200, b"", {**headers, "Content-Length": str(stat.st_size)}, key)
            return
        asked = self.headers.get("Range")
        if not asked:
            self.answer(200, file.read_bytes(), headers, key)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(stat.st_size - int(last), 0)
        end = min(int(last) + 1, stat.st_size) if first and last else stat.st_size
        if start >= stat.st_size:
            self.answer(416, b"", {"Content-Range": f"bytes */{stat.st_size}"}, key)
            return
        with file.open("rb") as opened:
            opened.seek(start)
            body = opened.read(end - start)
        self.answer(206, body, {**headers, "Content-Range": f"bytes {start}-{end - 1}/{stat.st_size}"}, key)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Readers open many connections at once: one that does not fit is asked for again a second later.
    request_queue_size = 1024

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of readers that hang up."""


@contextmanager
def far_store(folder: Path) -> Iterator[FarStore]:
    """Serve a folder until the block ends."""
    store = FarStore(folder, "")
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"store": store}))
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def listing(folder: Path, query: dict[str, str]) -> bytes:
    """Return the answer to ListObjectsV2: a thousand names at most, folders rolled up where that is asked."""
    prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
    root = folder / prefix.rpartition("/")[0]
    found = [file for file in root.rglob("*") if file.is_file()] if root.is_dir() else []
    by_key = {file.relative_to(folder).as_posix(): file for file in found}
    keys = sorted(key for key in by_key if key.startswith(prefix) and key > after)
    rows: dict[str, str] = {}
    most = int(query.get("max-keys", "1000"))
    last = ""
    for key in keys:
        rest = key[len(prefix) :]
        if query.get("delimiter") and "/" in rest:
            group = prefix + rest.partition("/")[0] + "/"
            if after.startswith(group):
                continue
            row = f"<CommonPrefixes><Prefix>{escape(group)}</Prefix></CommonPrefixes>"
        else:
            group, stat = key, by_key[key].stat()
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stat.st_mtime))
            row = (
                f"<Contents><Key>{escape(key)}</Key><LastModified>{when}</LastModified>"
                f'<ETag>"{stat.st_size:x}"</ETag><Size>{stat.st_size}</Size></Contents>'
            )
        if group not in rows and len(rows) == most:
            break
        rows[group], last = row, key
    more = bool(last) and last != keys[-1]
    token = f"<NextContinuationToken>{escape(last)}</NextContinuationToken>" if more else ""
    return (
        f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(rows)}</KeyCount>"
        f"<MaxKeys>{most}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>{token}{''.join(rows.values())}"
        "</ListBucketResult>"
    ).encode()
