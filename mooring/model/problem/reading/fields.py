"""Checks for single fields of a problem file: each returns the value or says what was found and expected."""

from __future__ import annotations

import difflib
import math
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NoReturn, TypeVar

from mooring.errors import Gathered, InputError

Check = Callable[[object, str], object]
"""(value, path of the field) -> the value, cleaned; raises `InputError`."""

Read = TypeVar("Read")
MOST_PROBLEMS = 50
"""That are told of one file; a stranger's may have a million."""
_MOST_COMPARED = 5_000
_LONGEST_NAME = 200
_SECRET = re.compile(r"sc:/|[;@]|token|secret|password", re.IGNORECASE)
"""What may be, or hold, a token: an address in the wrong place, a misspelt one, or the token by itself."""
_LARGEST = sys.float_info.max
_COUNTED_IN = {
    "capacity": "cores",
    "fixed_cores": "cores",
    "rate": "tuples per second",
    "min_rate": "tuples per second",
    "max_rate": "tuples per second",
    "bytes": "bytes",
    "state_bytes": "bytes",
    "memory_mb": "MB",
}
_SUFFIXES = {"us": "microseconds", "ms": "milliseconds", "s": "seconds"}
"""Of the names of fields."""
_UNIT_WORDS = {
    "cores": {"": 1.0, "core": 1.0, "cores": 1.0, "cpu": 1.0, "cpus": 1.0, "m": 1e-3},
    "tuples per second": {"": 1.0, "/s": 1.0, "k": 1e3, "k/s": 1e3, "m": 1e6, "m/s": 1e6},
    "bytes": {"": 1.0, "b": 1.0, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9},
    "MB": {"": 1.0, "m": 1.0, "mb": 1.0, "mib": 1.048576, "g": 1e3, "gb": 1e3, "gib": 1073.741824},
    "microseconds": {"": 1.0, "us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6},
    "milliseconds": {"": 1.0, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4},
    "seconds": {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
}
"""What people write behind a number, by the unit of its field, and what that is worth in it."""
_WITH_UNIT = re.compile(
    r"((?:[0-9]{1,3}(?:[_ ,][0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?) ?([a-zµ/]*)", re.IGNORECASE
)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, if any is close, of those that can be compared in no time."""
    if len(word) > _LONGEST_NAME:
        return None
    found = difflib.get_close_matches(word, list(islice(known, _MOST_COMPARED)), n=1, cutoff=0.6)
    return found[0] if found else None


def shown(value: object) -> str:
    """A value as an error message shows it: short, and on one line."""
    if isinstance(value, Mapping):
        return f"a mapping with {len(value)} keys" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "a whole number of more than 300 digits"
    if isinstance(value, str) and _SECRET.search(value):
        return f"a text of {len(value)} characters"
    return "nothing" if value is None else reprlib.repr(value)


def child(path: str, key: object) -> str:
    """The path of a field below `path`. Keys that were not checked yet are shown as values are."""
    plain = isinstance(key, str) and key.isprintable() and 0 < len(key) <= _LONGEST_NAME
    return f"{path}.{key if plain else shown(key)}"


def fail(path: str, expected: str, value: object, *, remedy: str | None = None) -> NoReturn:
    raise InputError(f"found {shown(value)}, expected {expected}", field=path, remedy=remedy)


def number(value: object, path: str) -> float:
    """Finite and not negative."""
    if type(value) is not float and type(value) is not int:
        unit = _unit_of(path)
        fail(path, f"a number of {unit}" if unit else "a number", value, remedy=_number_meant(value, unit))
    if not 0.0 <= value <= _LARGEST:
        fail(path, "a finite number that is not negative", value)
    return float(value)


def _unit_of(path: str) -> str:
    """In which a field counts; nothing where it has none, or a name that says none."""
    field = path.rpartition(".")[2]
    return _COUNTED_IN.get(field) or _SUFFIXES.get(field.rpartition("_")[2] if "_" in field else "", "")


def _number_meant(value: object, unit: str) -> str | None:
    """What to write in place of a text that has quotes, digits in groups, or a unit."""
    text = value.strip() if isinstance(value, str) and len(value) <= _LONGEST_NAME else ""
    found = _WITH_UNIT.fullmatch(text)
    if found is None or (worth := _UNIT_WORDS.get(unit, {"": 1.0}).get(found[2].lower())) is None:
        return None
    try:
        plain = float(text)
    except ValueError:
        digits = re.sub("[_ ,]", "", found[1])
        return f"write {float(digits) * worth:.15g}"
    return "write it without quotes" if math.isfinite(plain) else None


def positive(value: object, path: str) -> float:
    result = number(value, path)
    if result == 0.0:
        fail(path, "a number above zero", value)
    return result


def whole(value: object, path: str) -> int:
    """A count of at least one, bounded so that nothing can be asked to allocate without limit."""
    if type(value) is not int or not 1 <= value <= 1_000_000:
        fail(path, "a whole number from 1 to 1000000", value)
    return value


def boolean(value: object, path: str) -> bool:
    if type(value) is not bool:
        fail(path, "true or false", value)
    return value


def name(value: object, path: str) -> str:
    if not isinstance(value, str):
        remedy = "put it in quotes" if isinstance(value, int | float) else None
        fail(path, "a name", value, remedy=remedy)
    if not value or len(value) > _LONGEST_NAME or not value.isprintable() or value != value.strip():
        fail(path, "a name of 1 to 200 printable characters, without leading or trailing space", value)
    return value


def text(value: object, path: str) -> str:
    """Any text, shown to nobody."""
    if not isinstance(value, str):
        fail(path, "a text", value, remedy="put it in quotes" if isinstance(value, int | float) else None)
    return value


def own_name(value: object, path: str) -> str:
    """A name the file gives to something, where `#` is kept for the instances of split operators."""
    result = name(value, path)
    if "#" in result:
        fail(path, "a name without '#', which numbers the instances of split operators", value)
    return result


def names(value: object, path: str) -> tuple[str, ...]:
    """A list of names of other things; whether they exist is for the caller to find out."""
    if isinstance(value, str):
        fail(path, "a list of names", value, remedy=None if _SECRET.search(value) else f"write [{value}]")
    if not isinstance(value, list | tuple) or not value:
        fail(path, "a list of names", value)
    for i, item in enumerate(value):
        if type(item) is not str:
            name(item, f"{path}[{i}]")
    return tuple(value)


def names_or_none(value: object, path: str) -> tuple[str, ...]:
    """The same where the list may be empty."""
    return () if isinstance(value, list | tuple) and not value else names(value, path)


def names_in(section: Mapping[str, object]) -> set[str]:
    """That a file gives to the entries of a section, whatever is wrong with these."""
    return {key for key in section if isinstance(key, str)}


def mapping(value: object, path: str, expected: str = "a mapping") -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        fail(path, expected, value)
    return value


def one_of(*words: str) -> Check:
    def check(value: object, path: str) -> str:
        if value not in words or not isinstance(value, str):
            closest = nearest(value, words) if isinstance(value, str) else None
            fail(
                path,
                f"one of {', '.join(words)}",
                value,
                remedy=f"did you mean {closest}?" if closest else None,
            )
        return value

    return check


def read_fields(raw: object, checks: Mapping[str, Check], path: str) -> dict[str, object]:
    """Every field of a mapping, checked; unknown keys are refused by name, with the nearest known one. What
    is wrong is told of all fields at once.
    """
    gather = Gathered(MOST_PROBLEMS)
    result = noted_fields(raw, checks, path, gather)
    if gather.errors:
        gather.raise_any()
    return result


def noted_fields(raw: object, checks: Mapping[str, Check], path: str, gather: Gathered) -> dict[str, object]:
    """The fields that are sound; what is wrong with the others is noted."""
    if type(raw) is not dict and not isinstance(raw, Mapping):
        fail(path, "a mapping of fields", raw)
    result: dict[str, object] = {}
    for key, value in raw.items():
        try:
            check = checks.get(key) if isinstance(key, str) else None
            if check is None:
                refuse_key(key, checks, path)
            result[key] = check(value, f"{path}.{key}" if path else key)
        except InputError as error:
            gather.note(error)
    return result


def read_entries(section: Mapping[str, object], path: str, read: Callable[[str, object], Read]) -> list[Read]:
    """What `read` makes of every name and its fields, where the names are the file's own; what is wrong is
    told of all entries at once.
    """
    gather = Gathered(MOST_PROBLEMS)
    result = noted_entries(section, path, read, gather)
    if gather.errors:
        gather.raise_any()
    return result


def noted_entries(
    section: Mapping[str, object], path: str, read: Callable[[str, object], Read], gather: Gathered
) -> list[Read]:
    """The same, where what is wrong is noted."""
    result: list[Read] = []
    for key, raw in section.items():
        try:
            result.append(read(own_name(key, child(path, key)), raw))
        except InputError as error:
            gather.note(error)
    return result


def refuse_key(key: object, known: Iterable[str], path: str) -> NoReturn:
    known = sorted(known)
    closest = nearest(key, known) if isinstance(key, str) else None
    remedy = f"did you mean {closest!r}?" if closest else None
    raise InputError(
        f"found the unknown key {shown(key)}, expected one of {', '.join(known)}",
        field=path or None,
        remedy=remedy,
    )


def refuse_reference(value: str, known: Iterable[str], path: str, expected: str) -> NoReturn:
    known = list(islice(known, _MOST_COMPARED))
    closest = nearest(value, known)
    few = ", ".join(sorted(known)[:8]) + (", ..." if len(known) > 8 else "")
    fail(path, expected, value, remedy=f"did you mean {closest!r}?" if closest else f"known: {few or 'none'}")
