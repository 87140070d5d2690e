"""Errors, one class for each reaction of a caller.

Every class has a `kind` that does not change between releases, and a message that names the path, and the version, column or
row that matters. A class that has a counterpart in Python is derived from it too: a missing table is a `FileNotFoundError`.
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
