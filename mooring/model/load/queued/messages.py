"""The effect of one message on a site: its work through all operators there, and its number of output tuples.

A message is what enters a site: a tuple, with the copies of it that enter there together. It passes all
operators that follow at the site before the next one begins; its service is the sum of their work (equation 3
of the ants paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats
from mooring.model.load.queued.station import Flow
from mooring.model.load.queued.steps import Moments, StepArc, Steps


@dataclass(frozen=True)
class SiteEntry:
    """The arcs of one producer that lead into one site, as one flow of messages."""

    site: int
    arcs: tuple[int, ...]
    flow: Flow


@dataclass(frozen=True)
class Messages:
    """Everything about messages that does not depend on how irregularly they come."""

    work: tuple[Moments, ...]
    """Per arc, core-seconds of a tuple at its reader and behind it at that site."""
    inner: tuple[Moments, ...]
    """Per node, core-seconds that one of its outputs causes at its own site."""
    batches: tuple[float, ...]
    """Per arc, how many tuples of one message it carries where it carries one."""
    entries: tuple[SiteEntry, ...]


def messages_of(steps: Steps, speed_cores: Floats) -> Messages:
    """`speed_cores`: what every site has for messages."""
    work, inner = _work(steps)
    entries = tuple(
        SiteEntry(site, arcs, _flow([(steps.arcs[a], work[a]) for a in arcs], float(speed_cores[site])))
        for site, arcs in _entering(steps)
    )
    return Messages(tuple(work), tuple(inner), tuple(_batches(steps)), entries)


def _work(steps: Steps) -> tuple[list[Moments], list[Moments]]:
    """Backwards: an operator's outputs cause what their readers at its site do."""
    work = [Moments(0.0)] * len(steps.arcs)
    inner = [Moments(0.0)] * len(steps.sites)
    for node in reversed(steps.order):
        groups: dict[tuple[int, int], list[int]] = {}
        for a in steps.out[node]:
            arc = steps.arcs[a]
            if arc.reader is not None:
                work[a] = _with_what_follows(arc, inner[arc.reader], steps.send_s[arc.reader])
            if arc.stays:
                groups.setdefault(arc.group, []).append(a)
        mean = variance = 0.0
        for arcs in groups.values():
            part = sum(steps.arcs[a].share * work[a].mean for a in arcs)
            mean += part
            variance += sum(steps.arcs[a].share * (work[a].variance + work[a].mean ** 2) for a in arcs)
            variance -= part**2
        inner[node] = Moments(mean, max(variance, 0.0))
    return work, inner


def _with_what_follows(arc: StepArc, behind: Moments, send_s: float) -> Moments:
    per_output_s = send_s + behind.mean
    mean = arc.work.mean + arc.outputs.mean * per_output_s
    variance = arc.work.variance + arc.outputs.mean * behind.variance
    variance += arc.outputs.variance * per_output_s**2 + 2.0 * arc.covariance * per_output_s
    return Moments(mean, variance)


def _entering(steps: Steps) -> list[tuple[int, tuple[int, ...]]]:
    """Site, and the arcs of one producer that lead there from elsewhere."""
    together: dict[tuple[int, int], list[int]] = {}
    for a, arc in enumerate(steps.arcs):
        if arc.reader is not None and not arc.stays:
            site = steps.sites[arc.reader]
            assert site is not None  # only streams are everywhere
            together.setdefault((arc.producer, site), []).append(a)
    return [(site, tuple(arcs)) for (_, site), arcs in together.items()]


def _flow(copies: Sequence[tuple[StepArc, Moments]], speed_cores: float) -> Flow:
    rate = max(arc.rate for arc, _ in copies)
    if rate <= 0.0:
        return Flow(0.0, 0.0)
    if speed_cores <= 0.0:  # all of it is fixed load, or more than there is
        return Flow(rate, np.inf)
    parts = [(arc.rate / rate, work) for arc, work in copies]
    mean = sum(part * work.mean for part, work in parts)
    variance = sum(part * work.variance + part * (1.0 - part) * work.mean**2 for part, work in parts)
    return Flow(rate, mean / speed_cores, variance / mean**2 if mean > 0.0 else 0.0)


def _batches(steps: Steps) -> list[float]:
    """Forwards: a filter's output comes alone, and of three outputs each is one of three."""
    batch_of_node = [1.0] * len(steps.sites)
    rate_of_node = [0.0] * len(steps.sites)
    batches = [1.0] * len(steps.arcs)
    for node in steps.order:
        for a in steps.out[node]:
            arc = steps.arcs[a]
            batches[a] = 1.0 + arc.share * (batch_of_node[node] - 1.0)
            rate = arc.rate * arc.outputs.mean
            if arc.reader is None or rate <= 0.0:
                continue
            inputs = batches[a] if arc.stays else 1.0
            outputs = arc.outputs.biased + (inputs - 1.0) * arc.outputs.mean
            before = rate_of_node[arc.reader] * batch_of_node[arc.reader]
            rate_of_node[arc.reader] += rate
            batch_of_node[arc.reader] = (before + rate * outputs) / rate_of_node[arc.reader]
    return batches
