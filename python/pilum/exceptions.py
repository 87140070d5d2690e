"""What can go wrong, sorted by what a caller would do about it.

Every class carries a stable `kind` and a message that names the path, and the version, column or row that matters.
Those that have a Python counterpart are caught by it too: a missing table is a `FileNotFoundError`.
"""

from pilum._pilum import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    InternalError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    PilumError,
    StoreError,
    UnsupportedError,
)

__all__ = [
    "AlreadyExistsError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptError",
    "InternalError",
    "InvalidInputError",
    "LimitError",
    "NotFoundError",
    "PilumError",
    "StoreError",
    "UnsupportedError",
]
