"""A pipeline's graph as a self-contained SVG: streams, fragments with their flows, and queries, left to
right; with a placement, every site in a colour of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from mooring.spark.pipeline.layout import Layout, query_datasets

_WIDTH, _GAP_X, _GAP_Y, _LINE = 220, 80, 24, 18
_FILLS = {"stream": "#e8f1fb", "fragment": "#f6f6f2", "query": "#e9f7ec"}
_SITE_FILLS = ("#fdf0d5", "#f3e8fb", "#dff3f1", "#fbe3e4", "#eef0c8", "#e3e6f5")


@dataclass
class _Box:
    kind: str
    title: str
    lines: list[str]
    column: int
    x: int = 0
    y: int = 0
    fill: str = ""

    @property
    def height(self) -> int:
        return _LINE * (len(self.lines) + 1) + 14


def graph_svg(layout: Layout, sites: Mapping[str, str] | None = None) -> str:
    """`sites`: fragment -> where it runs; without, only pins are shown."""
    boxes, arrows = _parts(layout, sites or {})
    heights: dict[int, int] = {}
    for box in boxes.values():
        box.x = 20 + box.column * (_WIDTH + _GAP_X)
        box.y = 20 + heights.get(box.column, 0)
        heights[box.column] = heights.get(box.column, 0) + box.height + _GAP_Y
    width = max(box.x for box in boxes.values()) + _WIDTH + 20
    height = max(heights.values()) + 30
    drawn = [_arrow(boxes[a], boxes[b]) for a, b in arrows] + [_drawn(box) for box in boxes.values()]
    marker = (
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='8' markerHeight='8' "
        "orient='auto'><path d='M0 0 L8 4 L0 8 z' fill='#666'/></marker></defs>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
        f"font-family='system-ui,sans-serif' font-size='12'>{marker}{''.join(drawn)}</svg>\n"
    )


def _parts(layout: Layout, sites: Mapping[str, str]) -> tuple[dict[str, _Box], list[tuple[str, str]]]:
    pipeline = layout.pipeline
    boxes: dict[str, _Box] = {}
    arrows: list[tuple[str, str]] = []
    depth: dict[str, int] = {}
    colours = {site: at for at, site in enumerate(sorted(set(sites.values())))}
    for name, fragment in layout.fragments.items():
        writers = [log.name for dataset in layout.inputs_of(fragment) for log in layout.writers_of(dataset)]
        depth[name] = 1 + max((depth[writer] for writer in writers), default=0)
        at = sites.get(name) or fragment.site
        site = f" at {at}" if at else ""
        lines = [f"{flow}  ({pipeline.flows[flow].place})" for flow in fragment.operators]
        fill = _SITE_FILLS[colours[sites[name]] % len(_SITE_FILLS)] if name in sites else ""
        boxes[f"f {name}"] = _Box("fragment", f"{name}{site}", lines, depth[name], fill=fill)
        arrows += [(f"f {writer}", f"f {name}") for writer in writers]
        for flow in fragment.operators:
            if pipeline.flows[flow].outside:
                stream = pipeline.flows[flow].dataset
                boxes.setdefault(f"s {stream}", _Box("stream", stream, ["outside source"], 0))
                arrows.append((f"s {stream}", f"f {name}"))
    last = max(depth.values()) + 1
    wanted = query_datasets(layout.project) | {sink.name for sink in pipeline.sinks}
    for dataset in sorted(wanted):
        boxes[f"q {dataset}"] = _Box("query", dataset, ["query"], last)
        arrows += [(f"f {layout.home[flow.name]}", f"q {dataset}") for flow in pipeline.writers(dataset)]
    return boxes, arrows


def _drawn(box: _Box) -> str:
    lines = [
        f"<text x='{box.x + 10}' y='{box.y + 18 + (i + 1) * _LINE}' fill='#555'>{escape(line[:48])}</text>"
        for i, line in enumerate(box.lines)
    ]
    return (
        f"<rect x='{box.x}' y='{box.y}' width='{_WIDTH}' height='{box.height}' rx='6' "
        f"fill='{box.fill or _FILLS[box.kind]}' stroke='#999'/>"
        f"<text x='{box.x + 10}' y='{box.y + 18}' font-weight='bold'>{escape(box.title)}</text>"
        + "".join(lines)
    )


def _arrow(a: _Box, b: _Box) -> str:
    x1, y1, x2, y2 = a.x + _WIDTH, a.y + a.height // 2, b.x, b.y + b.height // 2
    bend = (x2 - x1) // 2
    return (
        f"<path d='M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}' fill='none' stroke='#666' "
        "marker-end='url(#tip)'/>"
    )
