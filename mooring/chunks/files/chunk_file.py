"""Chunk files: sites and streams as in a problem file, and under `frames` the arrays that flow.

Costs are in the units of problem files: CPU microseconds, here per output cell on a core of speed 1. In the
model a cycle is such a microsecond, so a core of speed s has s million of them per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mooring.arrays import Floats
from mooring.chunks.complexity import ComplexityMap
from mooring.chunks.data.boundary import MODES
from mooring.chunks.model import (
    ArrayOperator,
    ArrayStream,
    ChunkProblem,
    ChunkSite,
    LoadStep,
    MappingClass,
    Switch,
)
from mooring.chunks.partitioning import Shape
from mooring.errors import InputError
from mooring.model.problem.files import load_data
from mooring.model.problem.reading.fields import (
    Check,
    child,
    fail,
    mapping,
    names,
    number,
    one_of,
    positive,
    read_fields,
    refuse_reference,
    whole,
)
from mooring.model.problem.schema import VERSION
from mooring.model.problem.stream import Stream
from mooring.model.problem.surroundings import Surroundings, entries, read_surroundings

MAPPINGS = {
    "cell": MappingClass.CELL,
    "region": MappingClass.REGION,
    "global": MappingClass.GLOBAL,
    "whole": MappingClass.WHOLE,
}
MOST_AXES = 8
MOST_CELLS = 1 << 40
CYCLES_PER_S = 1e6
"""Of a core of speed 1: one cycle per microsecond of `cost_us`."""


def _shape(value: object, path: str) -> Shape:
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_AXES:
        fail(path, f"a list of 1 to {MOST_AXES} lengths, such as [480, 640]", value)
    shape = tuple(whole(length, f"{path}[{axis}]") for axis, length in enumerate(value))
    if math.prod(shape) > MOST_CELLS:
        fail(path, f"at most {MOST_CELLS} cells", list(shape))
    return shape


def _halo(value: object, path: str) -> Shape:
    if not isinstance(value, list | tuple) or not value:
        fail(path, "a list of cells per dimension, such as [1, 1]", value)
    for axis, cells in enumerate(value):
        if type(cells) is not int or not 0 <= cells <= 1_000_000:
            fail(f"{path}[{axis}]", "a whole number of cells from 0 up", cells)
    return tuple(value)


def _signed(value: object, path: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(float(value)):  # type: ignore[arg-type]
        fail(path, "a finite number", value)
    return float(value)  # type: ignore[arg-type]


def _moves(value: object, path: str) -> tuple[float, ...]:
    if not isinstance(value, list | tuple) or not value:
        fail(path, "a list of cells per frame, one number per dimension", value)
    return tuple(_signed(each, f"{path}[{axis}]") for axis, each in enumerate(value))


def _map(value: object, path: str) -> Floats:
    try:
        costs = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        costs = np.empty(0)
    if costs.ndim == 0 or not costs.size or not np.all(np.isfinite(costs)) or costs.min() < 0:
        fail(
            path,
            "lists of equal length of costs that are not negative, one list inside another per dimension",
            value,
        )
    return costs


def _cost(value: object, path: str) -> object:
    """A number for all cells, or a map that may move."""
    if not isinstance(value, Mapping):
        return number(value, path)
    fields = read_fields(value, {"map": _map, "moves": _moves}, path)
    if "map" not in fields:
        fail(f"{path}.map", "costs per block of the frame, such as [[1, 1], [9, 1]]", None)
    return fields


def _load(value: object, path: str) -> tuple[LoadStep, ...]:
    if not isinstance(value, list | tuple):
        fail(path, "a list such as [{at_s: 0, share: 0.3}]", value)
    steps: list[LoadStep] = []
    for at, raw in enumerate(value):
        where = f"{path}[{at}]"
        fields: dict[str, Any] = read_fields(raw, {"at_s": number, "share": number}, where)
        for key, expected in (("at_s", "seconds from the start"), ("share", "the share that others use")):
            if key not in fields:
                fail(f"{where}.{key}", expected, None)
        if fields["share"] >= 1:
            fail(f"{where}.share", "a share from 0 to below 1", fields["share"])
        if steps and fields["at_s"] <= steps[-1].at_s:
            fail(f"{where}.at_s", "a later moment than the step before it", fields["at_s"])
        steps.append(LoadStep(**fields))
    return tuple(steps)


_SECTIONS: dict[str, Check] = {
    "version": lambda value, path: value if value == VERSION else fail(path, f"{VERSION}", value),
    "sites": mapping,
    "streams": mapping,
    "frames": mapping,
}
FRAME_SECTIONS: dict[str, Check] = {
    "streams": mapping,
    "operators": mapping,
    "sites": mapping,
    "switch": mapping,
}
FRAME_STREAM_FIELDS: dict[str, Check] = {"shape": _shape, "cell_bytes": positive}
FRAME_OPERATOR_FIELDS: dict[str, Check] = {
    "inputs": names,
    "mapping": one_of(*MAPPINGS),
    "shape": _shape,
    "halo": _halo,
    "boundary": one_of(*MODES),
    "cost_us": _cost,
    "chunk_us": number,
    "cell_bytes": positive,
}
FRAME_SITE_FIELDS: dict[str, Check] = {"speed": positive, "load": _load}
SWITCH_FIELDS: dict[str, Check] = {
    "megabits_per_s": positive,
    "latency_ms": number,
    "header_bytes": number,
}


def load_chunk_problem(path: Path) -> ChunkProblem:
    """From a YAML or JSON file; `InputError` names the file, the field and what was expected."""
    data = load_data(path)
    try:
        return chunk_problem_from_data(data, path.parent)
    except InputError as error:
        error.file = error.file or str(path)
        raise


def chunk_problem_from_data(data: object, folder: Path | None = None) -> ChunkProblem:
    """Validate and build. `folder` is where files named by streams are looked for; None: nowhere."""
    if not isinstance(data, Mapping) or not data:
        fail(
            "",
            "a chunk file: a mapping with sites, streams and frames",
            data,
            remedy="`mooring example cameras.yaml` copies one",
        )
    sections = read_fields(data, _SECTIONS, "")
    for section in ("sites", "streams", "frames"):
        if not sections.get(section):
            fail(section, "at least one entry", sections.get(section))
    around = read_surroundings(sections, folder)
    frames: dict[str, Any] = read_fields(sections["frames"], FRAME_SECTIONS, "frames")
    streams = _streams(frames.get("streams"), around)
    operators = _operators(frames.get("operators"), streams)
    sites = _sites(frames.get("sites") or {}, around)
    frames_per_s = _frames_per_s(around.streams)
    switch: dict[str, Any] = read_fields(frames.get("switch") or {}, SWITCH_FIELDS, "frames.switch")
    try:
        return ChunkProblem(streams, operators, sites, frames_per_s, Switch(**switch))
    except InputError as error:  # what only shows when all is put together, by the model's own names
        error.field = f"frames.{error.field}" if error.field else "frames"
        raise


def _frames_per_s(streams: tuple[Stream, ...]) -> float:
    """Frames of all streams come at the same moments: they meet by their numbers."""
    first = streams[0]
    for stream in streams[1:]:
        if stream.rate != first.rate:
            fail(
                f"streams.{stream.name}.rate",
                f"{first.rate:g} frames per second, as stream {first.name!r} has: frames meet by number",
                stream.rate,
            )
    if first.rate <= 0:
        fail(f"streams.{first.name}.rate", "frames per second, above zero", first.rate)
    return first.rate


def _streams(section: Any, around: Surroundings) -> tuple[ArrayStream, ...]:
    given = dict(entries(section or {}, "frames.streams"))
    known = {stream.name for stream in around.streams}
    for name in given:
        if name not in known:
            refuse_reference(name, known, f"frames.streams.{name}", "a stream of the section streams")
    made = []
    for stream in around.streams:
        path = f"frames.streams.{stream.name}"
        fields: dict[str, Any] = read_fields(given.get(stream.name) or {}, FRAME_STREAM_FIELDS, path)
        if "shape" not in fields:
            fail(f"{path}.shape", "the shape of its frames, such as [480, 640]", None)
        if stream.bytes:
            fields.setdefault("cell_bytes", stream.bytes / math.prod(fields["shape"]))
        made.append(ArrayStream(stream.name, **fields))
    return tuple(made)


def _operators(section: Any, streams: tuple[ArrayStream, ...]) -> tuple[ArrayOperator, ...]:
    if not section:
        fail("frames.operators", "at least one entry", section)
    given: dict[str, dict[str, Any]] = {
        key: read_fields(raw, FRAME_OPERATOR_FIELDS, f"frames.operators.{key}")
        for key, raw in entries(section, "frames.operators")
    }
    shapes = {stream.name: stream.shape for stream in streams}
    cell_bytes = {stream.name: stream.cell_bytes for stream in streams}
    made = {}
    for key in _in_order(given, set(shapes)):
        made[key] = _operator(key, given[key], shapes, cell_bytes)
        shapes[key], cell_bytes[key] = made[key].shape, made[key].cell_bytes
    return tuple(made[key] for key in given)


def _in_order(given: Mapping[str, dict[str, Any]], streams: set[str]) -> list[str]:
    """Inputs before their readers, so that shapes can be passed on."""
    known = streams | given.keys()
    for key, fields in given.items():
        path = f"frames.operators.{key}"
        if key in streams:
            fail(path, "a name that no stream has", key)
        if "inputs" not in fields:
            fail(f"{path}.inputs", "a list of streams or operators", None)
        for at, source in enumerate(fields["inputs"]):
            if source not in known:
                refuse_reference(source, known, f"{path}.inputs[{at}]", "a stream or an operator")
    order: list[str] = []
    while len(order) < len(given):
        ready = [
            key
            for key, fields in given.items()
            if key not in order and all(name in streams or name in order for name in fields["inputs"])
        ]
        if not ready:
            caught = ", ".join(key for key in given if key not in order)
            raise InputError(f"found operators that wait for one another: {caught}", field="frames.operators")
        order += ready
    return order


def _operator(
    key: str, fields: dict[str, Any], shapes: Mapping[str, Shape], cell_bytes: Mapping[str, float]
) -> ArrayOperator:
    path = f"frames.operators.{key}"
    kind = MAPPINGS[fields.get("mapping", "cell")]
    first = fields["inputs"][0]
    shape: Shape = fields.get("shape", shapes[first])
    if "cost_us" not in fields:
        fail(f"{path}.cost_us", "CPU microseconds per output cell, or a map of them", None)
    if kind is MappingClass.REGION:
        halo = fields.get("halo")
        if halo is None or len(halo) != len(shape):
            fail(f"{path}.halo", f"the cells around its own that it reads, {len(shape)} numbers", halo)
    else:
        for extra in ("halo", "boundary"):
            if extra in fields:
                fail(f"{path}.{extra}", f"{extra} only where mapping is region", fields[extra])
    return ArrayOperator(
        name=key,
        inputs=fields["inputs"],
        shape=shape,
        complexity=_complexity(fields["cost_us"], shape, f"{path}.cost_us"),
        mapping=kind,
        halo=fields.get("halo", ()),
        cell_bytes=fields.get("cell_bytes", cell_bytes[first]),
        cycles_per_chunk=fields.get("chunk_us", 0.0),
    )


def _complexity(cost: float | dict[str, Any], shape: Shape, path: str) -> ComplexityMap:
    if not isinstance(cost, dict):
        return ComplexityMap.even(cost, len(shape))
    costs, moves = cost["map"], cost.get("moves", ())
    if costs.ndim != len(shape) or any(
        blocks > cells for blocks, cells in zip(costs.shape, shape, strict=True)
    ):
        blocks = " x ".join(map(str, costs.shape))
        raise InputError(
            f"found {blocks} blocks, expected at most {' x '.join(map(str, shape))}, as the shape",
            field=f"{path}.map",
        )
    if moves and len(moves) != len(shape):
        fail(f"{path}.moves", f"{len(shape)} numbers, one per dimension", list(moves))
    return ComplexityMap(costs, moves)


def _sites(section: Any, around: Surroundings) -> tuple[ChunkSite, ...]:
    given = dict(entries(section, "frames.sites"))
    for name in given:
        if name not in around.site_names:
            refuse_reference(
                name, around.site_names, child("frames.sites", name), "a site of the section sites"
            )
    made = []
    for site in around.sites:
        fields: dict[str, Any] = read_fields(
            given.get(site.name) or {}, FRAME_SITE_FIELDS, f"frames.sites.{site.name}"
        )
        # A capacity of 1.5 cores is two cores, each three quarters as fast.
        cores = math.ceil(site.capacity)
        speed = fields.get("speed", 1.0) * site.capacity / cores
        made.append(ChunkSite(site.name, speed * CYCLES_PER_S, cores, fields.get("load", ())))
    return tuple(made)
