"""Arguments of public calls: the options that several calls share, and one rule for each argument's values.

`checked` wraps a public function. A keyword that the function does not have is refused by name, with the nearest one that it
has; a value that an argument cannot have is refused by the argument's name, before any work. Both are `InvalidInputError`s.
"""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import inspect
import operator
import os
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from pilum.exceptions import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from pilum.progress import Progress

F = TypeVar("F", bound=Callable[..., Any])
Rule = Callable[[str, Any], None]

MAX_COUNT = 2**64 - 1

RECEIVERS = {"self", "cls"}
"""Arguments that Python passes to methods."""


class UnknownArgumentError(InvalidInputError, TypeError):
    """A call has no argument of this name, or misses one. It is a `TypeError` too, as for functions of Python itself."""


class ReadArguments(TypedDict, total=False):
    """Options that reads of every source have; see `Dataset.scanner`."""

    limit: int | None
    offset: int | None
    batch_rows: int | None
    batch_bytes: int | None
    memory_limit: int | None


class ScanArguments(ReadArguments, total=False):
    """Options that reads of a table have; see `Dataset.scanner`."""

    with_row_id: bool
    with_row_address: bool
    fragments: Sequence[int] | None
    ordered: bool


class StatementArguments(TypedDict, total=False):
    """Options of every statement; see `Dataset.delete`."""

    commit_id: str | None
    properties: Mapping[str, str] | None
    durability: Literal["full", "none"]
    retries: int | None


class ExpectingArguments(StatementArguments, total=False):
    """Options of statements that can depend on the state of the table; see `Dataset.delete`."""

    expect: Any


class ValueArguments(StatementArguments, total=False):
    """Options of statements that write values; see `Dataset.update`."""

    compat: Literal["lossless", "lance"] | None


class ExpectingValueArguments(ExpectingArguments, total=False):
    """Options of statements that write values and can depend on the state of the table; see `Dataset.update`."""

    compat: Literal["lossless", "lance"] | None


class AdaptArguments(TypedDict, total=False):
    """How rows become rows of a table; see `write_dataset`."""

    cast: Literal["exact", "lossy"]
    missing: Literal["null", "error"]
    extra: Literal["error", "ignore"]


class FileArguments(AdaptArguments, total=False):
    """Options about the data files of a write; see `write_dataset`."""

    compat: Literal["lossless", "lance"] | None
    max_rows_per_file: int
    max_rows_per_page: int | None
    max_bytes_per_file: int | None
    durability: Literal["full", "none"]


class WriteArguments(FileArguments, total=False):
    """Options of every write to a table that exists; see `write_dataset`."""

    schema: pa.Schema | None
    index: bool | None
    properties: Mapping[str, str] | None
    commit_id: str | None
    expect: Any
    progress: bool | Progress | None


DEFAULTS: Mapping[str, Any] = {
    "cast": "exact",
    "durability": "full",
    "extra": "error",
    "max_rows_per_file": 1_048_576,
    "missing": "null",
    "ordered": True,
    "stable_row_ids": False,
    "with_row_address": False,
    "with_row_id": False,
}
"""Defaults of shared options that are not None."""


def shown(value: Any) -> str:
    """Return a value for a message: cut, with its type."""
    return f"{reprlib.repr(value)} ({type(value).__name__})"


def _refuse(name: str, wanted: str, value: Any) -> None:
    raise InvalidInputError(f"{name}: pass {wanted}, not {shown(value)}")


def _integer(name: str, value: Any, wanted: str) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise InvalidInputError(f"{name}: pass {wanted}, not {shown(value)}")


def _between(least: int, most: int) -> Rule:
    wanted = f"an integer from {least} to {most}"

    def accept(name: str, value: Any) -> None:
        if not least <= _integer(name, value, wanted) <= most:
            _refuse(name, wanted, value)

    return accept


count = _between(0, MAX_COUNT)
"""Accepts integers from 0 to 2^64 - 1."""

positive = _between(1, MAX_COUNT)
"""Accepts integers from 1 to 2^64 - 1."""

small_count = _between(0, 2**32 - 1)
"""Accepts integers from 0 to 2^32 - 1."""


def counts(name: str, value: Any) -> None:
    """Accept sequences of integers from 0 on."""
    if isinstance(value, (str, bytes, Mapping)):
        _refuse(name, "a list of integers", value)
    try:
        numbers = list(value)
    except TypeError:
        raise InvalidInputError(f"{name}: pass a list of integers, not {shown(value)}") from None
    for number in numbers:
        count(name, number)


