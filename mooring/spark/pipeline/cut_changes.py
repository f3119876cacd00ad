"""Fragments whose cut became finer, and whether their checkpoint can be carried over to their parts.

A checkpoint holds how far each source was read, the state of the one stateful flow, and a batch number that
the channel's log goes by too. When a fragment becomes several, all of it has one place to go to, provided
that one of the parts, the *head*, reads everything that the fragment read, and each of the others reads one
channel that did not exist before:

- the head goes on where the fragment's sources were left;
- every other part begins with an empty channel, since all earlier rows have passed through it already;
- the state goes with the flow that keeps it, and every part goes on counting batches.

That holds only between two batches. A fragment that was interrupted inside one is drained first: the old cut
runs to the end of its input. Everything else is refused: Spark numbers sources by their order in the query,
and which number would be whose cannot be told.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.spark.pipeline.layout import Layout
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoint_parts import source_count


@dataclass(frozen=True)
class CutChange:
    """A fragment that becomes several."""

    fragment: str
    flows: tuple[str, ...]
    """That it had."""
    parts: tuple[str, ...]
    """Fragments that its flows run in now."""
    head: str
    """The part that goes on with its sources."""
    stateful: str | None
    """The part that goes on with its state."""


def cut_changes(layout: Layout) -> tuple[tuple[CutChange, ...], list[str]]:
    """Fragments to carry over, and why others cannot be."""
    changes, problems = [], []
    for name, flows in layout.before.fragments.items():
        left = [flow for flow in flows if flow in layout.pipeline.flows]
        if not left or stream_logs.last_batch(layout.checkpoint(name) / "offsets") < 0:
            continue
        parts = tuple(dict.fromkeys(layout.home[flow] for flow in left))
        if parts == (name,) and len(left) == len(flows):
            if (why := _sources_differ(layout, name, name)) is not None:
                problems.append(f"the fragment {name!r} cannot go on with its checkpoint: {why}")
            continue
        change = _change(layout, name, parts)
        if isinstance(change, str):
            problems.append(f"the fragment {name!r} would become {', '.join(map(repr, parts))}, but {change}")
        else:
            changes.append(change)
    return tuple(changes), problems


def _change(layout: Layout, name: str, parts: tuple[str, ...]) -> CutChange | str:
    """The change, or why its checkpoint cannot be carried over."""
    before, flows = layout.before, layout.before.fragments[name]
    now = layout.pipeline.flows
    left = [flow for flow in flows if flow in now]
    if edited := [flow for flow in left if now[flow].fingerprint != before.flows[flow].fingerprint]:
        return f"{edited[0]!r} was edited too: change the cut first, run, and edit the flow then"
    heads = [part for part in parts if _reads_from_elsewhere(layout, part, flows)]
    if len(heads) != 1:
        return f"its sources would be divided between {' and '.join(map(repr, heads))}"
    (head,) = heads
    for part in parts:
        if part != head and len(layout.reads_of(part)) != 1:
            return f"{part!r} would read several channels"
    if (why := _sources_differ(layout, name, head)) is not None:
        return why
    checkpoint = layout.checkpoint(name)
    found = source_count(checkpoint)
    expected = len(before.reads[name]) + sum(now[flow].outside for flow in left)
    if found != expected:
        return f"its checkpoint has {found} sources where {expected} are known, so they cannot be told apart"
    if len(left) < len(flows) and interrupted(layout, name):
        gone = next(flow for flow in flows if flow not in now)
        return (
            f"it was interrupted inside a batch: run once more with {gone!r}, and stop it with `mooring stop`"
        )
    keeps = [layout.home[flow] for flow in left if before.flows[flow].stateful]
    return CutChange(name, flows, parts, head, keeps[0] if keeps else None)


def interrupted(layout: Layout, fragment: str) -> bool:
    """Whether the fragment has planned a batch that it has not committed."""
    checkpoint = layout.checkpoint(fragment)
    return stream_logs.last_batch(checkpoint / "offsets") != stream_logs.last_batch(checkpoint / "commits")


def _reads_from_elsewhere(layout: Layout, part: str, flows: tuple[str, ...]) -> bool:
    inside = layout.fragments[part].operators
    outside = any(layout.pipeline.flows[flow].outside for flow in inside)
    return outside or not set(layout.reads_of(part)) <= set(flows)


def _sources_differ(layout: Layout, before: str, now: str) -> str | None:
    """Why a fragment cannot go on with the sources that one had before; None if it can."""
    had, has = layout.before.reads[before], layout.reads_of(now)
    if had == has:
        return None
    more = [flow for flow in has if flow not in had]
    fewer = [flow for flow in had if flow not in has]
    if more or fewer:
        said = [f"it would read {', '.join(map(repr, more))} too"] * bool(more)
        said += [f"it would no longer read {', '.join(map(repr, fewer))}"] * bool(fewer)
        return f"{' and '.join(said)}, and Spark knows sources by their number only"
    return "its sources are in another order"
