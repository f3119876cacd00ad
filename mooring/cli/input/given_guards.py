"""Guards from a command line: `--guard NAME=VALUE`, repeated."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, get_type_hints

from mooring.algorithms.catalogue import parse_setting
from mooring.cli.input.parsing import Parser
from mooring.controller.guards import DAY_S, GuardOptions
from mooring.errors import InputError
from mooring.model.problem.reading.fields import refuse_reference

_GUARDS = get_type_hints(GuardOptions)


def add_guards(parser: Parser) -> None:
    parser.add_argument(
        "--guard",
        action="append",
        metavar="NAME=VALUE",
        help=f"limit for every decider, repeatable; NAME is one of {', '.join(_GUARDS)}",
    )


def given_guards(args: argparse.Namespace) -> GuardOptions:
    values: dict[str, Any] = {}
    for pair in args.guard or ():
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"found {pair!r}, expected NAME=VALUE", field="--guard")
        if name not in _GUARDS:
            refuse_reference(name, _GUARDS, "--guard", "a guard")
        values[name] = _guard(name, text.strip(), _GUARDS)
    return GuardOptions(**values)


def _guard(name: str, text: str, hints: Mapping[str, object]) -> object:
    if name == "untouched":
        return frozenset(part.strip() for part in text.split(",") if part.strip())
    if name == "quiet_hours":
        return tuple(_hours(part) for part in text.split(","))
    return parse_setting(text, hints[name], f"--guard {name}")


def _hours(text: str) -> tuple[float, float]:
    """
    >>> _hours("22:00-06:30")
    (79200.0, 23400.0)
    """
    start, _, end = text.strip().partition("-")
    return _second_of_day(start, text), _second_of_day(end, text)


def _second_of_day(text: str, whole: str) -> float:
    hours, _, minutes = text.strip().partition(":")
    if hours.isdigit() and (minutes or "0").isdigit():
        second = 3600.0 * int(hours) + 60.0 * int(minutes or 0)
        if second <= DAY_S:
            return second
    raise InputError(f"found {whole!r}, expected hours such as 22:00-06:00", field="--guard quiet_hours")
