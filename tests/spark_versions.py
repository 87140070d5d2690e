"""Runs the type cases and the core tests of Spark with other releases of PySpark, each in an environment of its own.

    python tests/spark_versions.py [--folder .venv-spark] [3.5 4.0 4.1 4.2]

Each environment gets PySpark and its neighbours from the package registry, and the module that `make build` compiled.
PySpark 3.5 has no Data Source API, so the tests of it run with PySpark 4.0 and later. Prints one line for each release, as a
row of the table in docs/guide/spark.md. It takes some 1 GB of disk and some ten minutes for each release.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RELEASES = {"3.5": "3.5.9", "4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
"""The newest release of each version that the tests ran with."""

NEIGHBOURS = {"pandas": "2.3.3", "numpy": "2.2.6"}
"""Packages that PySpark imports, in versions that work with all of these releases."""

CORE = ("test_type_cases.py", "test_types.py", "test_tasks.py", "test_read_write.py")
SOURCE = ("test_statements.py", "test_source_batch.py", "test_replace_where.py", "test_streaming.py")
"""Tests that use `format("pilum")`, or make DataFrames from Arrow tables: PySpark has both since 4.0."""


WITHOUT = {
    "3.5": ("test_the_data_source_ships_a_megabyte", "test_the_page_about_types_is_current"),
    "4.0": ("test_the_page_about_types_is_current",),
}
"""Tests of CORE that cannot run with a version: it has fewer types than the page about types, or no Data Source API."""


def constraints() -> dict[str, str]:
    """Return the pinned version of each package, from requirements/constraints.txt."""
    lines = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {name.lower(): version for name, version in pairs}


def environment(folder: Path, release: str) -> Path:
    """Make the environment for a release of PySpark, unless it exists, and return its interpreter."""
    python = folder / "bin" / "python"
    done = folder / ".done"
    if done.exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    known = constraints()
    wanted = [f"pyspark=={release}", *(f"{name}=={version}" for name, version in NEIGHBOURS.items())]
    wanted += [
        f"{name}=={known[name]}"
        for name in ("pyarrow", "pytest", "pytest-timeout", "click", "rich", "setuptools")
        if name in known
    ]
    if "setuptools" not in known:
        # PySpark 3.5 imports `distutils`. Python 3.12 does not have it any more, and setuptools provides it.
        wanted.append("setuptools<81")
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted], check=True)
    packages = next((folder / "lib").glob("python3.*/site-packages"))
    (packages / "pilum-sources.pth").write_text(f"{ROOT / 'python'}\n")
    done.touch()
    return python


def tested(python: Path, version: str, more: list[str]) -> tuple[bool, str]:
    """Run the tests with a release; return whether all passed, and the last line of pytest."""
    files = [*CORE, *(SOURCE if version != "3.5" else ())]
    command = [str(python), "-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider", *more]
    if version in WITHOUT:
        command += ["-k", " and ".join(f"not {name}" for name in WITHOUT[version])]
    done = subprocess.run(
        [*command, *(str(ROOT / "tests" / "spark" / name) for name in files)],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    for line in lines:
        if re.match(r"(FAILED|ERROR|E  )", line):
            print("   ", line[:300])
    return done.returncode == 0, lines[-1].strip("= ") if lines else "pytest printed nothing"


def main() -> int:
    """Run the tests with the releases that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "versions", nargs="*", default=["3.5", "4.0", "4.1", "4.2"], help="some of " + ", ".join(RELEASES)
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".venv-spark", help="where the environments are made")
    parser.add_argument("--install-only", action="store_true", help="make the environments, and run nothing")
    parser.add_argument("--pytest", action="append", default=[], help="an argument for pytest, such as --pytest=-x")
    options = parser.parse_args()
    failed = 0
    for version in options.versions:
        if version not in RELEASES:
            parser.error(f"no version {version}: it is one of {', '.join(RELEASES)}")
        release = RELEASES[version]
        python = environment(options.folder / release, release)
        if options.install_only:
            continue
        passed, said = tested(python, version, options.pytest)
        failed += not passed
        print(f"| {release} | {said} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
