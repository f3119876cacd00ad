"""The page of a run on Spark, in a real browser: from a flood to what came of the move that it called for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from playwright.sync_api import Page, expect

from mooring.controller.initial_placement import Wish
from mooring.controller.session import SessionOptions
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.project_run import prepared_on
from mooring.spark.runs.results import read_stored
from mooring.spark.runs.spark_run import SparkRun
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from tests.service.browser import CHROMIUM, opened_browser
from tests.service.served import PATIENCE_S, TOKEN, serving_run

if TYPE_CHECKING:
    from mooring.spark.sites.embedded_site import EmbeddedSite
    from tests.spark.conftest import ProjectMaker

CAPACITY = {"berlin": 40.0, "oslo": 1.0, "porto": 1.0}
SETTINGS = """\
sites: {berlin: {capacity: 40}, oslo: {capacity: 1}, porto: {capacity: 1}}
streams: {packets: {site: oslo, rate: 5}, requests: {site: porto, rate: 5}}
queries: {busy: {site: oslo, max_latency_ms: 60000}}
statistics:
  packets: {cost_us: 100, fixed_cores: 0.01}
  requests: {cost_us: 100, fixed_cores: 0.01}
  busy: {cost_us: 20000, fixed_cores: 0.01}
trigger_s: 0.5
"""
"""Stated costs: what a flood means does not depend on the machine. oslo is full at 50 packets per second."""
FLOWS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

def landed(name):
    return SparkSession.active().readStream.schema("n long").json(f"INPUT/{name}")

@dp.table
def packets():
    return landed("packets")

@dp.table
def requests():
    return landed("requests")

@dp.table
def busy():
    return SparkSession.active().readStream.table("packets").filter("n % 2 = 0")
"""
AT_OSLO = FragmentSites({"packets": "oslo", "busy": "oslo", "requests": "porto"})
CALM_ROWS, FLOOD_ROWS, STEP_S = 2, 200, 0.4


class Feeder(threading.Thread):
    """A file per stream every so often; `flood` makes those of the packets a hundred times as long."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.flood, self.over = threading.Event(), threading.Event()
        self.given = 0
        self._folders = [folder / "packets", folder / "requests"]
        for each in self._folders:
            each.mkdir()

    def run(self) -> None:
        number = 0
        while not self.over.wait(STEP_S):
            rows = FLOOD_ROWS if self.flood.is_set() else CALM_ROWS
            for folder, first, count in zip(self._folders, (self.given, 0), (rows, CALM_ROWS), strict=True):
                hidden = folder / f".{number}"
                hidden.write_text("\n".join(json.dumps({"n": n}) for n in range(first, first + count)))
                hidden.rename(folder / f"{number:06d}.json")
            self.given += rows
            number += 1


@contextmanager
def running(folder: Path, site: EmbeddedSite) -> Iterator[Callable[[], list[int]]]:
    """A run over three sites that share one warm server, in a thread; gives what it has delivered."""
    sites = SiteHandles(SiteHandle(name, cores, site.endpoint, None) for name, cores in CAPACITY.items())
    over = threading.Event()
    with prepared_on(load_project(folder), sites) as made:
        wish = Wish("rod", placement=lambda problem: Placement.from_fragments(problem, AT_OSLO))
        run = SparkRun(made, wish)
        with run.started(pace=SessionOptions(look_s=0.5)) as (session, _):
            thread = threading.Thread(target=session.run, args=(lambda passed: over.is_set(),))
            thread.start()
            try:
                yield lambda: sorted(read_stored(made.layout.root, "busy")["n"].to_pylist())
            finally:
                over.set()
                thread.join(PATIENCE_S)
        run.end("over")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium was found: install Debian's `chromium`")
def test_a_flood_is_seen_answered_and_accounted_for_on_the_page(
    make_project: ProjectMaker, site: EmbeddedSite
) -> None:
    folder = make_project(settings=SETTINGS, numbers_py=FLOWS)
    feeder = Feeder(folder / "input")
    expect.set_options(timeout=1000.0 * PATIENCE_S)
    with running(folder, site) as delivered, serving_run(folder) as served, opened_browser() as browser:
        page = browser.new_page()
        page.set_default_timeout(1000.0 * PATIENCE_S)
        page.goto(f"{served.url}#token={TOKEN}")
        feeder.start()
        try:
            watch(page, feeder)
        finally:
            feeder.over.set()
            feeder.join()
        served.until("/api/v1/picture", lambda _: len(delivered()) == feeder.given // 2)
        assert delivered() == list(range(0, feeder.given, 2))


def watch(page: Page, feeder: Feeder) -> None:
    """From calm through the flood to the ledger."""
    busy, cut = page.locator("[data-fragment=busy]"), page.locator("#slice svg")
    expect(page.locator("#lanes g[aria-label^='site ']")).to_have_count(3)
    expect(busy).to_have_attribute("data-site", "oslo")
    page.wait_for_function("() => /^packets at [1-9]/.test(document.querySelector('#slice svg')?.ariaLabel)")
    expect(cut).not_to_have_attribute("data-beyond", "oslo")
    assert room_to_the_edge(page) > 0.0
    feeder.flood.set()
    expect(cut).to_have_attribute("data-beyond", "oslo")
    assert room_to_the_edge(page) < 0.0
    expect(page.locator("#proposal")).to_contain_text("Move busy from oslo to berlin.")
    page.locator("#apply").click()
    expect(busy).to_have_attribute("data-site", "berlin")
    move = page.locator("#happenings tr", has_text="move busy oslo → berlin")
    expect(move).to_contain_text("page, from 127.0.0.1")
    expect(move).to_contain_text("headroom")
    expect(move).to_contain_text("busiest")
    expect(cut).not_to_have_attribute("data-beyond", "oslo")


def room_to_the_edge(page: Page) -> float:
    """Pixels along the first axis from the point to where a site is full; below zero it is beyond."""
    found: float = page.evaluate(
        """() => {
          const svg = document.querySelector("#slice svg"), now = svg.querySelector(".now");
          const boxes = [...svg.querySelectorAll(".edge:not(.open)")].map((edge) => edge.getBBox());
          return Math.max(...boxes.map((box) => box.x + box.width)) - Number(now.dataset.x);
        }"""
    )
    return found
