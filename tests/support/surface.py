"""What tests of public calls share: the arguments that a call needs, and what every call says to a misspelt keyword."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pilum

Valid = Callable[[str, str], Any]
"""Returns a value that a call, given by its name, takes for an argument, given by its name."""


def needed(valid: Valid, name: str, call: Callable[..., Any], without: str | None = None) -> dict[str, Any]:
    """Return valid values for the required arguments of a call, `without` excepted."""
    return {
        it.name: valid(name, it.name)
        for it in inspect.signature(call).parameters.values()
        if it.default is inspect.Parameter.empty
        and it.kind not in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        and it.name != without
    }


def taken_or_badly_refused(calls: Iterable[tuple[str, Callable[..., Any]]], valid: Valid) -> list[str]:
    """Call each call with a misspelt keyword; return which of them do not refuse it with the nearest name."""
    wrong = []
    for name, call in calls:
        known = [
            it.name
            for it in inspect.signature(call).parameters.values()
            if it.kind in {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        ]
        target = max(known, key=len, default="")
        misspelt = target[:1] + target[2:] + "s" if len(target) > 3 else "no_such_argument"
        try:
            call(**needed(valid, name, call), **{misspelt: 1})
        except pilum.InvalidInputError as error:
            message = str(error)
            if f"no argument {misspelt!r}" not in message or (
                len(target) > 3 and f"did you mean {target!r}" not in message
            ):
                wrong.append(f"{name}: {message}")
        except Exception as error:
            wrong.append(f"{name}({misspelt}=): {error!r}")
        else:
            wrong.append(f"{name}({misspelt}=): taken")
    return wrong