def flag(name: str, value: Any) -> None:
    """Accept truth values, numpy's too."""
    if not isinstance(value, bool) and type(value).__name__ not in {"bool", "bool_"}:
        _refuse(name, "True or False", value)


def text(name: str, value: Any) -> None:
    """Accept text that is not empty."""
    if not isinstance(value, str) or not value:
        _refuse(name, "text that is not empty", value)


def names(name: str, value: Any) -> None:
    """Accept a sequence of names of columns."""
    if isinstance(value, str):
        raise InvalidInputError(f"{name} takes a list of names: {name}=[{value!r}]")
    if isinstance(value, (bytes, Mapping)) or not hasattr(value, "__iter__"):
        _refuse(name, "a list of names", value)
    if hasattr(value, "__next__"):
        _refuse(name, "a list of names, which can be read more than once", value)
    for item in value:
        if not isinstance(item, str):
            raise InvalidInputError(f"{name}: every item is a text, not {shown(item)}")


def keys(name: str, value: Any) -> None:
    """Accept a sequence of keys."""
    if isinstance(value, str):
        raise InvalidInputError(f"{name} takes a list of keys: {name}=[{value!r}]")
    names(name, value)


def name_or_names(name: str, value: Any) -> None:
    """Accept the name of a column, or a sequence of names."""
    if not isinstance(value, str):
        names(name, value)


def members(name: str, value: Any) -> None:
    """Accept a mapping whose keys are texts."""
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value):
        _refuse(name, "a dict with texts as keys", value)


def conditions(name: str, value: Any) -> None:
    """Accept an iterable of dicts from columns to values."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        _refuse(name, "a list of dicts of columns and values", value)


def projection(name: str, value: Any) -> None:
    """Accept a sequence of names, or a mapping of names to expressions."""
    if isinstance(value, Mapping):
        names(name, list(value))
    else:
        names(name, value)


def key(name: str, value: Any) -> None:
    """Accept the name of a column, or a sequence of them that is not empty."""
    if not isinstance(value, str):
        names(name, value)
        if not list(value):
            raise InvalidInputError(f"{name}: the key names no column: pass at least one")


def pairs(name: str, value: Any) -> None:
    """Accept a mapping from text to text."""
    if not isinstance(value, Mapping):
        _refuse(name, "a dict of texts", value)
    for each, its in value.items():
        if not isinstance(each, str) or not isinstance(its, str):
            # The value may be a secret: it is not shown.
            raise InvalidInputError(
                f"{name}: keys and values are texts; the value of {shown(each)} is a {type(its).__name__}"
            )


def storage_options(name: str, value: Any) -> None:
    """Accept a mapping from text to text, or a function that returns one."""
    if not callable(value):
        pairs(name, value)


def edits(name: str, value: Any) -> None:
    """Accept a mapping from text to text or None."""
    if not isinstance(value, Mapping):
        _refuse(name, "a dict of texts", value)
    for each, its in value.items():
        if not isinstance(each, str) or not (its is None or isinstance(its, str)):
            raise InvalidInputError(f"{name}: keys are texts, values are texts or None; {shown(each)} has {shown(its)}")


def version(name: str, value: Any) -> None:
    """Accept the number of a version, or the name of a tag."""
    wanted = "the number of a version or the name of a tag"
    if not isinstance(value, str) and not 0 <= _integer(name, value, wanted) <= MAX_COUNT:
        _refuse(name, f"the number of a version, from 1 to {MAX_COUNT},", value)


def moment(name: str, value: Any) -> None:
    """Accept a `datetime.datetime`."""
    if not isinstance(value, dt.datetime):
        _refuse(name, "a datetime.datetime", value)


def duration(name: str, value: Any) -> None:
    """Accept a `datetime.timedelta` that is not negative."""
    if not isinstance(value, dt.timedelta) or value < dt.timedelta(0):
        _refuse(name, "a datetime.timedelta that is not negative", value)


def fraction(name: str, value: Any) -> None:
    """Accept numbers from 0 to 1."""
    wanted = "a number from 0 to 1"
    if isinstance(value, (bool, str, bytes)):
        _refuse(name, wanted, value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name}: pass {wanted}, not {shown(value)}") from None
    if not 0 <= number <= 1:
        _refuse(name, wanted, value)


def address(name: str, value: Any) -> None:
    """Accept a path or URL that is not empty."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str) or not os.fspath(value):
        _refuse(name, "a path or URL", value)


