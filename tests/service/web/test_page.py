"""The page in a real browser, over a real session in the simulator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mooring.model.problem.problem import Problem
from mooring.service.view.planning_desk import PlanningDesk
from mooring.service.web.desk_service import desk_app
from tests.service.browser import CHROMIUM, opened_browser
from tests.service.served import PATIENCE_S, TOKEN, Served, serving, serving_run
from tests.service.simulated_project import PROBLEM, SimulatedProject

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium was found: install Debian's `chromium`")
PATIENCE_MS = 1000.0 * PATIENCE_S
MANY = Problem.from_dict(
    {
        "sites": {f"site{k}": {"capacity": 1} for k in range(6)},
        "streams": {f"stream{k}": {"rate": 10} for k in range(4)},
        "operators": {
            f"operator_with_a_long_name_{k}": {
                "inputs": [f"stream{k % 4}" if k < 40 else f"operator_with_a_long_name_{k - 40}"],
                "cost_us": 20,
            }
            for k in range(300)
        },
    }
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as chromium:
        yield chromium


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test if its scripts fail."""
    context = browser.new_context()
    made = context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    failures: list[str] = []
    made.on("pageerror", lambda failure: failures.append(str(failure)))
    yield made
    context.close()
    assert not failures


def opened(page: Page, served: Served) -> Page:
    page.goto(f"{served.url}#token={TOKEN}")
    page.wait_for_selector("#lanes svg")
    return page


def test_a_proposal_is_applied_by_keyboard_and_held_against_what_came(page: Page, tmp_path: Path) -> None:
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        opened(page, served)
        expect(page.locator("#name")).to_have_text("network_monitoring")
        expect(page.locator("#state")).to_contain_text("running")
        assert "token" not in page.url
        expect(page.locator("#tiles > div")).to_have_count(5)
        busy = page.locator("[data-fragment=busy]")
        expect(busy).to_have_attribute("data-site", "oslo")
        expect(page.locator("#proposal")).to_contain_text("Move busy from oslo to porto")
        page.locator("#apply").focus()
        page.keyboard.press("Enter")
        expect(busy).to_have_attribute("data-site", "porto")
        move = page.locator("#happenings tr", has_text="move busy oslo → porto")
        expect(move).to_contain_text("page, from 127.0.0.1")
        expect(move).to_contain_text("headroom")
        expect(move).to_contain_text("busiest")
        expect(page.locator("#asked")).to_contain_text("apply busy oslo → porto")
        expect(page.locator("#asked")).to_contain_text("done")
        expect(page.locator("#course .moved")).to_have_count(1)
        expect(page.locator("#course .promise")).to_have_count(2)
        expect(page.locator("[data-into=busy]")).to_contain_text("1 kB/s")


def test_a_lost_site_is_the_first_thing_said_and_sites_are_left_and_fragments_moved(
    page: Page, tmp_path: Path
) -> None:
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        (project.files.folder / "run.log").write_text("it began\n")
        opened(page, served)
        project.engine.lose_site("porto", "its processes are gone")
        case = page.locator("#troubles .case", has_text="site lost: porto")
        expect(case).to_contain_text("its processes are gone")
        expect(case).to_contain_text("Affects served")
        expect(case).to_contain_text("mooring logs --site porto")
        assert page.locator("main > section:visible").first.get_attribute("id") == "troubles"
        expect(page.locator("#fragments tbody tr").first).to_contain_text("served")
        project.engine.give_back("porto")
        expect(page.locator("#troubles")).to_be_hidden()
        expect(page.locator("#happenings")).to_contain_text("the site porto is lost")
        expect(page.locator("#happenings")).to_contain_text("the site porto is back")
        expect(page.locator("#happenings")).to_contain_text("started again after a fault: served at porto")
        page.get_by_label("fragment to move").select_option("pairs")
        page.get_by_label("site to move it to").select_option("porto")
        page.get_by_role("button", name="Show the effect").click()
        expect(page.locator("#acts")).to_contain_text("Move pairs from oslo to porto.")
        page.get_by_role("button", name="Make this move").click()
        expect(page.locator("[data-fragment=pairs]")).to_have_attribute("data-site", "porto")
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("#acts")).to_contain_text(re.compile("Headroom|Nothing would move"))
        page.get_by_role("button", name="Cancel").click()
        page.get_by_label("site to leave or to return").select_option("porto")
        page.get_by_role("button", name="Leave it").click()
        page.get_by_role("checkbox").check()
        page.get_by_role("button", name="Leave porto").click()
        expect(page.locator("#lanes")).to_contain_text("kept empty")
        page.get_by_role("button", name="Return it").click()
        expect(page.locator("#happenings")).to_contain_text("porto is used again")
        page.get_by_role("button", name="run", exact=True).click()
        expect(page.locator("#logs pre")).to_have_text("it began")
        for chart in ("latencies", "rates", "backlog"):
            expect(page.locator(f"#{chart} svg")).to_be_visible()


