"""Problem files: bytes on disk to plain data, and plain data to a problem. Files are treated as hostile."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.errors import InputError
from mooring.model.problem.changes.change import Changes
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.companion import MAX_BYTES
from mooring.model.problem.reading.fields import shown
from mooring.model.problem.reading.json_rows import LARGE_BYTES, split_rows
from mooring.model.problem.reading.yaml12 import MAX_DEPTH, parse_yaml
from mooring.model.problem.schema import changes_from_data, problem_from_data


def load_problem(path: Path) -> Problem:
    with _collector_paused():
        data = load_data(path)
        try:
            return problem_from_data(data, folder=path.parent)
        except InputError as error:
            error.file = error.file or str(path)
            raise


def load_changes(path: Path, problem: Problem) -> Changes:
    """Timed changes of a problem from a file of their own: a list, or a mapping with `changes` alone."""
    data = load_data(path)
    if isinstance(data, dict) and list(data) == ["changes"]:
        data = data["changes"]
    try:
        return changes_from_data(data, problem, folder=path.parent)
    except InputError as error:
        error.file = error.file or str(path)
        raise


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Reading makes millions of objects and no garbage; looking for some would take half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load_data(path: Path) -> object:
    """Plain data from a YAML or JSON file, by its suffix (no suffix: YAML, which contains JSON)."""
    data = read_bytes(path)
    is_json = path.suffix.lower() == ".json"
    if is_json and len(data) > LARGE_BYTES and (found := _with_rows(data, path)) is not None:
        return found
    text = _decoded(data, path)
    try:
        return parse_json(text) if is_json else parse_yaml(text)
    except InputError as error:
        error.file = str(path)
        raise


def _with_rows(data: bytes, path: Path) -> object | None:
    """A large file with its latencies left to be decoded row by row; None where that cannot be."""
    split = split_rows(data, path, parse_json)
    if split is None:
        return None
    rest, rows = split
    try:
        found = parse_json(rest.decode("utf-8-sig"))
    except (UnicodeDecodeError, InputError):
        return None
    if not isinstance(found, dict) or found.get("latency_ms") != {}:
        return None
    return {**found, "latency_ms": rows}


def read_text(path: Path) -> str:
    return _decoded(read_bytes(path), path)


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"found a byte that is not UTF-8 at offset {error.start}, expected text", file=path
        ) from None


def read_bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"found {size} bytes, expected at most {MAX_BYTES}", file=path)
        if not path.is_file():
            raise InputError("is not a regular file, expected a problem file", file=path)
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", file=path, remedy="check the path") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or "not a path"
        raise InputError(f"cannot be read: {reason}", file=path) from None


def parse_json(text: str) -> object:
    """JSON with repeated keys refused; NaN and Infinity pass, so that the field's own check can name them."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=float, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise InputError(f"found nesting deeper than {MAX_DEPTH} levels") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InputError(f"found the key {shown(twice)} twice", remedy="remove or rename one of them")
    return result


def _integer(text: str) -> int | float:
    return int(text) if len(text) < 16 else float(text)
