"""What an address is: a table, one of its data files, or a file of a neighbouring format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pilum.cli.kartothek import is_kartothek
from pilum.cli.parquet import is_parquet
from pilum.cli.shell import is_file
from pilum.exceptions import InvalidInputError

Kind = Literal["table", "file", "parquet", "arrow", "skiff", "references", "kartothek"]

NAMES: dict[Kind, str] = {
    "table": "a table",
    "file": "one data file",
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
    "skiff": "a Skiff stream",
    "references": "a reference set",
    "kartothek": "a Kartothek dataset",
}
"""How messages call each kind."""

ARROW_ENDINGS = (".arrow", ".arrows", ".ipc", ".feather")
SET_ENDINGS = (".json", ".json.gz", ".json.zst")


def kind_of(uri: str, skiff_format: str | None = None) -> Kind:
    """Return what an address is, by its ending; of a local folder, by what is in it. What is not known is a table.

    Args:
        uri: A path or URL.
        skiff_format: The format of a Skiff stream, which makes the address one.
    """
    if skiff_format is not None or uri.endswith(".skiff"):
        return "skiff"
    if is_kartothek(uri):
        return "kartothek"
    path = Path(os.path.expanduser(uri))  # noqa: PTH111 - unlike `Path.expanduser`, it answers for any text
    if path.is_dir() and (path / "_versions").is_dir():
        return "table"
    if path.is_dir() and (path / ".zmetadata").is_file():
        return "references"
    if is_file(uri):
        return "file"
    if uri.endswith(ARROW_ENDINGS):
        return "arrow"
    if uri.endswith(SET_ENDINGS) and not path.is_dir():
        return "references"
    return "parquet" if is_parquet(uri) else "table"


def only(uri: str, *kinds: Kind) -> None:
    """Refuse an address of another kind.

    Raises:
        InvalidInputError: The message says what the address is, and for what the command is.
    """
    kind = kind_of(uri)
    if kind not in kinds:
        wanted = " and ".join(NAMES[it] for it in kinds)
        raise InvalidInputError(f"{uri}: it is {NAMES[kind]}; this command is for {wanted}")
