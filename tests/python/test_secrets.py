"""Credentials: whatever fails, and wherever they were given, they are never shown."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pilum
from pilum.cli.commands import pilum as command
from pilum.location import Location
from support.stores import serving

CANARY = "c4n4ry"
SECRET = f"{CANARY}+Secret/With=Signs"
KEY = f"AKIA{CANARY}KEY"
TOKEN = f"{CANARY}-session-token-0123456789"
ACCOUNT_KEY = "YzRuNHJ5IGM0bjRyeSBjNG40cnkgYzRuNHJ5"
LOGIN = base64.b64encode(f"user:{CANARY}".encode()).decode()
SECRETS = [CANARY, ACCOUNT_KEY, LOGIN]
"""What must not be seen: as it is, and as it is sent."""
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module", params=[403, 500])
def echo(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that refuses everything, and repeats what it was sent: address, headers and all."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = f"<Error><Code>No</Code><Message>{self.path} {dict(self.headers.items())}</Message></Error>".encode()
            self.send_response_only(request.param)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve  # noqa: N815 - names that the base class looks for

    with serving(Handler) as url:
        yield url


def s3(url: str) -> dict[str, str]:
    return {
        "aws_endpoint": url,
        "allow_http": "true",
        "aws_region": "eu-1",
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "max_retries": "0",
    }


def cases(url: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return addresses and options, each with a secret in another place."""
    host = url.removeprefix("http://")
    quick = {"allow_http": "true", "max_retries": "0"}
    account = {"azure_storage_account_name": "a", "azure_storage_endpoint": f"{url}/a"} | quick
    service = {
        "private_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n",
        "private_key_id": TOKEN,
        "client_email": f"{CANARY}@x",
    }
    return {
        "s3": ("s3://bucket/t", s3(url)),
        "s3 with a password in the endpoint": ("s3://bucket/t", s3(f"http://user:{CANARY}@{host}")),
        "s3 behind a proxy": ("s3://bucket/t", s3(url) | {"proxy_url": f"http://user:{CANARY}@127.0.0.1:1"}),
        "s3 with a mistyped option": ("s3://bucket/t", s3(url) | {"aws_secret_acces_key": SECRET}),
        "s3 with a bad number": ("s3://bucket/t", s3(url) | {"max_retries": SECRET}),
        "s3 with a bad flag": ("s3://bucket/t", s3(url) | {"mmap": SECRET}),
        "s3 with a bad timeout": ("s3://bucket/t", s3(url) | {"timeout": SECRET}),
        "s3 with a bad register": ("s3://bucket/t", s3(url) | {"manifest_store": SECRET}),
        "dynamodb": ("s3+ddb://bucket/t?ddbTableName=t", s3(url) | {"dynamodb_endpoint": url}),
        "dynamodb with a password": (
            "s3+ddb://bucket/t?ddbTableName=t",
            s3(url) | {"dynamodb_endpoint": f"http://user:{CANARY}@{host}"},
        ),
        "dynamodb with a query": (f"s3+ddb://bucket/t?ddbTableName=t&key={CANARY}", s3(url)),
        "azure key": ("az://bucket/t", account | {"azure_storage_account_key": ACCOUNT_KEY}),
        "azure bad key": ("az://bucket/t", account | {"azure_storage_account_key": SECRET}),
        "azure sas": ("az://bucket/t", account | {"azure_storage_sas_key": f"?sv=2020&sig={CANARY}%2Bsig&se=2030"}),
        "azure token": ("az://bucket/t", account | {"azure_storage_token": TOKEN}),
        "google bad key": ("gs://bucket/t", {"google_service_account_key": SECRET} | quick),
        "google key": (
            "gs://bucket/t",
            {"google_service_account_key": json.dumps(service), "google_base_url": url} | quick,
        ),
        "google open": (
            "gs://bucket/t",
            {
                "google_service_account_key": json.dumps(service | {"disable_oauth": True, "gcs_base_url": url}),
                "google_base_url": url,
            }
            | quick,
        ),
        "user in s3": (f"s3://{KEY}:{CANARY}@bucket/t", {}),
        "user in https": (f"https://user:{CANARY}@{host}/t", {}),
        "password with a slash": (f"http://user:{CANARY}/{CANARY}@{host}/t", {"allow_http": "true"}),
        "query in http": (f"http://{host}/t?sig={CANARY}", {"allow_http": "true"}),
        "fragment in gs": (f"gs://bucket/t#{CANARY}", {}),
        "unknown scheme": (f"ftp://user:{CANARY}@host/t?{CANARY}", {}),
        "query in a file URL": (f"file:///tmp/t?{CANARY}", {}),
    }


