"""Which tables an update brings up to date, as `spark-pipelines run` has it: all, or those that are named."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.deployment.update_order import UpdateOrder
from mooring.errors import InputError
from mooring.problem.reading.fields import nearest
from mooring.spark.pipeline.layout import Layout


@dataclass(frozen=True)
class UpdateChoice:
    refresh: tuple[str, ...] = ()
    """Tables and sinks that read on from where they are; all, if none is named here or below."""


def update_order(layout: Layout, choice: UpdateChoice) -> UpdateOrder:
    """The fragments that write the chosen tables and sinks, and what each of them reads."""
    reads = {name: layout.reads_of(name) for name in layout.fragments}
    if not choice.refresh:
        return UpdateOrder(reads, tuple(layout.fragments))
    wanted = {_known(layout, name, "--refresh") for name in choice.refresh}
    flows = layout.pipeline.flows
    return UpdateOrder(reads, tuple(name for name in layout.fragments if flows[name].dataset in wanted))


def _known(layout: Layout, name: str, option: str) -> str:
    """A table or sink that a fragment writes."""
    written = {layout.pipeline.flows[fragment].dataset for fragment in layout.fragments}
    if name in written:
        return name
    inside = [flow.name for flow in layout.pipeline.writers(name)]
    if inside:
        home = layout.home[inside[0]]
        raise InputError(
            f"found {name!r}, whose rows are not stored: it runs inside {home!r} and is updated with it",
            field=option,
            remedy=f"name {layout.pipeline.flows[home].dataset!r}, or have {name!r} stored (`tables`)",
        )
    closest = nearest(name, sorted(written))
    raise InputError(
        f"found {name!r}, expected a table or sink of the pipeline",
        field=option,
        remedy=f"did you mean {closest!r}?" if closest else f"there are {', '.join(sorted(written))}",
    )