def newer(page: Page) -> None:
    """Until another look has been drawn."""
    seen = page.evaluate("document.body.dataset.at")
    page.wait_for_function("seen => document.body.dataset.at !== seen", arg=seen)


def test_what_somebody_is_at_stays_while_the_page_follows(page: Page, tmp_path: Path) -> None:
    """Refusals are not wiped away, the focus is not lost, an open list is not closed by the next look."""
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        page.goto(served.url)  # without the token
        page.locator("#apply").click()
        expect(page.locator("#notice")).to_contain_text("found no valid token")
        page.wait_for_selector("#stream0")
        page.evaluate("window.list = document.querySelector('#stream0')")
        page.locator("[data-fragment=read]").focus()
        page.keyboard.press("ArrowRight")
        newer(page)
        newer(page)
        expect(page.locator("#notice")).to_contain_text("found no valid token")
        expect(page.locator("[data-fragment=busy]")).to_be_focused()
        expect(page.locator("[data-to=busy]")).to_have_class("channel lit")
        assert page.evaluate("window.list.isConnected")
        assert page.locator("#lanes [tabindex='0']").count() == 1


def test_a_page_that_was_opened_before_the_run_follows_it(page: Page, tmp_path: Path) -> None:
    project = SimulatedProject(tmp_path / "demo")
    with serving_run(project.folder) as served:
        page.goto(f"{served.url}#token={TOKEN}")
        expect(page.locator("#waiting")).to_contain_text("The project has not run yet")
        expect(page.locator("#lanes")).to_be_hidden()
        with project:
            expect(page.locator("[data-fragment=busy]")).to_have_attribute("data-site", "oslo")
            expect(page.locator("#waiting")).to_be_hidden()


def test_the_slice_follows_what_is_chosen_and_dismissing_takes_the_proposal_away(
    page: Page, tmp_path: Path
) -> None:
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        opened(page, served)
        expect(page.locator("#stream0")).to_have_value("packets")
        expect(page.locator("#slice")).to_contain_text("oslo full")
        page.locator("#stream0").select_option("requests")
        expect(page.locator("#stream1")).to_have_value("packets")
        page.locator("#dismiss").click()
        expect(page.locator("#proposal")).to_contain_text("are dismissed")
        expect(page.locator("#happenings")).to_contain_text("dismissed: busy oslo → porto")


def test_the_page_goes_on_when_the_service_was_started_anew(page: Page, tmp_path: Path) -> None:
    with SimulatedProject(tmp_path / "demo") as project:
        with serving_run(project.folder) as served:
            opened(page, served)
            port = served.port
        expect(page.locator("#state b")).to_have_class("bad")
        with serving_run(project.folder, port):
            expect(page.locator("#state")).to_contain_text("running")


WORDS = {
    "figure(1234567)": "1\u202f234\u202f567",
    "figure(0.12345)": "0.123",
    "figure(null)": "\u2013",
    "bytes(72000)": "72 kB",
    "seconds(0.25)": "250 ms",
    "seconds(90)": "90 s",
    "seconds(7199)": "120 min",
    "seconds(10799)": "2 h 59 min",
    "times(1.066)": "\u00d7 1.07",
    "times(40.2)": "more than \u00d7 10",
    "times(null)": "no limit",
    "room(0.9)": "Rates must fall to",
    "room(null)": "All rates can still grow",
    "counted(1, 'file')": "1 file",
    "counted(1.5, 'core')": "1.5 cores",
    "shortened('operator_7_of_many', 11)": "opera…_many",
    "tone(0.76)": "warn",
    "ticks(108, 4)": [50, 100],
    "ticks(0.9, 4)": [0.5],
}


