"""An operator's story: does a run tell the truth while it is steady, flooded, stalled, starved and broken?

    python -m lab.benchmarks spark_story[:quick|:full]

Two sources, a join of them, a windowed count and a materialized view of it run on two embedded sites of 0.6
cores, with the page. Costs are not stated. What happens, one after the other: a steady time (ten minutes;
one in the quick form); a flood of one source (25 times its rate); rows of one key for both sides of the join,
so that one of its batches makes six million pairs; busy loops beside one site, which has little weight; the
quota of the other site at a twelfth; that site killed. After each of them the usual rates, until no trouble
is left.

At every look the benchmark compares:

- *one headroom*: that of the status, of `/api/v1/headroom`, of the page's document, of the metrics, of the
  proposal, and the one that its list of moves begins at;
- *below one*: while the backlog of a fragment grows, that is, while more and more rows wait from look to
  look, three times in a row, and more than come in three triggers (a fragment that keeps up has those of
  two), by what the benchmark fed and the fragments read;
- *full*: a site that used 95% of what it could get over 10 s, by /proc and its control group, has no headroom
  above 3.

*Harm after* is how many looks after the cause began a fragment was the first time not keeping up: a batch
took longer than one and a half triggers, none was committed for two triggers while rows waited, or more rows
waited than come in three triggers. A flood or a lower quota fills a site gradually, and may do no harm. Busy
loops and a kill are harm at once. *Named after* is how many looks later the first trouble of that kind was
shown; two are allowed. A trouble in the steady time is a false one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from lab.benchmarks._adapting_run import groups_of, set_quota, step_us, weigh_more
from lab.benchmarks._headroom_pipelines import WINDOW, Flow, Pipeline, join_with_y
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import UserRun, busy_loops
from lab.quota_bench.feeder import Feeder
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.sites.process_tree import tree_usage

TRIGGER_S = 5.0
QUOTA_CORES = 0.6
STORY = Pipeline(
    "story",
    "two sources, a join, a windowed count and a view",
    [
        Flow("x", cost_us=500),
        Flow("y", cost_us=500),
        Flow("both", "x", 300, join_with_y(50), joins="y"),
        Flow("counts", "x", 1000, WINDOW),
        Flow("totals", "counts", body="rows.groupBy().agg(F.count('n').alias('n'))", view=True),
    ],
    {"x": 20.0, "y": 20.0},
    {"ada": QUOTA_CORES, "bea": QUOTA_CORES},
    {"x": "ada", "y": "ada", "counts": "ada", "both": "bea", "totals": "bea"},
    {"trigger_s": TRIGGER_S, "refresh_s": 30},
)
STEADY_S = {"quick": 60.0, "full": 600.0}
SETTLES_S = 90.0
FLOOD = 25.0
LASTS_S = 50.0
CALM_S = 120.0
"""The longest that it may take until no trouble is left."""
PAIRS_OF = 2500
"""Rows of one key on either side."""
FULL = 0.95
KEPT = "MOORING_STORY_LOOKS"
"""A file for all looks."""
PICTURES = "MOORING_STORY_PICTURES"
"""A folder for pictures of the page at the end of each phase, on a wide and on a narrow screen."""
_SCREENS = {"wide": (1400, 950), "narrow": (390, 844)}
NAMES = {
    "flood": ("growing backlog", "slow batches", "stalled", "long batch"),
    "stalled join": ("stalled", "slow batches", "long batch", "growing backlog"),
    "starved site": ("starved site",),
    "lowered quota": ("growing backlog", "slow batches", "stalled", "starved site"),
    "killed site": ("site bea",),
}


@dataclass(frozen=True)
class Look:
    phase: str
    status: Mapping[str, Any]
    shown: Mapping[str, float | None]
    """Headroom, by where it was read."""
    full: Sequence[str]
    """Sites."""
    waiting: Mapping[str, float]
    """Rows that wait, by fragment."""

    @property
    def troubles(self) -> list[str]:
        return list(self.status["troubles"])


@dataclass
class Operator:
    """Looks at a run as somebody on call would, and keeps what was seen."""

    run: UserRun
    feeder: Feeder
    address: str
    quotas: dict[str, float]
    looks: list[Look] = field(default_factory=list)
    skewed: int = 0
    """Rows of each source that the feeder did not write."""
    pages: Mapping[str, Page] = field(default_factory=dict)
    """The same page on each screen."""
    _cpu: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def watch(self, phase: str, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not over():
            time.sleep(0.25)
            status = self.run.status()
            if "at_s" in status and (not self.looks or self.looks[-1].status["at_s"] != status["at_s"]):
                self.looks.append(self._look(phase, status))
        for screen, page in self.pages.items():
            name = f"{phase.replace(': ', ' ').replace(' ', '_')}_{screen}.png"
            page.screenshot(path=str(Path(os.environ[PICTURES], name)), full_page=True)

    def until_calm(self, phase: str) -> None:
        self.watch(f"after: {phase}", CALM_S, self._is_calm)

    def _is_calm(self) -> bool:
        return len(self.looks) > 3 and not any(look.troubles for look in self.looks[-3:])

    def _look(self, phase: str, status: dict[str, Any]) -> Look:
        read = {name: each["rows_in"] for name, each in status["fragments"].items()}
        waiting = {name: each.get("rows_waiting") or 0.0 for name, each in status["fragments"].items()}
        waiting |= {name: fed + self.skewed - read.get(name, 0) for name, fed in self.feeder.fed().items()}
        self.feeder.remove_read({name: rows - self.skewed for name, rows in read.items()})
        return Look(phase, status, self._headrooms(status), self._full(), waiting)

    def _headrooms(self, status: Mapping[str, Any]) -> dict[str, float | None]:
        """At one look: the page may be a moment later than the status file."""
        for _ in range(20):
            picture = self._get("picture")
            answer = self._get("headroom")["headroom"]["factor"]
            metrics = self._text("/metrics")
            if self._get("picture")["at_s"] == picture["at_s"] == status["at_s"]:
                line = next((s for s in metrics.splitlines() if s.startswith("mooring_headroom_ratio{")), "")
                shown = {
                    "status": status["headroom"]["factor"],
                    "REST": answer,
                    "page": picture["headroom"]["factor"],
                    "metrics": float(line.split()[-1]) if line else None,
                }
                if status["headroom"]["factor"] is not None and status.get("proposal"):
                    shown["proposal"] = status["proposal"]["headroom"]
                    if (described := picture.get("proposal")) is not None:
                        shown["before the moves"] = described["before"]["headroom"]
                return shown
            time.sleep(0.1)
        return {}

    def _get(self, path: str) -> Any:
        return json.loads(self._text(f"/api/v1/{path}"))

    def _text(self, path: str) -> str:
        with urllib.request.urlopen(self.address + path, timeout=20.0) as answer:
            return str(answer.read().decode())

    def _full(self) -> list[str]:
        found, now_s = [], time.monotonic()
        for site, quota in self.quotas.items():
            try:
                usage = tree_usage(self.run.server_of(site))
            except RuntimeError:
                usage = None
            seen = self._cpu.setdefault(site, [])
            if usage is None or (seen and usage.cpu_s < seen[-1][1]):
                seen.clear()
                continue
            seen.append((now_s, usage.cpu_s))
            del seen[:-4]
            if len(seen) == 4 and seen[-1][1] - seen[0][1] >= FULL * quota * (seen[-1][0] - seen[0][0]):
                found.append(site)
        return found

    def grows(self, at: int) -> list[str]:
        """Fragments of which more and more rows wait at a look."""
        looks = self.looks[max(at - 3, 0) : at + 1]
        return [
            name
            for name in self.waits_too_much(at)
            if len(looks) == 4
            and all(b.waiting.get(name, 0.0) > a.waiting.get(name, 0.0) for a, b in pairwise(looks))
        ]

    def waits_too_much(self, at: int) -> list[str]:
        """Fragments with more rows that wait than come in three triggers."""
        before, now = self.looks[max(at - 3, 0)], self.looks[at]
        passed_s, found = float(now.status["at_s"] - before.status["at_s"]), []
        for name, waits in now.waiting.items():
            if (was := before.status["fragments"].get(name)) is None or passed_s <= 0.0:
                continue
            read = now.status["fragments"].get(name, was)["rows_in"] - was["rows_in"]
            come_per_s = (read + waits - before.waiting.get(name, 0.0)) / passed_s
            if waits > 3.0 * TRIGGER_S * max(come_per_s, 1.0):
                found.append(name)
        return found

    def harmed(self, at: int) -> list[str]:
        """Fragments that do not keep up at a look."""
        fragments, found = self.looks[at].status["fragments"], self.waits_too_much(at)
        earlier = [
            look.status["fragments"]
            for look in self.looks[:at]
            if look.status["at_s"] <= self.looks[at].status["at_s"] - 2.0 * TRIGGER_S
        ]
        for name, each in fragments.items():
            before = self.looks[at - 1].status["fragments"].get(name, each)
            if each["batches"] != before["batches"] and (each["batch_s"] or 0.0) > 1.5 * TRIGGER_S:
                found.append(name)
            if earlier and each["batches"] == earlier[-1].get(name, {}).get("batches"):
                found += [name] if self.looks[at].waiting.get(name, 0.0) > 0.0 and name != "totals" else []
        return found


def told(folder: Path, step: float, steady_s: float) -> Operator:
    folder.mkdir(parents=True)
    landing = STORY.write(folder, step)
    run, feeder = UserRun(folder), Feeder(landing, STORY.streams)
    run.start(len(STORY.flows), "--placement", str(folder / "plan.json"), "--serve")
    try:
        run.wait(lambda: "page: http" in run.said(), "the page's address")
        address = run.said().partition("page: ")[2].split()[0].split("#")[0].split("?")[0].rstrip("/")
        for site in QUOTAS:
            weigh_more(site, run.server_of(site))
        operator = Operator(run, feeder, address, dict(QUOTAS))
        feeder.set_rates(STORY.rates)
        with feeder.feeding(), photographer(operator):
            operator.watch("start", SETTLES_S)
            operator.watch("steady", steady_s)
            for phase, happens in PHASES.items():
                print(f"{phase} at look {len(operator.looks)}", file=sys.stderr, flush=True)
                happens(operator)
                operator.until_calm(phase)
        return operator
    finally:
        run.stop()


@contextlib.contextmanager
def photographer(operator: Operator) -> Iterator[None]:
    if PICTURES not in os.environ:
        yield
        return
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        pages = {}
        for screen, (width, height) in _SCREENS.items():
            pages[screen] = page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(operator.address)
            page.wait_for_selector("#lanes svg")
        operator.pages = pages
        try:
            yield
        finally:
            operator.pages = {}
            browser.close()


def flooded(operator: Operator) -> None:
    operator.feeder.set_rates({**STORY.rates, "x": FLOOD * STORY.rates["x"]})
    operator.watch("flood", LASTS_S)
    operator.feeder.set_rates(STORY.rates)


def stalled(operator: Operator) -> None:
    """Rows of one key within the join's two seconds."""
    at = time.time()
    operator.skewed += PAIRS_OF
    for name in ("x", "y"):
        rows = "".join(f'{{"n":{50 * i},"at":{at:.3f}}}\n' for i in range(PAIRS_OF))
        landing = operator.run.folder / "landing" / name
        (landing / "skewed.tmp").write_text(rows)
        (landing / "skewed.tmp").rename(landing / "skewed.json")
    operator.watch("stalled join", LASTS_S)


