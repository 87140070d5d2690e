"""Values that are wrong for most arguments, for tests that pass them to every public call."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np

ODD: dict[str, Any] = {
    "None": None,
    "empty list": [],
    "bytes": b"x",
    "text": "nope",
    "empty text": "",
    "path": Path("somewhere"),
    "float": 1.5,
    "NaN": float("nan"),
    "negative": -1,
    "huge": 2**70,
    "bool": True,
    "numpy integer": np.int64(2),
    "numpy negative": np.int64(-1),
    "numpy float": np.float32(1.5),
    "numpy text": np.str_("x"),
    "numpy array": np.array([1, 2]),
    "empty dict": {},
    "dict of numbers": {1: 2},
    "list of None": [None],
    "list of texts": ["x"],
    "object": object(),
    "class": int,
}
"""Values that are wrong for most arguments. A call may accept one, or refuse it with an error of pilum."""


def finish(found: Any) -> None:
    """Start the generator, if a call returned one: a generator checks its arguments only when it is used."""
    if inspect.isgenerator(found):
        next(found, None)
