"""What a Spark UI answers is believed only as far as it has the right form, and a token is never told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import InputError
from mooring.spark.sites import spark_ui
from mooring.spark.sites.spark_ui import SparkUi, UiConnection, UiError, check_ui

OURS, OTHER = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
Answers = dict[str, Any]
Tamper = Callable[[BaseHTTPRequestHandler, str], bool]


class Application:
    """The REST interface of one, with as many jobs as are added."""

    def __init__(self) -> None:
        self.name, self.jobs, self.stages = "app-1", list[Answers](), dict[int, Answers]()
        self.executors = [_executor("driver", 0), _executor("0", 1), _executor("1", 1)]
        self.driver_ns = 5_000_000_000
        self.asked: list[str] = []

    def add(self, session: str, cpu_s: float, status: str = "COMPLETE", tasks: int = 0) -> int:
        stage = len(self.stages)
        tag = f"SparkConnect_OperationTag_User_me_Session_{session}_Operation_{OTHER}"
        self.jobs.append({"stageIds": [stage], "jobTags": ["x", tag], "status": "RUNNING"})
        self.stages[stage] = {
            "stageId": stage,
            "attemptId": 0,
            "status": status,
            "numActiveTasks": tasks,
            "executorCpuTime": int(0.75 * cpu_s * 1e9),
            "executorDeserializeCpuTime": int(0.25 * cpu_s * 1e9),
        }
        return stage

    def answer(self, path: str) -> Any:
        """None: not found."""
        self.asked.append(path)
        base = f"/api/v1/applications/{self.name}"
        plain = path.partition("?")[0]
        if plain == "/api/v1/applications":
            return [{"id": self.name, "name": "x", "attempts": []}]
        if plain == "/metrics/json/":
            of = f"{self.name}.driver."
            gauges = {
                f"{of}JVMCPU.jvmCpuTime": {"value": self.driver_ns},
                f"{of}DAGScheduler.job.allJobs": {"value": len(self.jobs)},
                f"{of}odd": {"value": [None]},
            }
            return {"gauges": gauges}
        if plain == f"{base}/executors":
            return self.executors
        if plain == f"{base}/jobs":
            return self.jobs
        if plain == f"{base}/stages":
            return [each for each in self.stages.values() if each["status"] == "ACTIVE"]
        kind, _, number = plain.removeprefix(f"{base}/").partition("/")
        if kind == "jobs" and int(number) < len(self.jobs):
            return self.jobs[int(number)]
        if kind == "stages" and int(number) in self.stages:
            return [self.stages[int(number)]]
        return None


def _executor(name: str, cores: int) -> Answers:
    return {"id": name, "isActive": True, "totalCores": cores}


@contextmanager
def served(application: Application, tamper: Tamper = lambda handler, path: False) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if tamper(self, self.path):
                return
            found = application.answer(self.path)
            body = json.dumps(found).encode() if found is not None else b"no such thing"
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_tasks_are_counted_by_session_and_once() -> None:
    application = Application()
    application.add(OURS, 100.0)  # before the first look
    running = application.add(OURS, 2.0, "ACTIVE", tasks=2)
    with served(application) as url:
        ui = SparkUi(UiConnection(url))
        first = ui.look()
        assert (first.cores, len(first.executors), first.is_local) == (2, 2, False)
        assert (first.driver_cpu_s, first.cpu_s, first.active_tasks) == (5.0, {}, {OURS: 2})
        application.stages[running] |= {"executorCpuTime": 3_000_000_000, "executorDeserializeCpuTime": 0}
        application.add(OTHER, 7.0)
        second = ui.look()
        assert second.cpu_s == {OURS: pytest.approx(1.0), OTHER: pytest.approx(7.0)}
        application.stages[running] |= {"executorCpuTime": 4_500_000_000, "status": "COMPLETE"}
        application.add("", 0.5)
        third = ui.look()
        assert third.cpu_s == {OURS: pytest.approx(2.5), OTHER: pytest.approx(7.0), "": pytest.approx(0.5)}
        asked = len(application.asked)
        assert ui.look().cpu_s == third.cpu_s
        assert len(application.asked) - asked == 4  # nothing is new: no job and no stage is read again
        application.name = "app-2"
        assert ui.look().cpu_s == {}  # it was started anew
        ui.close()


def test_a_driver_that_runs_the_tasks_itself_is_an_executor() -> None:
    application = Application()
    application.executors = [_executor("driver", 4)]
    with served(application) as url:
        ui = SparkUi(UiConnection(url))
        look = ui.look()
        ui.close()
    assert (look.cores, len(look.executors), look.is_local) == (4, 1, True)


def _says(body: bytes, status: int = 200, *headers: tuple[str, str]) -> Tamper:
    def tamper(handler: BaseHTTPRequestHandler, path: str) -> bool:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        for header in headers:
            handler.send_header(*header)
        handler.end_headers()
        handler.wfile.write(body)
        return True

    return tamper


def _endless(handler: BaseHTTPRequestHandler, path: str) -> bool:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 65536)
    except OSError:
        return True


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (_says(b"<html>hello</html>"), "unexpected form"),
        (_says(b'[{"id": 7}]'), "unexpected form"),
        (_says(b"[" * 100_000), "unexpected form"),
        (_says(b'[{"id": "../../etc"}]'), "unexpected form"),
        (_says(b"[]"), "shows 0 running applications"),
        (_says(b'[{"id": "a"}, {"id": "b"}]'), "shows 2 running applications"),
        (_says(b"", 302, ("Location", "http://169.254.169.254/")), "not followed"),
        (_says(b"", 401), "refuses access"),
        (_says(b"", 500), "answers 500"),
        (_endless, "cannot be read"),
    ],
)
def test_an_answer_in_another_form_is_an_error_with_its_reason(tamper: Tamper, why: str) -> None:
    with served(Application(), tamper) as url, pytest.raises(UiError, match=why) as found:
        SparkUi(UiConnection(url)).look()
    assert "169.254" not in str(found.value)


@pytest.mark.parametrize(
    "wrong",
    [{"totalCores": -1}, {"totalCores": "3"}, {"totalCores": 1e300}, {"failedTasks": None}, {"id": 3}],
)
def test_a_figure_of_another_type_is_none(wrong: Answers) -> None:
    application = Application()
    application.executors[1] |= wrong
    with served(application) as url, pytest.raises(UiError, match="unexpected form"):
        SparkUi(UiConnection(url)).look()


def test_metrics_without_the_driver_are_missed_by_name() -> None:
    application = Application()
    application.driver_ns = -1
    with served(application) as url, pytest.raises(UiError, match="metrics of its driver"):
        SparkUi(UiConnection(url)).look()


def test_a_silent_server_costs_no_more_than_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_ui, "PATIENCE_S", 0.2)
    over = threading.Event()
    with (
        served(Application(), lambda handler, path: over.wait(30)) as url,
        pytest.raises(UiError, match="timed out"),
    ):
        SparkUi(UiConnection(url)).look()
    over.set()


def test_a_token_goes_along_and_is_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def keep(handler: BaseHTTPRequestHandler, path: str) -> bool:
        sent.append(handler.headers.get("Authorization"))
        return _says(b"", 403)(handler, path)

    monkeypatch.setenv("UI_TOKEN", "very-secret")
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text("very-secret\n")
    with served(Application(), keep) as url:
        for connection in (
            UiConnection(url, token_env="UI_TOKEN"),
            UiConnection(url, token_file=str(file)),
        ):
            with pytest.raises(UiError) as found:
                SparkUi(connection).look()
            assert "very-secret" not in f"{found.value} {connection!r}"
        monkeypatch.delenv("UI_TOKEN")
        with pytest.raises(UiError, match="UI_TOKEN is empty or not set"):
            SparkUi(UiConnection(url, token_env="UI_TOKEN")).look()
    assert sent == ["Bearer very-secret"] * 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (UiConnection("ftp://driver:4040"), "not http"),
        (UiConnection("http://me:very-secret@driver:4040"), "not http"),
        (UiConnection("http://driver:4040/?token=very-secret"), "not http"),
        (UiConnection("http://driver:99999"), "not http"),
        (UiConnection("http://driver:4040", token_env="T"), "plain text"),
        (UiConnection("https://driver", token_env="T", token_file="t"), "more than one token"),
        (UiConnection("http://driver", ca_file="ca.pem"), "without TLS"),
    ],
)
def test_what_is_stated_is_checked_before_anything_is_asked(given: UiConnection, why: str) -> None:
    with pytest.raises(InputError, match=why) as found:
        check_ui(given, "sites.c.ui")
    assert found.value.field == "sites.c.ui"
    assert "very-secret" not in str(found.value)


@pytest.mark.parametrize(
    "given",
    [
        UiConnection("http://driver:4040"),
        UiConnection("https://proxy.example/proxy/application_1_2/", token_env="T"),
        UiConnection("http://localhost:4040", token_file="t"),
        UiConnection("http://driver:4040", token_env="T", plain_text=True),
    ],
)
def test_what_is_well_stated_is_taken(given: UiConnection) -> None:
    assert check_ui(given, "ui") is given
