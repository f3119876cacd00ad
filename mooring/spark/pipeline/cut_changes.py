"""Fragments whose cut became finer or whose sources changed, and how their checkpoint is carried over.

A checkpoint holds how far each source was read, the state of the one stateful flow, and a batch number that
the channel's log goes by too. When a fragment becomes several, all of it has one place to go to, provided
that one of the parts, the *head*, reads everything that the fragment read, and each of the others reads only
channels that did not exist before:

- the head goes on where the fragment's sources were left;
- every other part begins with empty channels, since all earlier rows have passed through it already;
- the state goes with the flow that keeps it, and every part goes on counting batches.

Spark numbers sources by their order in the query. That order is known where all of them stay, and where they
are the channels of one table, which are read in an order of our own; so a table may also gain and lose
writers. Where it is not known, a change is refused.

All of it holds only between two batches, and once the rows of a writer that has gone were read. A fragment
that is not there yet is drained first: the old cut runs to the end of its input.
"""

from __future__ import annotations

from dataclasses import dataclass

from mooring.spark.pipeline.layout import Layout
from mooring.spark.storage import stream_logs
from mooring.spark.storage.checkpoints.checkpoint_parts import has_state, source_count
from mooring.spark.storage.checkpoints.fragment_note import read_fragment_note

Sources = tuple[int | None, ...] | None
"""Of a part, in order: the number that each had, None for one of which nothing was read. None instead of all:
just as they were.
"""


@dataclass(frozen=True)
class Part:
    """A fragment that goes on with something of the checkpoint of another one, or of its own."""

    fragment: str
    sources: Sources
    state: bool
    """It goes on with the state."""


@dataclass(frozen=True)
class CutChange:
    """A fragment that becomes several, or reads other channels than it did."""

    fragment: str
    parts: tuple[Part, ...]
    site: str | None
    """Where its sources must be read; None: anywhere."""


def cut_changes(layout: Layout) -> tuple[tuple[CutChange, ...], list[str]]:
    """Fragments to carry over, and why others cannot be."""
    changes, problems = [], []
    for name, flows in layout.before.fragments.items():
        left = [flow for flow in flows if flow in layout.pipeline.flows]
        if not left or not has_begun(layout, name):
            continue
        parts = list(dict.fromkeys(layout.home[flow] for flow in left))
        if len(left) == len(flows) and parts == [name] and layout.reads_of(name) == layout.before.reads[name]:
            continue
        change = _change(layout, name, left, parts)
        if isinstance(change, CutChange):
            changes.append(change)
        else:
            now = f" as {', '.join(map(repr, parts))}" if parts != [name] else ""
            problems.append(f"the fragment {name!r} cannot continue{now}: {change}")
    return tuple(changes), problems


def _change(layout: Layout, name: str, left: list[str], parts: list[str]) -> CutChange | str:
    """The change, or why its checkpoint cannot be carried over."""
    before, now = layout.before, layout.pipeline.flows
    ran = read_fragment_note(layout.fragment_note(name), layout.disk)
    if edited := [flow for flow in left if now[flow].fingerprint != ran.get(flow)]:
        if parts == [name]:
            return (
                f"{edited[0]!r} reads other tables now: give it another name, and drop the old one (--drop)"
            )
        return f"{edited[0]!r} was edited too: undo that edit, run once, then edit it again"
    found = source_count(layout.checkpoint(name), layout.disk)
    expected = len(before.reads[name]) + sum(now[flow].outside for flow in left)
    if found != expected:
        return f"its checkpoint has {found} sources, expected {expected}, so they cannot be matched"
    keeps_state = any(before.flows[flow].stateful for flow in before.fragments[name])
    if len(parts) > 1 and not keeps_state and has_state(layout.checkpoint(name), layout.disk):
        return "its checkpoint has state that cannot be assigned to one of its flows"
    heads = [part for part in parts if _goes_on(layout, name, part)]
    if len(heads) > 1:
        return f"its sources would be divided between {' and '.join(map(repr, heads))}"
    made = []
    for part in parts:
        sources = _sources(layout, name, part)
        if isinstance(sources, str):
            return sources
        state = any(before.flows[flow].stateful for flow in layout.fragments[part].operators)
        made.append(Part(part, sources, state))
    gone = [flow for flow in before.fragments[name] if flow not in now]
    if gone and interrupted(layout, name):
        return (
            f"it was interrupted inside a batch: run once more with {gone[0]!r}, then end it with "
            "`mooring stop`"
        )
    return CutChange(name, tuple(made), layout.fragments[[*heads, *parts][0]].site)


def has_begun(layout: Layout, fragment: str) -> bool:
    """Whether the fragment has ever planned a batch."""
    return stream_logs.last_batch(layout.checkpoint(fragment) / "offsets", layout.disk) >= 0


def interrupted(layout: Layout, fragment: str) -> bool:
    """Whether the fragment has planned a batch that it has not committed."""
    checkpoint, disk = layout.checkpoint(fragment), layout.disk
    planned = stream_logs.last_batch(checkpoint / "offsets", disk)
    return planned != stream_logs.last_batch(checkpoint / "commits", disk)


def unread(layout: Layout, fragment: str) -> list[str]:
    """Writers that have gone, of whose rows the fragment has not read all."""
    found = []
    for flow in layout.before.reads[fragment]:
        channel = layout.channel_of(flow, layout.before.flows[flow].dataset)
        if flow not in layout.pipeline.flows and channel.exists:
            state = channel.state()
            if state.committed.get(fragment, state.start) < state.end:
                found.append(flow)
    return found


def _goes_on(layout: Layout, name: str, part: str) -> bool:
    """Whether a part reads what the fragment read."""
    outside = any(layout.pipeline.flows[flow].outside for flow in layout.fragments[part].operators)
    return outside or bool(set(layout.reads_of(part)) & set(layout.before.reads[name]))


def _sources(layout: Layout, name: str, part: str) -> Sources | str:
    """Where each source of a part comes from, or why that is not known."""
    had, has = layout.before.reads[name], layout.reads_of(part)
    outside = [flow for flow in layout.before.fragments[name] if _is_outside(layout, flow)]
    own = [flow for flow in layout.fragments[part].operators if _is_outside(layout, flow)]
    if (has, own) == (had, outside):
        return None
    tables = {layout.pipeline.flows[flow].dataset for flow in has}
    if _goes_on(layout, name, part):
        tables |= {layout.before.flows[flow].dataset for flow in had}
    if len(tables) == 1 and not own:
        return tuple(had.index(flow) if flow in had else None for flow in has)
    more = [f"it would read {flow!r} too" for flow in has if flow not in had]
    fewer = [f"it would no longer read {flow!r}" for flow in had if flow not in has]
    return " and ".join([*more, *fewer]) + ", and the numbers of its sources are unknown"


def _is_outside(layout: Layout, flow: str) -> bool:
    return flow in layout.pipeline.flows and layout.pipeline.flows[flow].outside
