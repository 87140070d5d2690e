"""The code in the README and in the guide to Spark runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide" / "spark-source.md"
PLACE = re.compile(r"""(["'])(\w+\.pilum|checkpoint|other)\1""")
BLOCK = re.compile(r"^```(python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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


def test_the_code_of_the_guide_runs_and_prints_what_it_says(spark, tmp_path, capsys):
    names: dict[str, object] = {"spark": spark}
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) >= 8
    for language, text in blocks:
        if language == "python":
            # A process of Spark has another working directory than the test, so the path must be absolute.
            placed = PLACE.sub(rf"\g<1>{tmp_path}/\g<2>\g<1>", text)
            exec(compile(placed, str(GUIDE), "exec"), names)
        else:
            assert capsys.readouterr().out == text
