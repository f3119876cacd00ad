"""The page over the demo on real Spark: what it shows, how soon, and what it costs.

    python -m lab.benchmarks.spark_page [--pictures FOLDER]

The example runs on three embedded sites with `--serve`, and a browser (the Chromium that is found) has its
page open. A flood makes the run propose moves; *Apply* is clicked, and the page is watched until the fragment
is at its target and the ledger shows what was promised and what came. Meanwhile: how old a look is when the
page has drawn it, when the page first painted, and the CPU that the service uses with one page open, over
half a minute.

Then two hundred clients follow the events, and what the run's looks take is held against the looks before.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from lab.benchmarks._demo_project import (
    FRAGMENTS,
    Feeder,
    compare,
    copy_example,
    expected_rows,
    flooded_traffic,
)
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._user_run import UserRun, command_lines
from mooring.cli.output.result_table import ResultTable, Value

PATIENCE_MS = 240_000.0
FOLLOWERS = 200
_AGES = """
    window.ages = [];
    let last = document.body.dataset.at;
    new MutationObserver(() => {
        const at = document.body.dataset.at;
        if (at !== last) window.ages.push(Date.now() / 1000 - Number(at));
        last = at;
    }).observe(document.body, {attributes: true, attributeFilter: ["data-at"]});
"""
"""A look counts when it is first drawn: what is noticed between two looks is drawn with the last one."""


def measure(pictures: Path | None, words: Sequence[str]) -> Iterator[ResultTable | str]:
    root = Path(tempfile.mkdtemp(prefix="mooring-page-"))
    folder = root / "network_monitoring"
    traffic = flooded_traffic()
    copy_example(folder, root / "landing", root / "storage")
    feeder, run = Feeder(traffic, root / "landing"), UserRun(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        run.start(FRAGMENTS, "--serve")
        stack.callback(run.stop)
        run.wait(lambda: "page: http" in run.said(), "the page's address")
        address = run.said().partition("page: ")[2].split()[0]
        driver = stack.enter_context(sync_playwright())
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        stack.callback(browser.close)
        page = opened(browser, address)
        feeder.start()
        stack.callback(feeder.halt)
        row = watched(page, run, pictures)
        row |= {"service_percent_of_a_core": round(100 * service_cores(run, 30.0), 2)}
        yield ResultTable.of("The page", [row])
        yield ResultTable.of("The run's looks", list(looks(run, address)))
        expected = expected_rows(traffic)
        run.wait(lambda: not feeder.is_alive(), "all packets to be fed")
        run.wait(
            lambda: all(v.exact for v in compare(root / "storage", expected)), "all rows to be delivered"
        )
        yield "All rows that were delivered are equal to the truth."


def opened(browser: Browser, address: str) -> Page:
    page = browser.new_page(viewport={"width": 1400, "height": 950})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    page.wait_for_selector("#lanes svg")
    page.evaluate(_AGES)  # not of the first picture, which is as old as the last look
    return page


def watched(page: Page, run: UserRun, pictures: Path | None) -> dict[str, Value]:
    """From the flood to the ledger."""
    calm = run.status()
    page.wait_for_selector("#apply")
    picture(page, pictures, "proposal")
    proposed = time.monotonic()
    fragment = page.locator("#proposal p b").first.inner_text()
    before = page.locator(f'[data-fragment="{fragment}"]').get_attribute("data-site")
    page.locator("#apply").click()
    page.wait_for_function(
        '([name, site]) => document.querySelector(`[data-fragment="${name}"]`).dataset.site !== site',
        arg=[fragment, before],
    )
    moved = time.monotonic()
    page.wait_for_function("() => document.querySelector('#happenings').innerText.includes('busiest')")
    picture(page, pictures, "applied")
    ages: list[float] = page.evaluate("window.ages")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return {
        "sites_before": len(calm["sites"]),
        "moved": fragment,
        "click_to_moved_s": round(moved - proposed, 1),
        "first_paint_ms": round(paint),
        "look_to_page_median_s": round(statistics.median(ages), 2),
        "look_to_page_worst_s": round(max(ages), 2),
    }


def picture(page: Page, folder: Path | None, name: str) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"page-{name}.png", full_page=True)


def service_cores(run: UserRun, seconds: float) -> float:
    """CPU of the service over so many seconds of wall clock."""
    (pid,) = (
        pid
        for pid, words in command_lines()
        if b"serve" in words.split(b"\0") and str(run.folder).encode() in words
    )
    before = cpu_s(pid)
    time.sleep(seconds)
    return (cpu_s(pid) - before) / seconds


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def looks(run: UserRun, address: str) -> Iterator[dict[str, Value]]:
    yield {"followers": 1, **timed(run)}
    host, port = address.partition("//")[2].partition("/")[0].split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(FOLLOWERS - 1):
            line = stack.enter_context(contextlib.closing(socket.create_connection((host, int(port)), 30)))
            line.sendall(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        yield {"followers": FOLLOWERS, **timed(run)}
    yield {"followers": 1, **timed(run)}


def timed(run: UserRun, count: int = 12) -> dict[str, Any]:
    """What so many looks took."""
    seen: dict[float, float] = {}
    while len(seen) < count:
        status = run.status()
        if "look_took_s" in status:
            seen[status["at_s"]] = status["look_took_s"]
        time.sleep(0.3)
    return {"looks": count, "median_look_ms": round(1000 * statistics.median(seen.values()), 1)}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--pictures", type=Path)
    given, rest = parser.parse_known_args(words)
    title = "The page over the demo: what it shows, how soon, and what it costs"
    carry_out(Measurement("spark_page", title, prose_of(__doc__), partial(measure, given.pictures)), rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
