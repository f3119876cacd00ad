"""Fragments: operators that always run together as one streaming query, cut once from the graph before
placement.

Every fragment costs a fixed part of a core per micro-batch, so operators are joined wherever that changes
nothing else: along an edge whose producer has no other reader, unless a pin, the user, or state stands
against it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class CutNode:
    """What cutting needs to know of one operator."""

    name: str
    inputs: tuple[str, ...] = ()
    """Operators it reads."""
    site: str | None = None
    """Pinned here."""
    stateful: bool = False
    channel_after: bool = False
    """Its output must be a channel: a query reads it, the user cut here, or several operators write the same
    dataset.
    """
    part: str = ""
    """Operators of different parts are never joined: those that ran in different fragments before."""
    settings: frozenset[tuple[str, str]] = frozenset()
    """What the engine is to be set to for it. Operators of different settings are never joined."""


@dataclass(frozen=True)
class Fragment:
    """Named after its last operator, the only one whose output leaves it."""

    name: str
    operators: tuple[str, ...]
    """Each after those it reads."""
    site: str | None = None
    """Pinned here."""


def cut(nodes: Collection[CutNode]) -> list[Fragment]:
    """Fragments of a graph whose nodes come in an order where each follows what it reads."""
    by_name = {node.name: node for node in nodes}
    readers: dict[str, list[str]] = {name: [] for name in by_name}
    for node in nodes:
        for source in node.inputs:
            readers[source].append(node.name)
    label = {name: name for name in by_name}
    members: dict[str, list[str]] = {name: [name] for name in by_name}
    for node in reversed(list(nodes)):
        if node.channel_after or len(readers[node.name]) != 1:
            continue
        (reader,) = readers[node.name]
        joined = [by_name[name] for name in (*members[label[node.name]], *members[label[reader]])]
        if _may_join(joined):
            old, new = label[node.name], label[reader]
            for name in members[old]:
                label[name] = new
            members[new] = members.pop(old) + members[new]
    order = {node.name: at for at, node in enumerate(nodes)}
    return [
        Fragment(name, tuple(sorted(inside, key=order.__getitem__)), _pin([by_name[n] for n in inside]))
        for name, inside in sorted(members.items(), key=lambda item: order[item[0]])
    ]


def _may_join(nodes: Collection[CutNode]) -> bool:
    """One site, part and settings for all (pinned and free operators stay apart), and state at most once per
    query.
    """
    alike = len({(node.site, node.part, node.settings) for node in nodes}) == 1
    return alike and sum(node.stateful for node in nodes) <= 1


def _pin(nodes: Collection[CutNode]) -> str | None:
    return next((node.site for node in nodes if node.site is not None), None)
