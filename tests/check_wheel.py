"""The wheel in an environment of its own: the library is imported, the command runs, and ends as it says.

    python tests/check_wheel.py FOLDER_OF_WHEELS

The newest wheel of the folder is installed with what it asks for and nothing else. `make test` does it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parent.parent / "requirements" / "constraints.txt"

WRITE = """
import sys
import pyarrow as pa, pilum
assert "site-packages" in pilum.__file__, pilum.__file__
assert not {"click", "rich"} & set(sys.modules), "the library loads what only the command needs"
ds = pilum.write_dataset(pa.table({"n": [1, None, 3], "s": ["a", "", None]}), sys.argv[1])
assert ds.to_table().to_pylist() == [{"n": 1, "s": "a"}, {"n": None, "s": ""}, {"n": 3, "s": None}]
"""


def check(environment: Path, folder: Path) -> None:
    """Write a table and ask the command about it, sound and damaged."""
    python, command = environment / "bin" / "python", environment / "bin" / "pilum"
    uri = str(folder / "t")
    # In a folder and with variables that say nothing of the sources.
    clean = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    def run(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(command), *words], cwd=folder, env=clean, capture_output=True, text=True, check=False
        )
        told = f"pilum {' '.join(words)}: {done.returncode}, expected {code}\n{done.stdout}{done.stderr}"
        assert done.returncode == code, told
        assert "Traceback" not in done.stderr, told
        return done.stdout

    subprocess.run([str(python), "-c", WRITE, uri], cwd=folder, env=clean, check=True)
    # Spark looks for the Data Source in top-level modules called `pyspark_...`.
    site = next((environment / "lib").glob("python*/site-packages"))
    assert (site / "pyspark_pilum" / "__init__.py").exists(), "the wheel lacks pyspark_pilum"
    assert run("--version").split()[-1][0].isdigit()
    assert "verify" in run("--help")
    assert run("count", uri) == "3\n"
    assert json.loads(run("verify", uri, "--json"))["ok"]
    assert json.loads(run("inspect", uri, "--json"))["table"]["compat"] == "lossless"
    (file,) = (folder / "t" / "data").glob("*.lance")
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])
    assert not json.loads(run("verify", uri, "--json", code=1))["ok"]
    run("verify", str(folder / "none"), code=1)
    run("verify", code=2)
    run("no-such-command", code=2)


def main() -> int:
    """Install and check."""
    wheels = sorted(Path(sys.argv[1]).glob("pilum-*.whl"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory(prefix="pilum-wheel-") as name:
        environment = Path(name) / "environment"
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "-c", str(CONSTRAINTS), str(wheels[-1].resolve())], check=True)
        folder = Path(name) / "work"
        folder.mkdir()
        check(environment, folder)
    print(f"{wheels[-1].name}: installed by itself, the command runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
