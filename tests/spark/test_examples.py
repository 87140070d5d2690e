"""The examples for Spark run and hold their own claims. `examples/connect.py` is run by the test of Spark Connect."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


@pytest.mark.parametrize("name", ["daily_batch", "streaming", "features"])
def test_the_example_runs(spark, tmp_path, capsys, name):
    description = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    example = importlib.util.module_from_spec(description)
    description.loader.exec_module(example)
    example.main(spark, str(tmp_path))
    assert capsys.readouterr().out
