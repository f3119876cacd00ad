"""The report of a run: one JSON document, and one HTML page that needs nothing beside it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.atomic_files import write_whole
from mooring.controller.run_headroom import shown_words
from mooring.model.evaluation.headroom_sentence import headroom_sentences
from mooring.model.placement.placement import OperatorSites
from mooring.quantity import quantity
from mooring.spark.engine.snapshot import Snapshot
from mooring.spark.pipeline.layout import Layout
from mooring.spark.pipeline.statistics_used import assumed_sentence
from mooring.spark.runs.record.operation_statistics import OperationStatistics

if TYPE_CHECKING:
    from mooring.model.evaluation.metrics import Metrics


_MOST_POINTS = 600


@dataclass
class RunRecord:
    """What a run did, gathered while it runs."""

    pipeline: str
    policy: str
    placement: OperatorSites
    explanation: list[str]
    metrics: dict[str, Any]
    sites: dict[str, str]
    """Site -> a note on how it is run."""
    snapshots: list[Snapshot] = field(default_factory=list)
    headroom: Mapping[str, Any] | None = None
    """As the run worked it out at its last look."""
    ended: str = "running"
    notes: list[str] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)
    """What went wrong and what was done about it, each with its second of the run."""
    operation: OperationStatistics | None = None
    """Statistics refreshed from the looks, where somebody wants them."""
    decider: str = ""
    """What decided about moves."""
    update: dict[str, Any] | None = None
    """What each fragment did, where the run was one update."""
    picture: Callable[[Mapping[str, str]], str] | None = None
    """Draws the graph, given where every fragment runs."""
    tables: list[Mapping[str, Any]] = field(default_factory=list)
    """Stored data, dataset by dataset, at the end."""
    storage: str = ""
    """The root of channels, checkpoints and tables."""

    def add(self, snapshot: Snapshot) -> None:
        """Keep the course of the run at a bounded size: every other point goes when there are too many."""
        if self.operation is not None:
            self.operation.take(snapshot)
        self.snapshots.append(snapshot)
        if len(self.snapshots) > _MOST_POINTS:
            self.snapshots = self.snapshots[::2]

    def as_json(self) -> dict[str, Any]:
        last = self.snapshots[-1].as_json() if self.snapshots else None
        return {
            "version": 1,
            "pipeline": self.pipeline,
            "policy": self.policy,
            "decider": self.decider,
            "placement": dict(self.placement),
            "explanation": self.explanation,
            "metrics": self.metrics,
            "sites": self.sites,
            "ended": self.ended,
            "notes": self.notes,
            "incidents": self.incidents,
            "headroom": self.headroom,
            "totals": last,
            "update": self.update,
            "storage": self.storage,
            "tables": self.tables,
            "statistics": {} if self.operation is None else self.operation.as_json(),
            "course": [snapshot.as_json() for snapshot in self.snapshots],
        }


Frame = Callable[[RunRecord, str], str]
"""Makes a page of a record that has snapshots and of what else there is to tell, as HTML."""


def write_report(record: RunRecord, folder: Path, frame: Frame | None = None) -> tuple[Path, Path]:
    """Writes report.json and report.html into the folder; the page in `frame`, where one is given."""
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / "report.json", folder / "report.html"
    write_whole(data, json.dumps(record.as_json(), indent=1, default=str))
    framed = frame is not None and bool(record.snapshots)
    told = "".join(_parts(record, framed=framed))
    write_whole(page, frame(record, told) if frame is not None and framed else _plain_page(record, told))
    return data, page


def _parts(record: RunRecord, *, framed: bool) -> list[str]:
    """What there is to tell, part by part; in a frame without what that draws."""
    last = record.snapshots[-1] if record.snapshots else None
    parts: list[str] = []
    if record.picture is not None and last is not None and not framed:
        updated = {} if record.update is None else record.update["fragments"]
        sites = {name: each["site"] for name, each in updated.items()}
        sites |= {name: fragment.site for name, fragment in last.fragments.items()}
        parts.append(f"<h2>Placement at the end</h2><figure>{record.picture(sites)}</figure>")
    if record.headroom is not None:
        parts.append(f"<h2>Headroom at the end</h2><p>{html.escape(shown_words(record.headroom))}</p>")
    if record.explanation:
        parts.append("<h2>Explanation of the placement</h2>" + _list(record.explanation))
    if record.notes:
        parts.append("<h2>Notes</h2>" + _list(record.notes))
    if record.incidents:
        parts.append("<h2>Events</h2>" + _list(record.incidents))
    if last is not None and last.troubles:
        parts.append(
            "<h2>Troubles at the end</h2>" + _list([f"{n}: {what}" for n, what in last.troubles.items()])
        )
    if record.update is not None:
        parts += ["<h2>Update</h2>", _update(record.update)]
    if record.tables or record.storage:
        parts += _data(record)
    if last is not None:
        parts += _tables(record, last)
    return parts


def _plain_page(record: RunRecord, told: str) -> str:
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
        "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.25rem .6rem;"
        "text-align:right}td:first-child,th:first-child{text-align:left}figure{margin:1rem 0;overflow:auto}"
    )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        f"<title>Mooring: {html.escape(record.pipeline)}</title><style>{style}</style>"
        f"<body><h1>{html.escape(record.pipeline)}</h1><p>Policy <b>{html.escape(record.policy)}</b>; "
        f"ended: {html.escape(record.ended)}.</p>{told}</body></html>"
    )


def _update(update: dict[str, Any]) -> str:
    """What each flow of an update did."""
    head = ("table", "flow", "site", "state", "rows read", "rows written", "batches", "seconds")
    rows = [
        (
            *(each["table"], name, each["site"], each["state"] + (f": {each['why']}" if each["why"] else "")),
            *(str(each[key]) for key in ("rows_read", "rows_written", "batches")),
            "" if each["seconds"] is None else f"{each['seconds']:.1f}",
        )
        for name, each in update["fragments"].items()
    ]
    return _table(head, rows)


def _tables(record: RunRecord, last: Snapshot) -> list[str]:
    sites = [
        (name, f"{s.capacity_cores:g}", _mean_load(record.snapshots, name), ", ".join(s.fragments), note)
        for name, s in last.sites.items()
        for note in [record.sites.get(name, "")]
    ]
    queries = [
        (
            name,
            str(q.rows),
            "" if q.latency_s is None else f"{q.latency_s:.2f}",
            "?" if q.files_behind is None else str(q.files_behind),
        )
        for name, q in last.queries.items()
    ]
    fragments = [
        (name, f.site, str(f.rows_in), str(f.rows_out), str(f.batches), str(f.state_rows))
        for name, f in last.fragments.items()
    ]
    channels = [
        (
            name,
            f"{c.bytes_written / 1e6:.3f}",
            f"{c.stored_bytes / 1e6:.3f}",
            f"{c.aged_bytes / 1e6:.3f} in {c.aged_files} files" if c.aged_files else "none",
            ", ".join(c.crosses) or "none",
        )
        for name, c in last.channels.items()
    ]
    views = [
        (
            name,
            str(v.rows),
            f"{v.stored_bytes / 1e6:.3f}",
            f"{v.age_s:.0f}",
            f"{v.took_s:.1f}",
            str(v.rows_read),
        )
        for name, v in last.views.items()
    ]
    head = ("view", "rows", "stored, MB", "age, s", "refresh took, s", "rows read")
    return [
        *_part("Sites", ("site", "capacity, cores", "mean load, cores", "fragments", "how"), sites),
        *_part("Queries", ("query", "rows", "latency, s", "files behind"), queries),
        *_part("Fragments", ("fragment", "site", "rows in", "rows out", "batches", "state rows"), fragments),
        *_part(
            "Channels",
            ("channel", "written, MB", "stored, MB", "removed by age, MB", "read from other sites"),
            channels,
        ),
        *_part("Materialized views", head, views),
    ]


def _data(record: RunRecord) -> list[str]:
    """Where every dataset lies, and how to read it."""
    rows = [
        (
            *(str(table[key] or "") for key in ("name", "kind", "site")),
            "" if table["rows"] is None else str(table["rows"]),
            *(str(table[key] or "") for key in ("format", "path")),
        )
        for table in record.tables
    ]
    told = (
        f"<p>Stored under {html.escape(record.storage)}. <code>mooring tables</code> prints the code that "
        "reads exactly the committed rows with Spark, pandas or DuckDB.</p>"
    )
    shown = [_table(("dataset", "kind", "site", "rows", "format", "path"), rows)] if rows else []
    return ["<h2>Stored data</h2>", told, *shown]


def _part(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table under its title; nothing where it would be empty."""
    return [f"<h2>{title}</h2>", _table(head, rows)] if rows else []