def arrow_schema(name: str, value: Any) -> None:
    """Accept what exports an Arrow schema."""
    if not hasattr(value, "__arrow_c_schema__"):
        _refuse(name, "a pyarrow.Schema", value)


def progress(name: str, value: Any) -> None:
    """Accept True, False or a callable."""
    if not callable(value):
        flag(name, value)


def addresses(name: str, value: Any) -> None:
    """Accept a path or URL, or a sequence of them."""
    if isinstance(value, (str, os.PathLike)):
        address(name, value)
        return
    if isinstance(value, (bytes, Mapping)) or not hasattr(value, "__iter__"):
        _refuse(name, "a path or URL, or a list of them", value)
    for item in value:
        address(name, item)


def types_by_name(name: str, value: Any) -> None:
    """Accept a mapping from names to types of pyarrow."""
    if not isinstance(value, Mapping):
        _refuse(name, "a dict of names and types of pyarrow", value)
    for each, its in value.items():
        if not isinstance(each, str) or not hasattr(its, "__arrow_c_schema__"):
            raise InvalidInputError(
                f"{name}: names are texts, types are those of pyarrow; {shown(each)} has {shown(its)}"
            )


def spark_session(name: str, value: Any) -> None:
    """Accept a session of Spark, classic or Connect."""
    if not hasattr(value, "createDataFrame"):
        _refuse(name, "a SparkSession", value)


def spark_frame(name: str, value: Any) -> None:
    """Accept a DataFrame of Spark, classic or Connect."""
    if not hasattr(value, "mapInArrow"):
        _refuse(name, "a DataFrame of Spark (pilum.write_dataset writes other rows)", value)


def word(*known: str) -> Rule:
    """Return the rule that accepts one of some words."""
    wanted = " or ".join(filter(None, [", ".join(map(repr, known[:-1])), repr(known[-1])]))

    def accept(name: str, value: Any) -> None:
        if not isinstance(value, str) or value not in known:
            near = difflib.get_close_matches(value, known, 1) if isinstance(value, str) else []
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(f"{name}: pass {wanted}, not {shown(value)}{hint}")

    return accept


RULES: Mapping[str, Rule] = {
    "asof": moment,
    "batch_bytes": positive,
    "batch_rows": positive,
    "bucket_by": name_or_names,
    "cast": word("exact", "lossy"),
    "columns": projection,
    "compression_level": small_count,
    "data_page_v2": flag,
    "dataset_uuid": text,
    "delete_scope": conditions,
    "df": spark_frame,
    "dictionary": flag,
    "commit_id": text,
    "compat": word("lossless", "lance"),
    "dry_run": flag,
    "durability": word("full", "none"),
    "extra": word("error", "ignore"),
    "fragments": counts,
    "hive": flag,
    "index": flag,
    "keep_versions": count,
    "key_types": types_by_name,
    "labels": names,
    "limit": count,
    "max_bytes_per_file": positive,
    "max_deleted_fraction": fraction,
    "max_rows_per_file": positive,
    "max_rows_per_page": positive,
    "memory_limit": positive,
    "missing": word("null", "error"),
    "mode": word("create", "append", "overwrite"),
    "num_buckets": positive,
    "offset": count,
    "older_than": duration,
    "ordered": flag,
    "page_bytes": positive,
    "page_checksums": flag,
    "page_index": flag,
    "page_rows": positive,
    "pages": flag,
    "partition_on": name_or_names,
    "progress": progress,
    "properties": pairs,
    "read_columns": names,
    "read_version": count,
    "replace": flag,
    "retries": small_count,
    "rounds": positive,
    "row_group_bytes": positive,
    "row_group_rows": positive,
    "schema": arrow_schema,
    "secondary_indices": name_or_names,
    "sort_by": name_or_names,
    "spark": spark_session,
    "stable_row_ids": flag,
    "storage_options": storage_options,
    "store_uri": address,
    "table_storage_options": storage_options,
    "table_uri": address,
    "target_bytes": positive,
    "target_rows": positive,
    "tasks": positive,
    "unverified_older_than": duration,
    "uri": address,
    "uri_or_uris": addresses,
    "vectors": word("list", "array", "binary"),
    "verify_checksums": flag,
    "version": version,
    "with_row_address": flag,
    "with_row_id": flag,
}
"""The rule of each argument, by its name: a name means the same in every call that has it."""


