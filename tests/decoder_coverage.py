"""How many lines of the decoders damaged files reach.

    make coverage               (or: python tests/decoder_coverage.py --seconds 60 --out docs/coverage.md)

The crates of this workspace, and no others, are compiled with counters into the usual target folder. Then every fuzz target
and the tests with hostile files run, and nothing else: a line counts that something damaged came by. Needs the component
`llvm-tools` of the toolchain (`rustup component add llvm-tools`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
FOLDER = TARGET / "coverage"
CRATES = ["pilum-encoding", "pilum-expr", "pilum-file", "pilum-table"]
TESTS = ["fuzz", "hostile"]
"""Modules of the tests: the fuzz targets, and files that lie about their size."""
DECODERS = {
    "rust/encoding/src": [
        "decode.rs", "dictionary.rs", "layout.rs", "nested.rs", "plan.rs", "rows.rs", "source.rs", "text.rs", "types.rs",
        "validity.rs", "variable.rs",
    ],
    "rust/file/src": [
        "checked.rs", "dictionary.rs", "directory.rs", "read.rs", "read/batch.rs", "read/far.rs", "read/plan.rs",
        "schema.rs", "shape.rs", "statistics.rs", "wire.rs",
    ],
    "rust/table/src": [
        "allowance.rs", "commit_id.rs", "deletion.rs", "fragment.rs", "manifest.rs", "manifest_file.rs", "naming.rs",
        "row_ids/array.rs", "row_ids/mod.rs", "row_ids/segment.rs", "row_versions.rs", "tags.rs", "transaction.rs",
        "write/pieces.rs",
    ],
    "rust/expr/src": ["substrait.rs", "substrait/columns.rs", "substrait/value.rs"],
}  # fmt: skip
"""What turns bytes into values and conditions. Some of these files write as well: those lines are not reached."""


def tool(name: str) -> str:
    """Return the path of a tool of the toolchain."""
    sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
    found = sorted(Path(sysroot).glob(f"lib/rustlib/*/bin/{name}"))
    if not found:
        raise SystemExit(f"{name} is not there: rustup component add llvm-tools")
    return str(found[0])


def run_tests(seconds: int, profile: str) -> list[str]:
    """Run the tests with counters and return their binaries."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    wrapper = FOLDER / "rustc.sh"
    wrapper.write_text('#!/bin/sh\nexec "$@" -C instrument-coverage\n')
    wrapper.chmod(0o755)
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(TARGET),
        "CARGO_INCREMENTAL": "0",
        "RUSTC_WORKSPACE_WRAPPER": str(wrapper),
        "LLVM_PROFILE_FILE": str(FOLDER / "%p-%m.profraw"),
        "PILUM_FUZZ_SECONDS": str(seconds),
    }
    crates = [word for crate in CRATES for word in ("-p", crate)]
    cargo = ["cargo", "test", "--profile", profile, *crates, "--test", "it"]
    built = subprocess.run(
        [*cargo, "--no-run", "--message-format=json-render-diagnostics"],
        env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    subprocess.run([*cargo, "--", *TESTS, "--test-threads=2"], env=environment, cwd=ROOT, check=True)
    return [message["executable"] for message in messages if message.get("executable")]


def measure(binaries: list[str]) -> dict[str, Any]:
    """Return the counts of llvm-cov by file, relative to the repository."""
    merged = FOLDER / "all.profdata"
    raw = [str(path) for path in FOLDER.glob("*.profraw")]
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", *raw, "-o", str(merged)], check=True)
    objects = [word for binary in binaries[1:] for word in ("-object", binary)]
    words = [tool("llvm-cov"), "export", "-summary-only", f"-instr-profile={merged}", binaries[0], *objects]
    report = json.loads(subprocess.check_output(words))
    files = report["data"][0]["files"]
    return {
        str(Path(it["filename"]).relative_to(ROOT)): it["summary"]["lines"]
        for it in files
        if ROOT in Path(it["filename"]).parents
    }


def page(lines: dict[str, Any], seconds: int) -> str:
    """Return the counts as a page."""
    rustc = subprocess.check_output(["rustc", "--version"], text=True).split()[1]
    told = [
        "# Lines of the decoders that damaged files reach",
        "",
        f"{platform.system()} {platform.machine()}, rustc {rustc}; every fuzz target for {seconds} s, and the tests with",
        "hostile files. `make coverage` makes this page; what it counts stands in `tests/decoder_coverage.py`. Files that",
        "write as well have lines that no reader comes by.",
        "",
        "| file | lines | reached | |",
        "|---|---:|---:|---:|",
    ]
    counted = reached = 0
    for folder, names in DECODERS.items():
        for name in names:
            found = lines[f"{folder}/{name}"]
            counted += found["count"]
            reached += found["covered"]
            told.append(f"| `{folder}/{name}` | {found['count']} | {found['covered']} | {found['percent']:.1f} % |")
    told += [f"| **all** | {counted:,} | {reached:,} | **{100 * reached / counted:.1f} %** |", ""]
    return "\n".join(told)


def main() -> int:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=20, help="for each fuzz target")
    parser.add_argument("--profile", default="ci", help="of cargo")
    parser.add_argument("--out", type=Path, help="where the page goes")
    options = parser.parse_args()
    told = page(measure(run_tests(options.seconds, options.profile)), options.seconds)
    print(told)
    if options.out:
        options.out.write_text(told)
    shutil.rmtree(FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