def _mean_load(snapshots: Sequence[Snapshot], site: str) -> str:
    loads = [load for s in snapshots if site in s.sites if (load := s.sites[site].load_cores) is not None]
    estimated = any(s.sites[site].estimated for s in snapshots if site in s.sites)
    return f"{sum(loads) / len(loads):.2f}{' (estimated)' if estimated else ''}" if loads else "unknown"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"


_OF_THE_THEORY = ("feasible set", "rate combinations", "rate directions")


def placement_words(layout: Layout, metrics: Metrics, why: Sequence[str]) -> list[str]:
    """What a placement means for those who run a pipeline: how much more it can take, what crosses sites.

    `why` is the policy's own explanation, of which sentences about the theory are left out. Where costs or
    rates are assumed, what follows from them is not said as if it were known.
    """
    room, assumed = headroom_sentences(metrics), assumed_sentence(layout)
    words = [assumed] if assumed is not None else list(room)
    words += [line for line in why if line not in room and not any(term in line for term in _OF_THE_THEORY)]
    ratio = metrics.feasible_ratio
    if assumed is None and isinstance(ratio, float):
        words.append(
            f"This placement carries {ratio:.0%} of all rate combinations within the total capacity of the "
            "sites."
        )
    crossing = metrics.bandwidth
    if isinstance(crossing, float) and crossing > 0.0:
        words.append(f"{quantity(crossing, 'B/s')} cross between sites.")
    return words
