"""The code in docs/guide/spark.md runs as it stands, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "spark.md"
FENCE = re.compile(r"^```(python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_guide_runs(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "guide", "spark": spark}
    text = PAGE.read_text()
    printed = ""
    count = 0
    for fence in FENCE.finditer(text):
        language, block = fence.groups()
        line = text.count("\n", 0, fence.start()) + 1
        if language == "output":
            assert printed == block, f"line {line}"
            count += 1
            continue
        exec(compile("\n" * line + block, str(PAGE), "exec"), names)
        printed = capsys.readouterr().out
    assert count >= 8
