"""Shuffle partitions of a fragment: into how many parts Spark splits its state and its shuffles.

Spark fixes the number with the first batch of a checkpoint, and every partition costs each batch a task and,
where there is state, a file per store. A server's default is 200. So the number is set in the session before
a query starts: a partition for each core of the largest site that may run the fragment. What the spec or the
flow states wins, and a checkpoint keeps the number that it began with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from mooring.model.problem.site import Site
from mooring.spark.pipeline.layout import Layout, pin_of
from mooring.spark.sites.site_jvm import usable_cores
from mooring.spark.storage import stream_logs
from mooring.spark.storage.owned_folder import newest_owned

SETTING = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class ShufflePartitions:
    chosen: int
    """Of a checkpoint that begins now."""
    kept: int | None = None
    """By the checkpoint that is there; None: none is, or it has not planned a batch."""
    stated: bool = False
    """The spec or the flow says so."""

    @property
    def count(self) -> int:
        """In force."""
        return self.chosen if self.kept is None else self.kept

    @property
    def differs(self) -> bool:
        return self.count != self.chosen

    def as_json(self) -> dict[str, object]:
        return {"count": self.count, "chosen": self.chosen, "kept": self.kept, "stated": self.stated}


def partitions_of(layout: Layout, fragment: str) -> ShufflePartitions:
    stated = _stated(layout, fragment)
    chosen = _cores_of_largest(layout, _sites_of(layout, fragment)) if stated is None else stated
    kept = None if layout.pipeline.is_view(fragment) else _recorded(layout, fragment)
    return ShufflePartitions(chosen, kept, stated is not None)


def use_partitions(layout: Layout, fragment: str, session: SparkSession, *, kept: bool = False) -> None:
    """For what is started in this session. `kept`: with the number of the checkpoint, which Spark takes by
    itself where it resumes one.
    """
    found = partitions_of(layout, fragment)
    session.conf.set(SETTING, str(found.count if kept else found.chosen))


def shuffling(layout: Layout) -> dict[str, ShufflePartitions]:
    """Of the fragments with state, for which the number is fixed for good."""
    flows = layout.pipeline.flows
    return {
        name: partitions_of(layout, name)
        for name, fragment in layout.fragments.items()
        if any(flows[flow].stateful for flow in fragment.operators)
    }


def cores_of(layout: Layout, fragment: str) -> int:
    """That it can use at a time: one for each part of its state. What keeps none reads as many files at a
    time as a site has cores.
    """
    flows = layout.pipeline.flows
    if any(flows[flow].stateful for flow in layout.fragments[fragment].operators):
        return partitions_of(layout, fragment).count
    return _cores_of_largest(layout, _sites_of(layout, fragment))


def partition_notes(partitions: dict[str, ShufflePartitions]) -> list[str]:
    """Which checkpoints keep another number than would be chosen now.

    >>> partition_notes({"counts": ShufflePartitions(2, 200), "join": ShufflePartitions(2, 2)})
    ['counts keeps the 200 shuffle partitions of its checkpoint; 2 would be chosen now. A full refresh \
(`mooring run --once --full-refresh`) starts a new checkpoint']
    """
    return [
        f"{name} keeps the {of.count} shuffle partitions of its checkpoint; {of.chosen} would be chosen now. "
        "A full refresh (`mooring run --once --full-refresh`) starts a new checkpoint"
        for name, of in partitions.items()
        if of.differs
    ]


def _stated(layout: Layout, fragment: str) -> int | None:
    """A flow's own setting wins over the spec's, as in the session."""
    of_flows = [layout.pipeline.flows[flow].spark_conf for flow in layout.fragments[fragment].operators]
    said = [conf[SETTING] for conf in (layout.project.spec.configuration, *of_flows) if SETTING in conf]
    return int(said[-1]) if said and str(said[-1]).isdigit() else None


def _sites_of(layout: Layout, fragment: str) -> Iterable[Site]:
    """That may run it."""
    pipeline = layout.pipeline
    flows = [pipeline.flows[flow] for flow in layout.fragments[fragment].operators]
    pins = {
        pin_of(layout.project, flow, is_sink=pipeline.datasets[flow.dataset].kind == "sink") for flow in flows
    } - {None}
    sites = layout.project.settings.sites
    return [site for site in sites if site.name in pins] or sites


def _cores_of_largest(layout: Layout, sites: Iterable[Site]) -> int:
    """A cluster that grows by itself counts with all that it may have."""
    clusters = layout.project.settings.clusters
    most = {name: cluster.most_cores for name, cluster in clusters.items()}
    return max(
        usable_cores(site.capacity)
        if site.connect is None
        else max(1, math.ceil(most.get(site.name) or site.capacity))
        for site in sites
    )


def _recorded(layout: Layout, fragment: str) -> int | None:
    """By the checkpoint of the run, or by the one that the last run left."""
    owner = layout.owner or newest_owned(layout.root, layout.disk)
    if owner is None:
        return None
    checkpoint = replace(layout, owner=owner).checkpoint(fragment)
    count = stream_logs.recorded_settings(checkpoint, layout.disk).get(SETTING, "")
    return int(count) if count.isdigit() else None
