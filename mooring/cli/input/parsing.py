"""Command lines to values: argparse whose complaints are ordinary input errors, and shared options."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError

MAX_SEED = 2**63 - 1
_SPECS = ("spark-pipeline.yml", "spark-pipeline.yaml")


class Parser(argparse.ArgumentParser):
    """Raises `InputError` instead of exiting, so that a mistyped option is reported like any bad input."""

    def __init__(self, **options: object) -> None:
        super().__init__(allow_abbrev=False, **options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise InputError(_with_nearest(message), remedy=f"see {self.prog} --help")


RunVerb: TypeAlias = Callable[[argparse.Namespace, Terminal], int]
"""Does a verb's work and returns the exit code."""


def _with_nearest(message: str) -> str:
    """Argparse lists all choices; say which of them was probably meant."""
    found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    if found is None:
        return message
    choices = [choice.strip(" '") for choice in found[2].split(",")]
    near = difflib.get_close_matches(found[1], choices, n=1)
    return f"{message}; did you mean {near[0]}?" if near else message


def add_shared_options(parser: Parser) -> None:
    """The options that every verb has."""
    parser.add_argument("--json", action="store_true", help="print one JSON document with stable keys")
    parser.add_argument("--seed", type=seed, default=0, help="seed of all random choices (default 0)")


def add_problem(parser: Parser) -> None:
    parser.add_argument(
        "problem", metavar="FILE", type=Path, nargs="?", help="problem file, YAML or JSON, or project folder"
    )
    _add_spec(parser)


def add_project(parser: Parser) -> None:
    parser.add_argument(
        "project", metavar="PROJECT", type=Path, nargs="?", help="project folder (default: the current one)"
    )
    _add_spec(parser)


def _add_spec(parser: Parser) -> None:
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="pipeline spec to use where a folder has several"
    )


def settle_source(args: argparse.Namespace) -> None:
    """The one path that a verb is about: the spec if one is named, else the file or folder given, else this
    folder where a project is meant.
    """
    for where in ("problem", "project"):
        if not hasattr(args, where):
            continue
        given = getattr(args, where)
        if args.spec is not None:
            setattr(args, where, _named_spec(args.spec, given))
        elif given is None and where == "project":
            args.project = _project_around(Path.cwd())
        elif given is None:
            raise InputError("found no FILE", field="FILE", remedy="give a problem file or a project folder")


def _project_around(folder: Path) -> Path:
    """This folder, or the nearest around it that has a pipeline spec, as `spark-pipelines` looks for it."""
    around = [folder, *folder.parents]
    return next((each for each in around if any((each / name).is_file() for name in _SPECS)), folder)


def _named_spec(spec: Path, folder: Path | None) -> Path:
    """As from here, or as from the project's folder."""
    tried = [spec] if folder is None else [spec, folder / spec]
    for path in tried:
        if path.is_file():
            return path
    raise InputError(
        "no such file", file=spec, field="--spec", remedy="give the path of a pipeline spec (YAML)"
    )


def seed(text: str) -> int:
    return _whole(text, 0, MAX_SEED)


def count(text: str) -> int:
    return _whole(text, 0, 10**12)


def positive_count(text: str) -> int:
    return _whole(text, 1, 10**12)


def _whole(text: str, least: int, most: int) -> int:
    try:
        value = int(text) if len(text) < 30 else None
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected a whole number from {least} up")
    return value


def seconds(text: str) -> float:
    value = _number(text)
    if value is None or value <= 0:
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected seconds above zero")
    return value


_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}


def duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1.5m`, `2h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected a time such as 90s, 2m or 1h")
    return float(match[1]) * _UNITS_S[match[2]]


def numbers(text: str) -> tuple[float, float]:
    """A range: two numbers with a comma between, or one that is both ends."""
    parts = [_number(part) for part in text.split(",")]
    values = [part for part in parts if part is not None]
    if len(values) != len(parts) or len(values) not in (1, 2):
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected LOW,HIGH or one number")
    return values[0], values[-1]


def number(text: str) -> float:
    value = _number(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"found {text[:40]!r}, expected a number")
    return value


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def settings(pairs: Sequence[str], option: str = "--set") -> Mapping[str, str]:
    """`--set NAME=VALUE`, repeated."""
    result: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InputError(f"found {pair!r}, expected NAME=VALUE", field=option)
        if name.strip() in result:
            raise InputError(f"found {name.strip()!r} twice", field=option, remedy="keep one of them")
        result[name.strip()] = value.strip()
    return result


def names(text: str) -> tuple[str, ...]:
    """A list with commas between."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
