"""Classes of optional packages, looked up without loading the packages."""

from __future__ import annotations

import sys
from typing import Any


def is_a(data: Any, module: str, name: str) -> bool:
    """Return whether `data` is of a class of an optional package; the package is not loaded for that."""
    loaded = sys.modules.get(module)
    kind = None if loaded is None else getattr(loaded, name, None)
    return isinstance(kind, type) and isinstance(data, kind)
