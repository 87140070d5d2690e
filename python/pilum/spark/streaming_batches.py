"""Which batch of which stream a commit is, and what the table records of a stream.

The engine records, in the config of the table, the highest batch of each stream and the runs that committed: one look at
the newest manifest says whether a batch was committed. It compares again in each attempt to commit (`docs/format.md`,
section 12.3).

The id of a stream is that of its checkpoint, which Spark keeps over restarts, unless the user chooses one. A run is one
start of the stream. Spark tells both to its tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pilum import _pilum
from pilum.exceptions import ConflictError, InvalidInputError, NotFoundError
from pilum.location import Location, StorageOptions

PREFIX = "pilum.stream."
"""Transaction properties and config keys of streams begin so."""

ID_DIGITS = 13
"""Characters of Spark's ids that a run is made of: 48 bits."""


class StreamBatch(NamedTuple):
    """A batch of a stream."""

    app: str
    batch: int
    checkpoint: str
    run: str
    """The checkpoint and the start of the stream."""

    def properties(self, *, is_claim: bool = False) -> dict[str, str]:
        """Return the transaction properties of the commit."""
        properties = {
            PREFIX + "app": self.app,
            PREFIX + "batch": str(self.batch),
            PREFIX + "run": self.run,
        }
        return {**properties, PREFIX + "claim": "true"} if is_claim else properties


class Recorded(NamedTuple):
    """What a version records of a stream."""

    batch: int
    """The highest batch that was committed; -1 for none."""
    runs: tuple[str, ...]
    """The runs that committed, newest first."""


NOTHING = Recorded(-1, ())


def check_app_id(app: str) -> None:
    """Refuse ids that cannot be part of a config key.

    Raises:
        InvalidInputError: The id is empty, long, or has spaces.
    """
    if not app or len(app) > 100 or any(it.isspace() for it in app):
        raise InvalidInputError(f"application id {app!r}: pass 1 to 100 characters without spaces")


def of_task(app: str | None, fallback: tuple[str, int, str] | None = None) -> StreamBatch:
    """Return the batch that the running task belongs to.

    Args:
        app: The id that the user chose; None for the id of the checkpoint.
        fallback: Application, batch and run, where Spark does not tell its tasks (Connect).

    Raises:
        InvalidInputError: Spark does not say which stream it is.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    told = [
        None if context is None else context.getLocalProperty(name)
        for name in ("sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id")
    ]
    query, batch, run = told
    if query and batch and run:
        checkpoint = query[:ID_DIGITS]
        return StreamBatch(app or query, int(batch), checkpoint, f"{checkpoint}.{run[:ID_DIGITS]}")
    if fallback is None:
        raise InvalidInputError(
            "Spark does not tell this task which stream it belongs to: use pilum.spark.foreach_batch(uri, app_id=..) instead"
        )
    chosen, number, run = fallback
    return StreamBatch(chosen, number, "-", f"-.{run}")


def recorded(uri: str, storage_options: StorageOptions | None, app: str) -> Recorded:
    """Return what the newest version records of a stream."""
    where = Location.of(uri, storage_options)
    try:
        newest = _pilum.open(where.uri, storage_options=where.options())
    except NotFoundError:
        return NOTHING
    text = _pilum.table_maps(newest)[0].get(PREFIX + app)
    if text is None:
        return NOTHING
    batch, *runs = text.split(" ")
    return Recorded(-1 if batch == "-" else int(batch), tuple(runs))


def check_checkpoint(batch: StreamBatch, there: Recorded, uri: str) -> None:
    """Refuse a stream whose application id belongs to another checkpoint: the numbers of its batches mean other rows.

    Raises:
        ConflictError: Another checkpoint committed with this application id.
    """
    if not there.runs:
        return
    checkpoint = there.runs[0].partition(".")[0]
    if checkpoint != batch.checkpoint:
        raise _conflict(
            f"{uri}: application id {batch.app!r} belongs to a stream with another checkpoint ({checkpoint}…, ours is "
            f"{batch.checkpoint}…), which has committed batch {there.batch}: two streams cannot share an application id, and a "
            f"stream with a new checkpoint needs a new one; to let this stream go on from batch 0, call "
            f"pilum.spark.forget_stream(uri, {batch.app!r})"
        )


def check_run(batch: StreamBatch, there: Recorded, uri: str) -> None:
    """Refuse to go on if another run committed the batch that this run has just computed.

    Raises:
        ConflictError: Two runs of the stream are at work.
    """
    if there.runs[:1] != (batch.run,):
        raise _conflict(
            f"{uri}: another run committed batch {batch.batch} of stream {batch.app!r} while this run computed "
            f"it: the stream was "
            f"started twice, or its checkpoint was copied: stop one of them"
        )


def _conflict(message: str) -> ConflictError:
    error = ConflictError(message)
    error.retryable = False
    return error


def claim(batch: StreamBatch, uri: str, storage_options: StorageOptions | None) -> None:
    """Record the run of a restarted stream, whose first batch was committed before: an older run cannot commit any more."""
    where = Location.of(uri, storage_options)
    newest = _pilum.open(where.uri, storage_options=where.options())
    # The engine replaces the value by the batch and the runs.
    _pilum.update_config(
        newest,
        "config",
        [(PREFIX + batch.app, f"{batch.batch} {batch.run}")],
        properties=batch.properties(is_claim=True),
    )


def as_mapping(properties: Mapping[str, str] | None) -> dict[str, str]:
    """Return the user's properties; those of streams are the engine's.

    Raises:
        InvalidInputError: One of them has a reserved name.
    """
    given = dict(properties or {})
    for name in given:
        if name.startswith(PREFIX):
            raise InvalidInputError(
                f"property {name!r}: names that begin with {PREFIX!r} belong to streams: choose another"
            )
    return given