def calls(uri: str, storage: dict[str, str]) -> dict[str, Callable[[], object]]:
    """Return what a user may try with an address."""
    return {
        "dataset": lambda: pilum.dataset(uri, storage_options=storage),
        "version": lambda: pilum.dataset(uri, version=3, storage_options=storage),
        "tag": lambda: pilum.dataset(uri, version="tag", storage_options=storage),
        "create": lambda: pilum.write_dataset(ROWS, uri, storage_options=storage),
        "append": lambda: pilum.write_dataset(ROWS, uri, mode="append", commit_id="x", storage_options=storage),
        "overwrite": lambda: pilum.write_dataset(ROWS, uri, mode="overwrite", storage_options=storage),
        "commit": lambda: pilum.commit(uri, pilum.Append([]), read_version=1, storage_options=storage),
        "doctor": lambda: pilum.doctor(uri, rounds=1, storage_options=storage),
        "describe_file": lambda: pilum.describe_file(f"{uri}/data/x.lance", storage_options=storage),
        "verify_file": lambda: pilum.verify_file(f"{uri}/data/x.lance", storage_options=storage),
        "location": lambda: Location.of(uri.split("://")[0] + "://x", storage),
    }


def all_texts(error: BaseException) -> Iterator[str]:
    """Give every text of an error: itself, its attributes and notes, and those of its causes."""
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        one = chain.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        # The lines of the traceback are those of this test; the message and what came before it are pilum's.
        yield from (str(one), repr(one), repr(one.args), repr(vars(one)))
        yield "".join(traceback.format_exception_only(one))
        chain += [one.__cause__, one.__context__]


def outcome(work: Callable[[], object]) -> tuple[list[str], bool]:
    """Return what can be seen of a call, and whether it failed."""
    try:
        return [repr(work())], False
    except Exception as error:
        return list(all_texts(error)), True


def test_no_failure_shows_a_secret(
    echo: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client that looks for a machine's own credentials must not wait for one that is not there.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # Every level, the events of single requests included.
    caplog.set_level(1)
    failures, told = 0, []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for case, (uri, storage) in cases(echo).items():
            for call, work in calls(uri, storage).items():
                texts, failed = outcome(work)
                failures += failed
                told += [(case, call, text) for text in texts]
    told += [("", "log", f"{record.getMessage()} {vars(record)}") for record in caplog.records]
    assert any(record.name.startswith("pilum") for record in caplog.records)
    told += [("", "warning", str(it.message)) for it in warned]
    told += [("", "output", text) for text in capfd.readouterr()]
    shown = [it for it in told if any(secret in it[2] for secret in SECRETS)]
    assert shown == []
    assert failures > 9 * len(cases(echo))


def test_no_command_shows_a_secret(echo: str) -> None:
    for uri, storage in cases(echo).values():
        flags = [word for pair in storage.items() for word in ("--option", "=".join(pair))]
        for name in ("verify", "doctor"):
            for more in ([], ["--json"]):
                done = CliRunner().invoke(command, [name, uri, *flags, *more])
                assert done.exit_code in (1, 2), (name, uri)
                assert not any(secret in done.output + done.stderr for secret in SECRETS), (name, uri)
    done = CliRunner().invoke(command, ["verify", "s3://bucket/t", "--option", SECRET.replace("=", "")])
    assert done.exit_code == 2
    assert CANARY not in done.output + done.stderr


def test_secrets_of_the_environment_are_secrets_too(echo: str) -> None:
    script = f"""
import pilum, traceback
for uri in ("s3://bucket/t", "s3+ddb://bucket/t?ddbTableName=t"):
    for work in (pilum.dataset, pilum.doctor):
        try:
            print(work(uri, storage_options={{"max_retries": "0", "dynamodb_endpoint": {echo!r}}}))
        except pilum.PilumError:
            traceback.print_exc()
"""
    environment = os.environ | {
        "AWS_ENDPOINT": echo,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "eu-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "RUST_LOG": "trace",
        "RUST_BACKTRACE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    assert "bucket/t" in done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr


def test_a_handle_shows_its_address_only(tmp_path: Path) -> None:
    storage = {"aws_secret_access_key": SECRET, "mmap": "true"}
    ds = pilum.write_dataset(ROWS, tmp_path / "t", storage_options=storage)
    for shown in (repr(ds), str(ds), repr(ds.scanner()), repr(ds.append(ROWS)), repr(ds.versions()), repr(ds.verify())):
        assert CANARY not in shown
    with pytest.raises(pilum.PilumError) as error:
        ds.delete("no_such_column = 1")
    assert all(CANARY not in text for text in all_texts(error.value))


def test_a_secret_of_a_letter_or_two_is_not_looked_for_inside_words(tmp_path: Path) -> None:
    storage = {"aws_secret_access_key": "a", "aws_session_token": "is"}
    with pytest.raises(pilum.NotFoundError) as error:
        pilum.dataset(tmp_path / "missing", storage_options=storage)
    assert "redacted" not in str(error.value)
    assert str(tmp_path / "missing") in str(error.value)