def starved(operator: Operator) -> None:
    groups = groups_of("ada", operator.run.server_of("ada"))
    weigh(groups, 250)
    with busy_loops(4):
        operator.watch("starved site", LASTS_S)
    weigh(groups, 262144)


def weigh(groups: Sequence[Path], shares: int) -> None:
    for group in groups:
        if (group / "cpu.shares").exists():
            (group / "cpu.shares").write_text(str(shares))
        elif (group / "cpu.weight").exists():
            (group / "cpu.weight").write_text(str(max(1, min(10_000, shares // 26))))


def lowered(operator: Operator) -> None:
    lower(operator, "bea", QUOTA_CORES / 12)
    operator.watch("lowered quota", LASTS_S)
    lower(operator, "bea", QUOTA_CORES)


def lower(operator: Operator, site: str, cores: float) -> None:
    for group in groups_of(site, operator.run.server_of(site)):
        set_quota(group, cores)
    operator.quotas[site] = cores
    operator._cpu.pop(site, None)  # what it used was under another limit


def killed(operator: Operator) -> None:
    os.kill(operator.run.server_of("bea"), signal.SIGKILL)
    operator.watch("killed site", LASTS_S)


QUOTAS = {"ada": QUOTA_CORES, "bea": QUOTA_CORES}
PHASES: Mapping[str, Callable[[Operator], None]] = {
    "flood": flooded,
    "stalled join": stalled,
    "starved site": starved,
    "lowered quota": lowered,
    "killed site": killed,
}


def rows_of(operator: Operator) -> list[dict[str, Value]]:
    rows = []
    for phase in ("steady", *PHASES):
        own = [at for at, look in enumerate(operator.looks) if look.phase == phase]
        looks = [operator.looks[at] for at in own]
        read = [look for look in looks if look.shown]
        factors = [look.status["headroom"]["factor"] for look in looks]
        known = [factor for factor in factors if factor is not None]
        growing = [at for at in own if operator.grows(at)]
        full = [(look, site) for look in looks for site in look.full]
        troubles = sorted({name for look in looks for name in look.troubles})
        rows.append(
            {
                "phase": phase,
                "looks": len(looks),
                "one headroom": f"{sum(one(look.shown) for look in read)} of {len(read)}",
                "least": min(known, default=None),
                "most": max(known, default=None),
                "backlog grows": len(growing),
                "not below one then": sum(
                    (operator.looks[at].status["headroom"]["factor"] or 0.0) >= 1.0 for at in growing
                ),
                "full": len(full),
                "above three then": sum(is_above(look, site, 3.0) for look, site in full),
                "harm after": None if phase not in NAMES else harm_after(operator, phase, own),
                "named after": named_after(operator, phase, own),
                "troubles": ", ".join(troubles),
                "looks until calm": sum(look.phase == f"after: {phase}" for look in operator.looks),
            }
        )
    return rows


def one(shown: Mapping[str, float | None]) -> bool:
    values = list(shown.values())
    known = [value for value in values if value is not None]
    return not known or (len(known) == len(values) and max(known) - min(known) <= 0.02 * max(*known, 1.0))


def is_above(look: Look, site: str, most: float) -> bool:
    room = look.status["headroom"]["sites"].get(site) or {}
    return not look.status["headroom"]["missing"] and (room.get("factor") is None or room["factor"] > most)


def harm_after(operator: Operator, phase: str, own: Sequence[int]) -> int | None:
    at_once = phase in ("starved site", "killed site")
    return next((at - own[0] for at in own if at_once or operator.harmed(at)), None)


def named_after(operator: Operator, phase: str, own: Sequence[int]) -> int | None:
    """Looks from the harm to the name; zero where it was named before."""
    kinds, harm = NAMES.get(phase, ()), harm_after(operator, phase, own) if own else None
    named = (at - own[0] for at in own if any(name.startswith(kinds) for name in operator.looks[at].troubles))
    first = next(named, None) if kinds else None
    return None if first is None else max(0, first - (harm or 0))


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    form = words[0] if words else "full"
    if form not in STEADY_S:
        sys.exit(f"found {form!r}, expected one of {', '.join(STEADY_S)}")
    root = Path(tempfile.mkdtemp(prefix="mooring-story-"))
    try:
        operator = told(root / "story", step_us(root), STEADY_S[form])
        if (kept := os.environ.get(KEPT)) is not None:
            Path(kept).write_text(json.dumps([vars(look) for look in operator.looks]))
        yield ResultTable.of("What was shown, and what was so", rows_of(operator))
        apart = [dict(look.shown) for look in operator.looks if look.shown and not one(look.shown)]
        yield f"Looks at which headrooms differed: {len(apart)} of {len(operator.looks)}." + (
            f" The first: {apart[0]}." if apart else ""
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPARK_STORY = Measurement(
    "spark_story", "An operator's story: what a run shows, and what is so", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_STORY, sys.argv[1:])
