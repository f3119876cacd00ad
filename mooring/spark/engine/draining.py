"""Draining: a fragment of the old cut runs to the end of its input, so that it stands between two batches.

Only its own input counts: what its readers have not read stays in its channel. Its flows are those of the
project as it is now, which were not edited; only their division into fragments was, or what it reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from mooring.model.deployment.fragments import Fragment
from mooring.spark.engine.fragment_query import RunningFragment, flow_failure, prepare_fragment
from mooring.spark.engine.fragment_registry import OpenSession
from mooring.spark.engine.lifecycle import START_PATIENCE_S
from mooring.spark.pipeline.cut_changes import CutChange
from mooring.spark.pipeline.layout import Layout
from mooring.spark.sites.endpoint import close_session
from mooring.spark.sites.site_calls import SiteCalls
from mooring.spark.sites.sites import SiteHandles

_POLL_S = 0.1


def drain(
    layout: Layout,
    change: CutChange,
    sites: SiteHandles,
    calls: SiteCalls,
    alive: Callable[[], None],
    note: Callable[[Sequence[OpenSession]], None] = lambda sessions: None,
) -> None:
    """Run the fragment as it was before the change until it has read what there is; `alive` is called now and
    then, for it may take long. `note` is called with the session before the query starts, and with none once
    it has ended.
    """
    site = sites.of(change.site) if change.site is not None else next(iter(sites.values()))
    old = old_cut(layout)

    def start() -> RunningFragment:
        fragment = old.fragments[change.fragment]
        prepared = prepare_fragment(old, fragment, site.name, site.endpoint)
        prepared.to_the_end = True
        note([OpenSession(site.name, change.fragment, prepared.session_id)])
        return prepared.start()

    running = calls.ask(site.name, start, START_PATIENCE_S)
    while calls.ask(site.name, lambda: running.query.isActive):
        alive()
        time.sleep(_POLL_S)
    failure = calls.ask(site.name, running.query.exception)
    calls.ask(site.name, lambda: close_session(running.session))
    note([])
    if failure is not None:
        raise flow_failure(old, change.fragment, site.name, failure)


def old_cut(layout: Layout) -> Layout:
    """The same pipeline, divided as it was, with the flows that it had. Of one that has gone only its channel
    is left, and that has the columns of the table's other writers.
    """
    before, now = layout.before, layout.pipeline
    flows = {name: flow for name, flow in now.flows.items() if name in before.flows}
    for name, was in before.flows.items():
        if name not in flows and (others := now.writers(was.dataset)):
            flows[name] = replace(others[0], name=name, inputs=(), outside=False, stateful=False)
    fragments = {
        name: Fragment(name, members)
        for name, members in before.fragments.items()
        if set(members) <= set(flows)
    }
    return replace(layout, pipeline=replace(now, flows=flows), fragments=fragments)
