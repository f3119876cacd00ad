"""Problems and placements in whichever form they are given: as objects, as plain data, or by a file's name.

A placement's file is a plan as `mooring plan --output` writes it, or a bare mapping of operators to sites.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Protocol

from mooring.errors import InputError
from mooring.model.placement.admission import without_queries
from mooring.model.placement.placement import Placement
from mooring.model.problem.files import load_data
from mooring.model.problem.problem import Problem
from mooring.model.problem.reading.fields import refuse_reference, shown


class HasPlacement(Protocol):
    """A plan, for one."""

    @property
    def placement(self) -> Placement: ...


SomeProblem = Problem | Mapping[str, object] | str | PathLike[str]
"""A problem, plain data as a problem file would hold it, or the name of a problem file."""
SomePlacement = Placement | HasPlacement | Mapping[str, object] | str | PathLike[str]
"""A placement, a plan, a mapping of operators to sites, or the name of a plan file."""


def problem_of(given: SomeProblem) -> Problem:
    match given:
        case Problem():
            return given
        case Mapping():
            return Problem.from_dict(given)
        case str() | PathLike():
            return Problem.load(Path(given))
    raise _another_kind(given, "problem", "a Problem, a mapping with the fields of a problem file")


def placement_of(given: SomePlacement, problem: Problem) -> Placement:
    match getattr(given, "placement", given):
        case Placement() as placement:
            return placement
        case Mapping() as data:
            return placement_from_data(data, problem)
        case str() | PathLike() as name:
            return read_placement(Path(name), problem)
    raise _another_kind(given, "placement", "a Placement, a plan, a mapping of operators to sites")


def _another_kind(given: object, field: str, expected: str) -> InputError:
    return InputError(f"found {type(given).__name__}, expected {expected} or a file name", field=field)


def read_placement(path: Path, problem: Problem) -> Placement:
    """From a plan file, or from a bare mapping of operators to sites, for this problem.

    Of a plan that leaves out queries, the placement is that of the problem without them.
    """
    try:
        return placement_from_data(load_data(path), problem)
    except InputError as error:
        error.file = error.file or str(path)
        raise


def placement_from_data(data: object, problem: Problem) -> Placement:
    """The same from plain data, as such a file would hold it."""
    sites = data.get("placement", data) if isinstance(data, Mapping) else None
    if not isinstance(sites, Mapping):
        raise InputError(
            "found no placement, expected a plan or a mapping of operators to sites",
            remedy="`mooring plan FILE --output PLAN.json` writes one",
        )
    for operator, site in sites.items():
        if not isinstance(site, str):
            raise InputError(f"found {shown(site)}, expected a site", field=f"placement.{operator}")
    rejected = _rejected(data, problem)
    placed = Placement.from_dict(without_queries(problem, rejected), sites)
    return replace(placed, rejected=rejected)


def _rejected(data: object, problem: Problem) -> dict[str, str]:
    """The queries that a plan leaves out, with their reasons; none of a bare mapping."""
    found = data.get("rejected", {}) if isinstance(data, Mapping) and "placement" in data else {}
    if not isinstance(found, Mapping):
        raise InputError(f"found {shown(found)}, expected a mapping of queries to reasons", field="rejected")
    known = {query.name: query.name for query in problem.queries}
    for query in found:
        if query not in known:
            refuse_reference(str(query), known, f"rejected.{query}", "a query of the problem")
    return {str(query): str(reason) for query, reason in found.items()}
