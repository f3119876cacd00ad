"""Draining: a fragment of the old cut runs to the end of its input, so that it stands between two batches.

Only its own input counts: what its readers have not read stays in its channel. Its flows are those of the
project as it is now, which were not edited; only their division into fragments was.
"""

from __future__ import annotations

import time
from dataclasses import replace

from mooring.deployment.fragments import Fragment
from mooring.spark.pipeline.cut_changes import CutChange
from mooring.spark.pipeline.layout import Layout
from mooring.spark.running.fragment_query import flow_failure, prepare_fragment
from mooring.spark.sites.endpoint import close_session
from mooring.spark.sites.sites import SiteHandles

_POLL_S = 0.1


def drain(layout: Layout, change: CutChange, sites: SiteHandles) -> None:
    """Run the fragment as it was before the change until it has read what there is."""
    pinned = layout.fragments[change.head].site
    site = sites.of(pinned) if pinned is not None else next(iter(sites.values()))
    old = _old_cut(layout)
    prepared = prepare_fragment(old, old.fragments[change.fragment], site.name, site.endpoint)
    prepared.to_the_end = True
    running = prepared.start()
    try:
        while running.query.isActive:
            time.sleep(_POLL_S)
        failure = running.query.exception()
    finally:
        close_session(running.session)
    if failure is not None:
        raise flow_failure(old, change.fragment, site.name, failure)


def _old_cut(layout: Layout) -> Layout:
    """The same pipeline, divided as it was."""
    flows = layout.pipeline.flows
    fragments = {
        name: Fragment(name, members)
        for name, members in layout.before.fragments.items()
        if set(members) <= set(flows)
    }
    return replace(layout, fragments=fragments)
