"""The code in the README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent.parent / "README.md"


def test_the_code_of_the_readme_runs(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "[{'city': 'Ulm'}, {'city': 'Bonn'}]"
    assert "Jena" in second
    assert third == "[(1, 3), (2, 4), (3, 3)]"
