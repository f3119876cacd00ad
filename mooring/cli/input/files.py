"""Files that verbs write and read besides problem files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mooring.errors import InputError
from mooring.placement.admission import without_queries
from mooring.placement.placement import Placement
from mooring.problem.files import load_data
from mooring.problem.problem import Problem
from mooring.problem.reading.fields import refuse_reference, shown
from mooring.whole_files import write_whole


def write_text(path: Path, text: str) -> None:
    """All or nothing: the text is renamed into place, so a full disk or Ctrl-C leaves no half file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # such as /dev/stdout, which cannot be renamed over
            path.write_text(text, encoding="utf-8")
            return
        write_whole(path, text)
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", file=path, remedy="choose another --output"
        ) from None


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be made: {error.strerror}", file=path, remedy="choose another --output"
        ) from None


def read_placement(path: Path, problem: Problem) -> Placement:
    """From a plan file, or from a bare mapping of operators to sites, for this problem.

    Of a plan that leaves out queries, the placement is that of the problem without them.
    """

    data = load_data(path)
    sites = data.get("placement", data) if isinstance(data, Mapping) else None
    if not isinstance(sites, Mapping):
        raise InputError(
            "found no placement, expected a plan or a mapping of operators to sites",
            file=path,
            remedy="`mooring plan FILE --output PLAN.json` writes one",
        )
    try:
        for operator, site in sites.items():
            if not isinstance(site, str):
                raise InputError(f"found {shown(site)}, expected a site", field=f"placement.{operator}")
        rejected = _rejected(data, problem)
        placed = Placement.from_dict(without_queries(problem, rejected), sites)
        return replace(placed, rejected=rejected)
    except InputError as error:
        error.file = error.file or str(path)
        raise


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
