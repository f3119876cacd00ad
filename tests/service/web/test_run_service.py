"""A service over a real session: what it shows, what it carries out, and what it refuses."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.controller.journal import Journal
from mooring.model.placement.placement import FragmentSites
from tests.service.served import PATIENCE_S, TOKEN, Served, serving_run
from tests.service.simulated_project import ALL_AT_OSLO, SimulatedProject


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedProject]:
    with SimulatedProject(tmp_path_factory.mktemp("served") / "demo") as running:
        yield running


@pytest.fixture(scope="module")
def served(project: SimulatedProject) -> Iterator[Served]:
    with serving_run(project.folder) as service:
        service.until("/api/v1/picture", lambda picture: picture.get("proposal"))
        yield service


def test_the_picture_tells_of_sites_fragments_and_headroom(served: Served) -> None:
    picture = served.get("/api/v1/picture")
    assert picture["runs"] is True
    assert {site["name"] for site in picture["sites"]} == {"oslo", "porto"}
    assert {each["name"]: each["layer"] for each in picture["fragments"]}["busy"] == 1
    assert picture["headroom"]["site"] == "oslo"
    assert picture["headroom"]["factor"] == pytest.approx(1 / 0.89, rel=0.1)
    assert picture["queries"][0]["limit_s"] == 60.0


def test_the_slice_is_that_of_the_load_model(served: Served) -> None:
    """At 8.9 ms of one core per packet, oslo is full at 112 packets per second whatever porto gets."""
    cut = served.get("/api/v1/slice?first=packets&second=requests")
    edges = {edge["site"]: edge["points"] for edge in cut["edges"]}
    assert [round(x, 1) for x, _ in edges["oslo"]] == [112.4] * len(edges["oslo"])
    assert edges["porto"][0][1] == pytest.approx(2000.0)
    assert cut["ideal"] == [[0.0, pytest.approx(4000.0)], [pytest.approx(2 / 0.0089), 0.0]]


@pytest.mark.parametrize(
    "path",
    [
        "status",
        "history",
        "headroom",
        "problem",
        "placement",
        "proposal",
        "moves",
        "journal",
        "policies",
        "openapi.json",
    ],
)
def test_every_document_is_there(served: Served, path: str) -> None:
    status, headers, document = served.ask("GET", f"/api/v1/{path}")
    assert status == 200, document
    assert headers["cache-control"] == "no-store"
    assert isinstance(document, dict)


def test_metrics_are_given_to_prometheus(served: Served) -> None:
    status, headers, text = served.ask("GET", "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    assert 'mooring_site_capacity_cores{pipeline="network_monitoring",site="oslo"} 1.0' in text
    assert 'mooring_up{pipeline="network_monitoring"} 1.0' in text
    assert 'mooring_decider_info{decider="headroom",pipeline="network_monitoring"} 1.0' in text
    assert 'mooring_fragment_rows_read_total{fragment="busy",pipeline=' in text


@pytest.mark.parametrize(
    ("headers", "token", "code"),
    [
        ({}, None, 401),
        ({}, "wrong", 401),
        ({"origin": "http://evil.example"}, TOKEN, 403),
        ({"sec_fetch_site": "cross-site"}, TOKEN, 403),
        ({"host": "evil.example"}, TOKEN, 421),
        ({"content_type": "text/plain"}, TOKEN, 415),
    ],
)
def test_a_change_is_refused(served: Served, headers: dict[str, str], token: str | None, code: int) -> None:
    status, _, document = served.ask("POST", "/api/v1/moves", {"id": "x"}, token=token, **headers)
    assert status == code
    assert document["error"]["remedy"]


def test_a_list_that_is_another_by_now_is_refused(served: Served) -> None:
    status, _, document = served.ask("POST", "/api/v1/moves", {"id": "0" * 16}, token=TOKEN)
    assert status == 409
    assert "is outdated" in document["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"{", b'{"id": 3}', b'{"id": "x", "more": 1}', b"[]", b"\xff\xfe", b"[" * 60_000]
)
def test_a_body_that_is_not_as_expected_is_refused(served: Served, body: bytes) -> None:
    status, _, document = served.ask("POST", "/api/v1/moves", body, token=TOKEN)
    assert status == 400, document


def test_a_huge_body_is_refused_before_it_is_read(served: Served) -> None:
    connection = http.client.HTTPConnection(served.host, served.port, timeout=30)
    connection.putrequest("POST", "/api/v1/moves")
    for name, value in {
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json",
        "content-length": str(10**9),
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_the_page_and_its_files_come_with_strict_headers(served: Served) -> None:
    status, headers, text = served.ask("GET", "/")
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    for name in ("page.css", "page.js", "lanes.js"):
        assert f"/page/{name}" in text or served.ask("GET", f"/page/{name}")[0] == 200
    assert served.ask("GET", "/page/../web/guard.py")[0] == 404
    assert "http://" not in text
    assert "https://" not in text


def test_those_who_follow_get_the_newest_picture(served: Served) -> None:
    with socket.create_connection((served.host, served.port), timeout=30) as line:
        line.sendall(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        text = b""
        while text.count(b"event: picture") < 2:
            text += line.recv(65536)
    data = next(part for part in text.split(b"\r\n") if part.startswith(b"event: picture"))
    assert json.loads(data.split(b"\ndata: ")[1])["pipeline"] == "network_monitoring"


def test_applying_a_proposal_moves_the_fragment_and_the_journal_says_who_asked(
    project: SimulatedProject, served: Served
) -> None:
    proposal = served.get("/api/v1/proposal")["proposal"]
    assert [(m["fragment"], m["from"], m["to"]) for m in proposal["moves"]] == [("busy", "oslo", "porto")]
    status, _, asked = served.ask("POST", "/api/v1/moves", {"id": proposal["id"]}, token=TOKEN)
    assert status == 202
    done = served.until(f"/api/v1/moves/{asked['request']}", lambda each: each["state"] != "running")
    assert done["state"] == "done", done
    picture = served.until("/api/v1/picture", lambda each: each["headroom"]["factor"] > 1.5)
    assert {each["name"]: each["site"] for each in picture["fragments"]}["busy"] == "porto"
    (move,) = (each for each in picture["happenings"] if each["kind"] == "move")
    assert "REST, from 127.0.0.1" in move["asked_by"]
    after = FragmentSites({**ALL_AT_OSLO, "busy": "porto"})
    assert Journal(project.files.folder, lambda: 0.0).placement() == after


def test_the_ledger_holds_what_was_applied_against_what_it_promised(served: Served) -> None:
    def measured(picture: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in picture["happenings"] if each.get("measured")]

    (move,) = measured(served.until("/api/v1/picture", measured))
    promised, found = move["promised"]["site_loads_cores"], move["measured"]["site_loads_cores"]
    assert found["oslo"] == pytest.approx(promised["oslo"], rel=0.2)
    assert found["porto"] == pytest.approx(promised["porto"], rel=0.2)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("moves/abort", "no list of moves is being carried out"),
        ("sites/porto/leave", "can run at 'porto' only"),
        ("sites/oslo/return", "oslo"),
    ],
)
def test_what_the_run_refuses_is_told_in_its_words(served: Served, path: str, words: str) -> None:
    status, _, asked = served.ask("POST", f"/api/v1/{path}", {}, token=TOKEN)
    assert status == 202, asked
    over = served.until(f"/api/v1/moves/{asked['request']}", lambda each: each["state"] != "running")
    assert over["state"] in ("refused", "failed"), over
    assert words in over["why"]


def test_a_plan_is_a_dry_run_whose_moves_can_be_asked_for(served: Served) -> None:
    before = served.get("/api/v1/placement")
    status, _, plan = served.ask("POST", "/api/v1/plan", {"policy": "rod"}, token=TOKEN)
    assert status == 200, plan
    assert set(plan["to"]) == set(ALL_AT_OSLO)
    assert {"problem", "bound", "rejected", "shared", "plan_seconds", "moves", "id"} <= plan.keys()
    assert served.get("/api/v1/placement") == before
    assert served.ask("POST", "/api/v1/plan", {"policy": "nobody"}, token=TOKEN)[0] == 400


def test_history_outlives_the_service(project: SimulatedProject, served: Served) -> None:
    points = served.until("/api/v1/history", lambda each: len(each["points"]) > 3)["points"]
    with serving_run(project.folder) as another:
        again = another.until("/api/v1/history", lambda each: each["points"])["points"]
    assert again[0]["at_s"] <= points[0]["at_s"] + 60.0
    assert points[0]["rates"].keys() == {"packets", "requests"}


def test_what_is_dismissed_is_not_proposed_again(tmp_path: Path) -> None:
    with SimulatedProject(tmp_path / "other") as project, serving_run(project.folder) as service:
        shown = service.until("/api/v1/proposal", lambda each: each["proposal"])["proposal"]
        code, _, asked = service.ask("POST", "/api/v1/proposal/dismiss", {"id": shown["id"]}, token=TOKEN)
        assert code == 202
        service.until(f"/api/v1/moves/{asked['request']}", lambda each: each["state"] == "done")
        gone = service.until("/api/v1/proposal", lambda each: each["proposal"] is None)
        assert "are dismissed" in gone["adapting"]["why"]


def test_before_anything_ran_the_service_waits(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    SimulatedProject(folder)
    with serving_run(folder) as service:
        assert "waiting" in service.get("/api/v1/picture")
        assert service.ask("GET", "/api/v1/headroom")[0] == 404
        assert service.ask("GET", "/readyz")[0] == 503
        assert service.ask("POST", "/api/v1/moves", {"id": "x"}, token=TOKEN)[0] == 409


def test_logs_need_the_token_even_on_loopback(project: SimulatedProject, served: Served) -> None:
    (project.files.folder / "run.log").write_text("one\ntwo\npage: http://127.0.0.1:1/#token=secret\n")
    assert served.ask("GET", "/api/v1/logs")[0] == served.ask("GET", "/api/v1/logs/run")[0] == 401
    assert [each["name"] for each in served.ask("GET", "/api/v1/logs", token=TOKEN)[2]["logs"]] == ["run"]
    _, _, found = served.ask("GET", "/api/v1/logs/run?newest=2", token=TOKEN)
    assert found["lines"] == ["two", "page: http://127.0.0.1:1/#token=..."]
    assert served.ask("GET", "/api/v1/logs/site%20rome", token=TOKEN)[0] == 404


def test_where_fragments_are_wanted_is_shown_as_moves_before_they_are_asked_for(served: Served) -> None:
    """`read` is pinned to oslo, and a stop is of one pipeline."""
    wanted = {"sites": {"pairs": "porto"}}
    status, _, shown = served.ask("POST", "/api/v1/moves/preview", wanted, token=TOKEN)
    assert (status, [each["to"] for each in shown["moves"]]) == (200, ["porto"])
    assert shown["moves"][0]["after"]["headroom"] != shown["before"]["headroom"]
    for sites, code in (({"read": "porto"}, 409), ({"nobody": "oslo"}, 400), ({"pairs": "rome"}, 400)):
        assert served.ask("POST", "/api/v1/moves/preview", {"sites": sites}, token=TOKEN)[0] == code
    assert served.ask("POST", "/api/v1/stop", {"pipeline": "another"}, token=TOKEN)[0] == 409


RUNNER = """
import signal, sys
from pathlib import Path
from mooring.spark.runs.run_files import RunFiles

signal.signal(signal.SIGTERM, lambda *given: sys.exit())
files = RunFiles(Path(sys.argv[1]))
assert files.hold()
print("runs", flush=True)
signal.pause()
"""


def test_a_stop_ends_the_process_that_runs(tmp_path: Path) -> None:
    """What holds the project's lock is the run."""
    with SimulatedProject(tmp_path / "demo") as project, serving_run(project.folder) as served:
        served.until("/api/v1/picture", lambda picture: "headroom" in picture)
    command = [sys.executable, "-c", RUNNER, str(project.files.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as runner:
        try:
            assert runner.stdout is not None
            assert runner.stdout.readline() == "runs\n"
            with serving_run(project.folder) as served:
                served.until("/api/v1/status", lambda status: status["running"])
                sent = served.ask("POST", "/api/v1/stop", {"pipeline": "network_monitoring"}, token=TOKEN)
                assert sent[0] == 202
                assert runner.wait(PATIENCE_S) == 0
                served.until(f"/api/v1/moves/{sent[2]['request']}", lambda each: each["state"] == "done")
        finally:
            runner.kill()