_PARTS = {
    **dict.fromkeys(
        ("Changing", "Columns", "Maintenance", "Opened", "Reading", "RowSource", "Settings", "Statements"), "Dataset"
    ),
    **dict.fromkeys(("FileScan", "RowScan"), "Scanner"),
}
"""The classes that `Dataset` and `Scanner` are made of, by the name that users know."""


def checked(options: type | Callable[..., Any] | None = None, **own: Rule | None) -> Callable[[F], F]:
    """Return a decorator that refuses keywords and values which the function does not take.

    Args:
        options: The TypedDict of the function's `**options`, or the function to which it hands them on. Its keys, or the
            arguments of that function that have a default, become part of the signature that `help` shows.
        **own: Rules of arguments that mean something else than in other calls; None for an argument without a rule.
    """

    def decorate(function: F) -> F:
        signature = _signature(function, options)
        takes_any = inspect.Parameter.VAR_POSITIONAL in {it.kind for it in signature.parameters.values()}
        known = [name for name, it in signature.parameters.items() if it.kind is not inspect.Parameter.VAR_POSITIONAL]
        positional = [
            name for name, it in signature.parameters.items() if it.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        rules = {name: rule for name in known if (rule := {**RULES, **own}.get(name)) is not None}
        optional = {name for name, it in signature.parameters.items() if it.default is None}
        owner, dot, rest = function.__qualname__.partition(".")
        called = f"{_PARTS.get(owner, owner)}{dot}{rest}"
        is_class = function.__name__ == "__init__"

        needed = [name for name in positional if signature.parameters[name].default is inspect.Parameter.empty]

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            of = type(arguments[0]).__name__ if is_class and arguments else called
            if len(arguments) > len(positional) and not takes_any:
                raise too_many_arguments(of, positional, known, len(arguments))
            for name in keywords:
                if name not in known:
                    raise unknown_argument(of, name, known)
            for name in needed[len(arguments) :]:
                if name not in keywords:
                    raise UnknownArgumentError(f"{of}() needs the argument {name!r}")
            for name, value in [*zip(positional, arguments, strict=False), *keywords.items()]:
                if name in rules and (value is not None or name not in optional):
                    rules[name](name, value)
            return function(*arguments, **keywords)

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def unknown_argument(called: str, name: str, known: Sequence[str]) -> UnknownArgumentError:
    """Return the error for a keyword that a call does not have."""
    takes = [it for it in known if it not in RECEIVERS]
    near = difflib.get_close_matches(name, takes, 1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(takes) or 'no arguments'}"
    return UnknownArgumentError(f"{called}() has no argument {name!r}: {hint}")


def too_many_arguments(
    called: str, positional: Sequence[str], known: Sequence[str], given: int
) -> UnknownArgumentError:
    """Return the error for more values without a name than a call takes."""
    unnamed = [it for it in positional if it not in RECEIVERS]
    named = [it for it in known if it not in positional]
    takes = f"{', '.join(unnamed)} without a name" if unnamed else "no values without a name"
    hint = f": write the others as name=value, such as {named[0]}=.." if named else ""
    number = given - (len(positional) - len(unnamed))
    return UnknownArgumentError(f"{called}() takes {takes}, but was given {number} values{hint}")


def _signature(function: Callable[..., Any], options: type | Callable[..., Any] | None) -> inspect.Signature:
    """Return the signature of a function, its `**options` replaced by keys of a TypedDict or arguments of a function."""
    signature = inspect.signature(function)
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        # Methods of the engine take `self` by its position only.
        it.replace(kind=named) if it.kind is inspect.Parameter.POSITIONAL_ONLY else it
        for it in signature.parameters.values()
        if it.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    if inspect.isfunction(options):
        own = set(signature.parameters)
        handed_on = [it for it in inspect.signature(options).parameters.values() if it.name not in own]
        return signature.replace(
            parameters=[
                *parameters,
                *(
                    it.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                    for it in handed_on
                    if it.default is not inspect.Parameter.empty
                ),
            ]
        )
    for name, annotation in ({} if options is None else inspect.get_annotations(options)).items():
        shown_as = getattr(annotation, "__forward_arg__", annotation)
        default = DEFAULTS.get(name)
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown_as))
    return signature.replace(parameters=parameters)
