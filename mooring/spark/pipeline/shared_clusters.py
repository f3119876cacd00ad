"""Sites that are applications on one cluster: what one of them uses, the others lack.

Every application of a cluster holds cores of its own, so a cluster's cores count once: those of the site with
the largest capacity, less those of the others. `shares: NAME` says so in `mooring.yml`; applications of one
standalone master are recognised when they are up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from mooring.errors import Gathered, InputError
from mooring.model.problem.reading.fields import name, refuse_key
from mooring.model.problem.site import Site
from mooring.quantity import decimal

SHARES = "shares"


def read_shares(sites: Mapping[Any, Any], gather: Gathered) -> tuple[dict[Any, Any], dict[str, str]]:
    """The section without `shares`, and site -> the site whose cluster it is on."""
    rest, shares = dict(sites), dict[str, str]()
    for key, raw in sites.items():
        if not isinstance(raw, Mapping) or SHARES not in raw:
            continue
        rest[key] = {each: value for each, value in raw.items() if each != SHARES}
        path = f"sites.{key}.{SHARES}"
        with gather.noting():
            other = name(raw[SHARES], path)
            if other not in sites:
                refuse_key(other, [each for each in sites if each != key], path)
            both = [each for each in (raw, sites[other]) if isinstance(each, Mapping) and "connect" in each]
            if other == str(key) or len(both) < 2:
                raise InputError(
                    f"found {other!r}, expected another site with `connect`",
                    field=path,
                    remedy="embedded sites share no cluster; remove it",
                )
            shares[str(key)] = other
    return rest, shares


def groups_of(shares: Mapping[str, str]) -> list[set[str]]:
    """Sites of one cluster each.

    >>> [sorted(group) for group in groups_of({"b": "a", "c": "b", "e": "d"})]
    [['a', 'b', 'c'], ['d', 'e']]
    """
    groups: list[set[str]] = []
    for one, other in shares.items():
        touched = [group for group in groups if group & {one, other}]
        groups = [group for group in groups if group not in touched]
        groups.append({one, other}.union(*touched))
    return groups


def counted_once(sites: Iterable[Site], groups: Iterable[Collection[str]]) -> tuple[Site, ...]:
    """With the cores of each cluster once.

    >>> sites = [Site(name="a", capacity=3.0), Site(name="b", capacity=1.0), Site(name="c", capacity=2.0)]
    >>> [site.capacity for site in counted_once(sites, [{"a", "b"}])]
    [2.0, 1.0, 2.0]
    >>> [site.capacity for site in counted_once(sites, [{"a", "b", "c"}])]
    [1.5, 0.5, 1.0]
    """
    found = {site.name: site for site in sites}
    for group in groups:
        members = sorted((found[each] for each in group if each in found), key=lambda site: -site.capacity)
        if len(members) < 2:
            continue
        whole, others = members[0].capacity, sum(site.capacity for site in members[1:])
        if others < whole:
            members[0] = msgspec.structs.replace(members[0], capacity=whole - others)
        else:
            scale = whole / (whole + others)
            members = [msgspec.structs.replace(site, capacity=scale * site.capacity) for site in members]
        found |= {site.name: site for site in members}
    return tuple(found.values())


def sharing_note(group: Collection[str], capacity: Mapping[str, float], *, stated: bool) -> str:
    parts = ", ".join(f"{each} {decimal(capacity[each])}" for each in sorted(group))
    how = "" if stated else f" (state it: `{SHARES}: {min(group)}` for the others)"
    return (
        f"{', '.join(sorted(group))} are applications on one cluster, whose cores count once{how}: {parts}. "
        "Start each Connect server with spark.cores.max of no more than that, or the first takes all cores"
    )
