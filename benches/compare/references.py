"""Reference sets beside fsspec and kerchunk, each task in a process of its own: CPU seconds and peak memory.

    python benches/compare/references.py --references 1000000 --out docs/benchmarks/references.md

The peers run the same task with the same files in the same run. `gen` is measured for them with fewer references and scaled,
because a million would take half an hour.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GEN_OF_PEER = 2000


def document(count: int, template: bool) -> dict[str, Any]:
    base = "{{u}}" if template else "s3://bucket/folder"
    rows = count // 1000
    metadata = {"zarr_format": 2, "shape": [rows, 1000], "chunks": [1, 1], "dtype": "<f4", "compressor": None,
                "filters": None, "fill_value": 0, "order": "C"}  # fmt: skip
    refs: dict[str, Any] = {".zgroup": '{"zarr_format":2}', "t/.zarray": json.dumps(metadata)}
    refs |= {f"t/{i // 1000}.{i % 1000}": [f"{base}/f{i // 1000}.nc", i % 1000 * 4000, 4000] for i in range(count)}
    made: dict[str, Any] = {"version": 1, "refs": refs}
    if template:
        made["templates"] = {"u": "s3://bucket/folder"}
    return made


def generated(count: int) -> dict[str, Any]:
    entry = {"key": "t/{{i}}.{{j}}", "url": "{{u}}/f{{'%05d' % i}}.nc", "offset": "{{j * 4000}}", "length": "4000",
             "dimensions": {"i": {"stop": max(count // 1000, 1)}, "j": {"stop": min(count, 1000)}}}  # fmt: skip
    return {"version": 1, "templates": {"u": "s3://bucket"}, "gen": [entry], "refs": {}}


def peer_open(path: str, **options: Any) -> Any:
    from fsspec.implementations.reference import ReferenceFileSystem

    return ReferenceFileSystem(path, remote_protocol="memory", **options)


def ours_open(path: str) -> Any:
    from pilum import references

    return references.open(path)


def peer_parquet(folder: str) -> None:
    from kerchunk.df import refs_to_dataframe

    refs_to_dataframe(f"{folder}/plain.json", f"{folder}/peer.parq", record_size=100_000)


def keys(count: int) -> list[str]:
    chosen = random.Random(0).sample(range(count), 10_000)
    return [f"t/{i // 1000}.{i % 1000}" for i in chosen]


def peer_lookups(folder: str, count: int) -> None:
    fs = peer_open(f"{folder}/ours.parq/")
    for key in keys(count):
        fs.references[key]


def tasks(folder: str, count: int) -> dict[str, Callable[[], Any]]:
    return {
        "open/peer": lambda: peer_open(f"{folder}/plain.json"),
        "open/pilum": lambda: ours_open(f"{folder}/plain.json"),
        "templates/peer": lambda: peer_open(f"{folder}/template.json"),
        "templates/pilum": lambda: ours_open(f"{folder}/template.json"),
        "gen/peer": lambda: peer_open(f"{folder}/few.json", simple_templates=False),
        "gen/pilum": lambda: ours_open(f"{folder}/many.json"),
        "to Parquet/pilum": lambda: ours_open(f"{folder}/plain.json").to_parquet(f"{folder}/ours.parq"),
        "to Parquet/peer": lambda: peer_parquet(folder),
        "iterate Parquet/peer": lambda: list(peer_open(f"{folder}/ours.parq/").references.items()),
        "iterate Parquet/pilum": lambda: ours_open(f"{folder}/ours.parq").to_arrow(),
        "10,000 lookups, Parquet/peer": lambda: peer_lookups(folder, count),
        "10,000 lookups, Parquet/pilum": lambda: ours_open(f"{folder}/ours.parq").locate_many(keys(count)),
    }


def measured(folder: str, count: int, task: str) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", __file__, "--references", str(count), "--folder", folder, "--task", task]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one(folder: str, count: int, task: str) -> None:
    import fsspec
    import pandas as pd  # the libraries of both sides count as loaded

    import pilum

    del fsspec, pd, pilum
    before, started = time.process_time(), time.perf_counter()
    tasks(folder, count)[task]()
    used, wall = time.process_time() - before, time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": used, "wall": wall, "mib": peak}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--references", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--folder")
    parser.add_argument("--task")
    given = parser.parse_args()
    count = given.references
    if given.task:
        one(given.folder, count, given.task)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, made in {
            "plain": document(count, False),
            "template": document(count, True),
            "few": generated(GEN_OF_PEER),
            "many": generated(count),
        }.items():
            (Path(folder) / f"{name}.json").write_text(json.dumps(made))
        results = {task: measured(folder, count, task) for task in tasks(folder, count)}
    lines = [
        "# Reference sets beside fsspec and kerchunk",
        "",
        (
            f"{count:,} references; CPU seconds, and the peak memory of the process in MiB, with all libraries loaded. "
            "Made by `make bench-references`."
        ),
        "",
        "| task | fsspec, kerchunk | pilum | times faster | MiB there | MiB here |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(task.partition("/")[0] for task in results):
        peer, ours = results[f"{name}/peer"], results[f"{name}/pilum"]
        scale = count / GEN_OF_PEER if name == "gen" else 1
        there = peer["cpu"] * scale
        lines.append(
            f"| {name} | {there:.2f} | {ours['cpu']:.3f} | {there / ours['cpu']:.0f} | {peer['mib']:.0f} | {ours['mib']:.0f} |"
        )
    text = "\n".join([*lines, ""])
    if given.out:
        given.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