def test_figures_in_words(page: Page) -> None:
    with serving(lambda rules: desk_app(PlanningDesk("small", PROBLEM), rules)) as served:
        opened(page, served)
        for name in ("words", "charts"):
            page.evaluate(f"import('/page/{name}.js').then((made) => Object.assign(window, made))")
        assert {asked: page.evaluate(asked) for asked in WORDS} == WORDS


def test_sliders_and_pins_plan_anew(page: Page) -> None:
    problem = Problem.load("examples/forest.yaml")
    with serving(lambda rules: desk_app(PlanningDesk("forest", problem), rules)) as served:
        opened(page, served)
        before = page.locator("#tiles .big").first.inner_text()
        page.get_by_label("rate of s1").fill("300")
        expect(page.locator("#tiles .big").first).not_to_have_text(before)
        page.get_by_label("operator to pin").select_option("o1_1")
        page.get_by_label("site to pin it to").select_option("site7")
        page.get_by_role("button", name="Pin").click()
        pinned = page.locator("[data-fragment=o1_1]")
        expect(pinned).to_have_attribute("data-site", "site7")
        expect(pinned).to_have_attribute("aria-label", "o1_1 at site7: pinned")
        expect(page.locator("#why")).to_contain_text("is the bottleneck")
        page.get_by_role("checkbox", name="connected").uncheck()
        page.get_by_role("checkbox", name="max_rate").check()
        page.locator("#compare").click()
        expect(page.locator("#compared tbody tr td:first-child")).to_have_text(
            ["rod", "random", "llf", "max_rate"]
        )
        expect(page.locator("#compared .best").first).to_be_visible()
        page.get_by_label("rate of s1").fill("50")
        expect(page.locator("#compared")).to_have_class("stale")
        page.get_by_role("button", name="llf").click()
        expect(page.locator("#placed")).to_have_text("placed by llf")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        with page.expect_download() as download:
            page.locator("#download").click()
        assert download.value.suggested_filename == "plan.json"
        plan = json.loads(download.value.path().read_text())
        assert plan["placement"]["o1_1"] == "site7"
        page.locator("#example").click()
        expect(page.locator("#name")).to_have_text("the example")
        expect(page.locator("#lanes")).to_contain_text("berkeley")
        expect(page.get_by_label("rate of packets")).to_have_value("100")


BEYOND = """() => [...document.querySelectorAll("main *")].filter((each) => {
  const { width, right } = each.getBoundingClientRect();
  return width && right > innerWidth + 1 && !each.closest(".scroll");
}).map((each) => each.outerHTML.slice(0, 80))"""
"""What lies beyond the right edge, other than what can be scrolled to."""


def test_nothing_runs_over_the_edge(browser: Browser, tmp_path: Path) -> None:
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        for scheme, width in (("light", 1400), ("dark", 1400), ("light", 390)):
            page = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
            page.set_default_timeout(PATIENCE_MS)
            opened(page, served)
            page.wait_for_selector("#proposal button")
            page.wait_for_selector("#chosen-policy")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert page.evaluate(BEYOND) == []
            page.close()


def test_three_hundred_fragments_are_under_500_kilobytes(page: Page, tmp_path: Path) -> None:
    """All that is loaded until everything is drawn; names that differ at their ends are told apart."""
    with (
        SimulatedProject(tmp_path / "demo", MANY, [10.0] * 4) as project,
        serving_run(project.folder) as served,
    ):
        served.until("/api/v1/picture", lambda picture: "headroom" in picture)
        opened(page, served)
        expect(page.locator("[data-fragment]")).to_have_count(300)
        expect(page.locator("#slice svg")).to_have_count(1)
        names = page.locator("[data-fragment] text").all_text_contents()
        assert len(set(names)) == 300
        # Each address once: the page reads the history again at every look, and a busy machine draws later.
        sent = page.evaluate(
            """() => Object.values(Object.fromEntries(performance.getEntries().toReversed().map(
                each => [each.name, each.decodedBodySize ?? 0]))).reduce((sum, size) => sum + size, 0)"""
        )
        picture = len(json.dumps(served.get("/api/v1/picture")))  # of the events, which have no end
        assert 50_000 < sent + picture < 500_000
