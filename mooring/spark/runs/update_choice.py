"""Which tables an update brings up to date, as `spark-pipelines run` has it: all, or those that are named.

A table that is refreshed reads on from where it is. With a full refresh it forgets what it has read and its
rows, and reads its inputs from their beginning. Its readers are not reset: they find files that they have not
read, and so all rows again (docs/decisions/0036-updates.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.errors import InputError
from mooring.model.deployment.update_order import UpdateOrder
from mooring.model.problem.reading.fields import nearest
from mooring.spark.definitions.names import PipelineNames
from mooring.spark.pipeline.layout import Layout

RESET_ALLOWED = "pipelines.reset.allowed"
"""Spark's property of tables whose rows are not to be had again from their inputs."""


@dataclass(frozen=True)
class UpdateChoice:
    """With nothing named, everything reads on."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False

    def __post_init__(self) -> None:
        for option, named in (("--full-refresh", self.full_refresh), ("--refresh", self.refresh)):
            if named and self.full_refresh_all:
                raise InputError(
                    f"found --full-refresh-all with {option}, which it contains",
                    field=option,
                    remedy="keep one of the two",
                )

    @property
    def is_all(self) -> bool:
        return not (self.refresh or self.full_refresh)


def update_order(layout: Layout, choice: UpdateChoice) -> UpdateOrder:
    """The fragments that write the chosen tables and sinks, what each of them reads, and which begin anew."""
    reads = {name: layout.comes_after(name) for name in layout.fragments}
    refresh = {_known(layout, name, "--refresh") for name in choice.refresh}
    full = {_known(layout, name, "--full-refresh") for name in choice.full_refresh}
    if both := sorted(refresh & full):
        raise InputError(
            f"found {', '.join(both)} under both --refresh and --full-refresh",
            field="--full-refresh",
            remedy="name a table under one of the two",
        )
    for name in full:
        if not _may_reset(layout, name):
            raise InputError(
                f"found {name!r}, whose property {RESET_ALLOWED} is false", field="--full-refresh"
            )
    flows = layout.pipeline.flows
    chosen = [name for name in layout.fragments if choice.is_all or flows[name].dataset in refresh | full]
    anew = [
        name
        for name in chosen
        if not layout.pipeline.is_view(name)  # which is made anew with every refresh
        if flows[name].dataset in full
        or (choice.full_refresh_all and _may_reset(layout, flows[name].dataset))
    ]
    writes = {name: flows[name].dataset for name in chosen}
    return UpdateOrder(reads, tuple(chosen), tuple(anew), writes)


def told_of_readers(layout: Layout, order: UpdateOrder) -> list[str]:
    """Who gets the rows of a table again because it is written anew, in words."""
    said = []
    for dataset in dict.fromkeys(layout.pipeline.flows[name].dataset for name in order.anew):
        readers = [name for name in layout.readers_of(dataset) if name not in order.anew]
        if readers:
            said.append(
                f"{dataset} is computed again, so {', '.join(readers)} will read all its rows a second "
                "time; a full refresh of both together avoids duplicates"
            )
    return said


def _may_reset(layout: Layout, dataset: str) -> bool:
    properties = layout.pipeline.datasets[dataset].arguments.properties
    return properties.get(RESET_ALLOWED, "true").lower() != "false"


def _known(layout: Layout, name: str, option: str) -> str:
    """A table or sink that a fragment writes."""
    names = PipelineNames.of(layout.project.spec)
    written = sorted({layout.pipeline.flows[fragment].dataset for fragment in layout.fragments})
    if (found := names.found(name, written)) is not None:
        return found
    if (inside := names.found(name, layout.pipeline.datasets)) is not None:
        raise _not_stored(layout, inside, option)
    raise InputError(
        f"found {name!r}, expected a table or sink of the pipeline",
        field=option,
        remedy=_meant(name, written),
    )


def _not_stored(layout: Layout, dataset: str, option: str) -> InputError:
    homes = [layout.home[flow.name] for flow in layout.pipeline.writers(dataset)]
    if not homes:
        return InputError(f"found the temporary view {dataset!r}, which has no stored rows", field=option)
    last = layout.pipeline.flows[homes[0]].dataset
    return InputError(
        f"found {dataset!r}, which is not stored: it runs together with {last!r} and is updated with it",
        field=option,
        remedy=f"name {last!r}, or keep {dataset!r} (`tables` in mooring.yml)",
    )


def _meant(name: str, written: Sequence[str]) -> str:
    closest = nearest(name, written)
    return f"did you mean {closest!r}?" if closest else f"there are {', '.join(written)}"
