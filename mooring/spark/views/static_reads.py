"""Tables and views that a streaming flow reads as they stand, beside its streams.

The same dataset may be both: then it stands in the session twice.

In an update everything that a flow reads is complete before it begins, so what it looks up is fixed then, as
under plain Spark. In a run without end it is never known to be complete: rows that come before it would be
joined with too little, for good. So only updates run such flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex

from pyspark.sql import SparkSession

from mooring.errors import UnsupportedError
from mooring.model.deployment.fragments import Fragment
from mooring.spark.definitions.session_names import read_both_ways, view_at_rest
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.pipeline import FlowNode
from mooring.spark.views.snapshot_reads import fixed_reads, show


def looks_up(layout: Layout) -> list[FlowNode]:
    """Streaming flows that read something as it stands."""
    flows = layout.pipeline.flows.values()
    return [flow for flow in flows if flow.static and not layout.pipeline.is_view(flow.name)]


def update_notes(layout: Layout) -> list[str]:
    """What runs in updates only, in words."""
    return [
        f"{flow.name} reads {', '.join(flow.static)} as a fixed table beside a stream: `mooring run "
        "--once` runs it, a continuous run does not"
        for flow in looks_up(layout)
    ]


def refuse_looking_up(layout: Layout) -> None:
    for flow in looks_up(layout):
        raise UnsupportedError(
            f"the flow {flow.name!r} reads {flow.static[0]!r} as a fixed table beside a stream, which "
            "needs an update (--once): there the table is complete before the flow starts",
            file=str(flow.place),
            remedy="run the project with --once repeatedly, or join in a materialized view",
        )


@contextmanager
def looked_up(layout: Layout, fragment: Fragment, session: SparkSession) -> Iterator[None]:
    """What the flows of a fragment look up stands in the session, as it was when the block began, for frames
    that are analysed within it.
    """
    flows = [layout.pipeline.flows[name] for name in fragment.operators]
    static = list(dict.fromkeys(name for flow in flows for name in flow.static))
    if not static:
        yield
        return
    both_ways = {name for flow in flows for name in flow.inputs} & set(static)
    read_both_ways(session, both_ways)
    scratch = layout.owned.out / token_hex(8)
    try:
        with fixed_reads(layout, static, fragment.name) as fixed:
            show(
                *(layout, fixed, session, scratch),
                name_of=lambda name: view_at_rest(name) if name in both_ways else name,
            )
            yield
    finally:
        with suppress(OSError):  # it goes with its owner's folder
            layout.disk.delete(scratch)
