"""The streams and sinks a plan is made with: those of `mooring.yml`, and what is taken where it says nothing.

A source without an entry under `streams` is taken as one that every site can read, and a sink without one
under `queries` as one that every site can write to. A stream without a rate has the one that runs
measured, or an assumed one until a run has measured any. All of it is said.
"""

from __future__ import annotations

import msgspec

from mooring.model.problem.stream import Stream
from mooring.quantity import decimal
from mooring.spark.definitions.session_settings import setting_notes
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.project import ASSUMED_RATE
from mooring.spark.storage.learnt import LearntFlow


def streams_used(layout: Layout) -> tuple[Stream, ...]:
    """Those of `mooring.yml` in its order, then the sources that it does not name."""
    settings, rates = layout.project.settings, measured_rates(layout)
    stated = [
        _rated(stream, rates) if stream.name in settings.unrated else stream
        for stream in settings.around.streams
    ]
    found = [_rated(Stream(name=name, rate=ASSUMED_RATE), rates) for name in unnamed_sources(layout)]
    return (*stated, *found)


def unnamed_sources(layout: Layout) -> list[str]:
    """Datasets that an outside source feeds, without an entry under `streams`."""
    return [name for name in layout.entries if name not in layout.project.settings.streams]


def measured_rates(layout: Layout) -> dict[str, float]:
    """Stream -> rows per second as runs have learnt them, of those that brought any in."""
    return {name: line.rate for name, line in _learnt_streams(layout).items()}


def _learnt_streams(layout: Layout) -> dict[str, LearntFlow]:
    """What was learnt of the flow that brings each stream in; how it is computed says little of its rate."""
    found = {
        flow.dataset: layout.learnt.nearest(flow.name, flow.fingerprint)
        for flow in layout.pipeline.flows.values()
        if flow.outside
    }
    return {stream: line for stream, line in found.items() if line is not None and line.rate > 0.0}


def streams_without_rate(layout: Layout) -> list[str]:
    """Neither stated nor measured."""
    rates = measured_rates(layout)
    unrated = [*layout.project.settings.unrated, *unnamed_sources(layout)]
    return [name for name in unrated if name not in rates]


def unnamed_sinks(layout: Layout) -> list[str]:
    """Sinks without a site under `queries`: they run wherever the plan puts them."""
    queries = layout.project.settings.queries
    return [sink.name for sink in layout.pipeline.sinks if sink.name not in queries]


def assumption_notes(layout: Layout) -> list[str]:
    """What was taken for streams and sinks of which `mooring.yml` says less than a plan needs, and which
    settings of the spec are not."""
    unnamed, rates = unnamed_sources(layout), measured_rates(layout)
    notes = []
    if left_out := layout.pipeline.left_out:
        notes.append(f"left out by `skip` in mooring.yml, with what reads it: {', '.join(left_out)}")
    if unnamed:
        notes.append(f"{', '.join(unnamed)}: not under `streams`, so every site may read it")
    if sinks := unnamed_sinks(layout):
        notes.append(f"{', '.join(sinks)}: not under `queries`, so every site may write it")
    unrated = [*layout.project.settings.unrated, *unnamed]
    measured = [name for name in unrated if name in rates]
    assumed = streams_without_rate(layout)
    if measured:
        lines = _learnt_streams(layout)
        shown = ", ".join(
            f"{name} {decimal(rates[name])} ± {decimal(lines[name].rate_error, 1)}" for name in measured
        )
        notes.append(f"rates as learnt by runs, in rows per second: {shown}")
    if assumed:
        notes.append(
            f"the rate of {', '.join(assumed)} is unknown: assumed {ASSUMED_RATE:g} rows per second until "
            "the first minute of a run measures it"
        )
    return [*notes, *layout.project.settings.latency_notes, *setting_notes(layout.project.spec)]


def _rated(stream: Stream, rates: dict[str, float]) -> Stream:
    rate = max(rates.get(stream.name, stream.rate), stream.min_rate)
    if stream.max_rate is not None:
        rate = min(rate, stream.max_rate)
    return msgspec.structs.replace(stream, rate=rate)
