"""The page of a run that is over, frozen: one file with all that it draws, which needs no server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.controller.journal import Record
from mooring.model.problem.problem import Problem
from mooring.service.view.page_sources import page_file
from mooring.service.view.run_document import RunPicture
from mooring.spark.engine.snapshot import Snapshot

MODULES = (
    "words.js",
    "link.js",
    "lanes.js",
    "charts.js",
    "panels.js",
    "acts.js",
    "logs.js",
    "desk.js",
    "page.js",
)
"""Each after those it imports: joined they are one script, so no name may stand in two of them."""


def frozen_page(
    problem: Problem,
    status: Mapping[str, Any],
    snapshots: Sequence[Snapshot],
    records: Sequence[Record],
    ended: str,
    more: str,
) -> str:
    """`more` is HTML that follows what the page draws: what else a report tells."""
    picture = RunPicture(problem)
    axes = picture.first_slice(status)
    content = {
        "picture": picture.document(status, records, runs=False),
        "history": [_point(snapshot) for snapshot in snapshots],
        "cut": None if axes is None else picture.slice(status, *axes),
        "ended": ended,
    }
    data = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    page = page_file("page.html")
    page = re.sub(r'<link rel="stylesheet".*?>', lambda _: f"<style>{page_file('page.css')}</style>", page)
    page = re.sub(
        r"<script .*?</script>",
        lambda _: (
            f'<script type="application/json" id="frozen">{data}</script>\n'
            f'<script type="module">{joined_script()}</script>'
        ),
        page,
    )
    return page.replace("</main>", f'<section class="wide report">{more}</section>\n</main>')


def joined_script() -> str:
    """All modules as one."""
    texts = (page_file(name) for name in MODULES)
    plain = (re.sub(r"^import [^;]*;\n", "", text, flags=re.MULTILINE) for text in texts)
    return "\n".join(re.sub(r"^export ", "", text, flags=re.MULTILINE) for text in plain)


def _point(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "at_s": snapshot.at_s,
        "since_start_s": snapshot.since_start_s,
        "headroom": None,
        "rates": {},
        "shares": {name: site.utilisation for name, site in snapshot.sites.items()},
        "latencies_s": {name: query.latency_s for name, query in snapshot.queries.items()},
    }
