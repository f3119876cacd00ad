"""Chunk plans as documents: `mooring chunks --output` writes them, `--from` and flows on Spark read them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mooring.chunks.data.routing_table import Route
from mooring.chunks.model import ChunkPlan, ChunkProblem, OperatorChunks
from mooring.chunks.partitioning import Partitioning
from mooring.errors import InputError
from mooring.model.problem.files import load_data
from mooring.model.problem.reading.fields import fail, mapping, number, whole


def chunk_fingerprint(problem: ChunkProblem) -> str:
    """Equal for equal problems: what a chunk plan was made for."""
    parts = {
        "streams": sorted((each.name, each.shape, each.cell_bytes) for each in problem.streams),
        "operators": sorted(
            (
                each.name,
                each.inputs,
                each.shape,
                str(each.mapping),
                each.halo,
                each.cell_bytes,
                each.cycles_per_chunk,
                each.complexity.cycles_per_cell.tolist(),
                each.complexity.cells_per_frame,
            )
            for each in problem.operators
        ),
        "sites": sorted(
            (
                each.name,
                each.cycles_per_s,
                each.cores,
                [(step.at_s, step.share) for step in each.external_load],
            )
            for each in problem.sites
        ),
        "rate": problem.frames_per_s,
        "switch": problem.switch,
    }
    return f"sha256:{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]}"


def operators_document(plan: ChunkPlan) -> dict[str, object]:
    """Per operator: parts per dimension, how many chunks that makes, and the site of each."""
    return {
        name: {
            "parts": list(chunks.partitioning.parts),
            "chunks": chunks.partitioning.count,
            "sites": list(chunks.sites),
        }
        for name, chunks in plan.operators.items()
    }


def load_chunk_plan(path: Path) -> ChunkPlan:
    """The chunk plan that `mooring chunks --output` wrote."""
    data = load_data(path)
    try:
        document = mapping(data, "", "a chunk plan, as `mooring chunks FILE --output PLAN.json` writes it")
        operators = mapping(document.get("operators"), "operators", "the operators of a chunk plan")
        return ChunkPlan(
            {name: _operator(raw, f"operators.{name}") for name, raw in operators.items()},
            number(document.get("latency_ms"), "latency_ms"),
            number(document.get("latency_bound_ms"), "latency_bound_ms"),
        )
    except InputError as error:
        error.file = error.file or str(path)
        raise


def routes_of(plan: ChunkPlan, sites: Sequence[str]) -> dict[str, Route]:
    """A chunk plan as routes for Spark, with sites, or the bins that stand for them, numbered as given.

    Where a plan leaves the sites open (earliest finish), there is no route to give: take a router instead.
    """
    routes = {}
    for name, chunks in plan.operators.items():
        unknown = [site for site in chunks.sites if site not in sites]
        if unknown or not chunks.sites:
            raise InputError(
                f"found {'the site ' + repr(unknown[0]) if unknown else 'no sites'} for operator {name!r}",
                remedy="give all sites of the plan; a plan by earliest-finish names none",
            )
        routes[name] = Route(chunks.partitioning.parts, tuple(sites.index(site) for site in chunks.sites))
    return routes


def _operator(raw: object, path: str) -> OperatorChunks:
    fields: Mapping[str, Any] = mapping(raw, path)
    parts, sites = fields.get("parts"), fields.get("sites", [])
    if not isinstance(parts, list) or not parts:
        fail(f"{path}.parts", "a list of parts per dimension", parts)
    partitioning = Partitioning(tuple(whole(part, f"{path}.parts") for part in parts))
    is_named = isinstance(sites, list) and all(isinstance(site, str) for site in sites)
    if not is_named or len(sites) not in (0, partitioning.count):
        fail(f"{path}.sites", f"a list of {partitioning.count} sites, or an empty one", sites)
    return OperatorChunks(partitioning, tuple(sites))
