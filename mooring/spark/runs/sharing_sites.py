"""Sites of a run that turn out to be applications on one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

from mooring.errors import EngineError
from mooring.spark.pipeline.project import Project
from mooring.spark.pipeline.shared_clusters import counted_once, groups_of, sharing_note
from mooring.spark.sites.endpoint import close_session, open_session
from mooring.spark.sites.sites import SiteHandle, SiteHandles

_STANDALONE = "spark://"
"""Masters of other kinds have one name for many clusters (`yarn`), or grow with what is asked of them."""


def sharing_once(project: Project, sites: SiteHandles) -> tuple[Project, list[str]]:
    """The project with the cores of each cluster once, and what to know about that. Handles in `sites` get
    the same capacities.
    """
    endpoints = [site for site in sites.values() if site.embedded is None]
    masters = {site.name: masters_of(site) for site in endpoints} if len(endpoints) > 1 else {}
    stated = groups_of(project.settings.shares)
    found = groups_of(same_master(masters))
    seen = [group for group in found if not any(group <= known for known in stated)]
    counted = counted_once(project.settings.sites, seen)
    capacity = {site.name: site.capacity for site in counted}
    for name in {name for group in seen for name in group}:
        sites.replace(replace(sites[name], capacity=capacity[name]))
    around = replace(project.settings.around, sites=counted)
    notes = [sharing_note(group, capacity, stated=True) for group in stated]
    notes += [sharing_note(group, capacity, stated=False) for group in seen]
    return replace(project, settings=replace(project.settings, around=around)), notes


def same_master(masters: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Site -> an earlier one with a master in common.

    >>> same_master({"a": frozenset({"h:7077"}), "b": frozenset(), "c": frozenset({"h:7077", "g:7077"})})
    {'c': 'a'}
    """
    shares: dict[str, str] = {}
    for name, own in masters.items():
        first = next((other for other, theirs in masters.items() if own & theirs), name)
        if first != name:
            shares[name] = first
    return shares


def masters_of(site: SiteHandle) -> frozenset[str]:
    """Addresses of the standalone masters that its server is an application of; none for other clusters, or
    where it does not answer: others find that out.
    """
    with contextlib.suppress(EngineError):
        session = open_session(site.endpoint)
        try:
            master = str(session.conf.get("spark.master", ""))
        finally:
            close_session(session)
        if master.startswith(_STANDALONE):
            return frozenset(master.removeprefix(_STANDALONE).split(","))
    return frozenset()
