"""The REST interface of a Spark application's UI: its executors, the CPU of its driver, and of its stages.

What answers there is another program, perhaps a proxy or none of Spark's. So an answer has a bound on its
size and time, redirects are not followed, and what has not the expected form is an error with a reason. A
token goes along as a header, and is in no message.

Jobs are numbered, and Spark counts them: at each look those that are new are read, and the stages that they
name. A job carries the session of Spark Connect that it works for.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import ssl
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from mooring.errors import InputError
from mooring.model.problem.reading.address import is_loopback
from mooring.spark.sites.site_token import secret_of

T = TypeVar("T")
PATIENCE_S = 4.0
"""For one answer."""
MOST_BYTES = 8 * 2**20
"""Of one answer. A thousand executors make about 1.5 MB."""
DRIVER = "driver"
"""The id of the driver among executors."""
MOST_JOBS = 500
"""That are read at one look."""
_MOST_KEPT = 10_000
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?"
)
_EXAMPLE = "http://driver:4040"
_SESSION = re.compile(r"_Session_([0-9a-f-]{36})_Operation_")
"""In a tag that Spark Connect gives to the jobs of a session."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_OVER = ("COMPLETE", "FAILED", "SKIPPED")

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class UiError(Exception):
    """Why nothing is known from there."""


@dataclass(frozen=True, repr=False)
class UiConnection:
    """How the UI of a site's driver is reached."""

    url: str
    token_env: str | None = None
    """The environment variable that holds the token."""
    token_file: str | None = None
    ca_file: str | None = None
    """Certificates (PEM) of whoever vouches for it, instead of those that everybody trusts."""
    plain_text: bool = False
    """A token may cross the network for all on the way to read."""

    def __repr__(self) -> str:
        return f"UiConnection({self.shown!r})"

    @property
    def shown(self) -> str:
        """Where it is, fit for logs and reports."""
        parts = self.parts
        return f"{parts['scheme']}://{parts['host']}:{self.port}"

    @property
    def parts(self) -> dict[str, str]:
        found = _URL.fullmatch(self.url)
        assert found is not None, "checked when it was read"
        return found.groupdict("")

    @property
    def port(self) -> int:
        parts = self.parts
        return int(parts["port"] or (443 if parts["scheme"] == "https" else 80))


def check_ui(given: UiConnection, path: str) -> UiConnection:
    """Refuse what is no address, contradicts itself, or sends a token for all to read. The address is not
    repeated: a mistyped one may carry a token anywhere.
    """
    remedy = f"write it as {_EXAMPLE}, or https://... behind a proxy; a token belongs in token_env"
    if (found := _URL.fullmatch(given.url)) is None or not 0 < int(found["port"] or 80) < 1 << 16:
        raise InputError(
            f"found an address of {len(given.url)} characters that is not http(s)://HOST:PORT",
            field=path,
            remedy=remedy,
        )
    if given.token_env is not None and given.token_file is not None:
        raise InputError("found more than one token", field=path, remedy="keep token_env or token_file")
    private = found["scheme"] == "https"
    if given.ca_file is not None and not private:
        raise InputError("found ca_file for an address without TLS", field=path, remedy="write https://...")
    tells = given.token_env is not None or given.token_file is not None
    if tells and not (private or given.plain_text or is_loopback(found["host"])):
        raise InputError(
            f"a token for {given.shown} would cross the network in plain text",
            field=path,
            remedy="write https:// (ca_file names a CA of your own), or plain_text: true where the network "
            "is trusted",
        )
    return given


class Executor(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    is_active: bool = True
    total_cores: Count = 0
    failed_tasks: Count = 0
    total_g_c_time: Count = msgspec.field(name="totalGCTime", default=0)
    """In which it collected garbage, in ms."""


class _Application(msgspec.Struct, frozen=True):
    id: str


class _Job(msgspec.Struct, frozen=True, rename="camel"):
    stage_ids: list[Count]
    job_tags: list[str] = []


class _Stage(msgspec.Struct, frozen=True, rename="camel"):
    stage_id: Count
    attempt_id: Count
    status: str
    num_active_tasks: Count = 0
    executor_cpu_time: Count = 0
    executor_deserialize_cpu_time: Count = 0

    @property
    def cpu_s(self) -> float:
        return (self.executor_cpu_time + self.executor_deserialize_cpu_time) / 1e9


@dataclass(frozen=True)
class UiLook:
    """What an application says of itself at one moment."""

    at_s: float
    """By our monotonic clock."""
    application: str
    executors: tuple[Executor, ...]
    """Those that are there. The driver is one where it runs the tasks itself (`local` masters)."""
    driver_cpu_s: float
    """Since it was started."""
    cpu_s: dict[str, float] = field(default_factory=dict)
    """Of the tasks for each session since the first look; "" for other work."""
    active_tasks: dict[str, int] = field(default_factory=dict)
    """By the same."""

    @property
    def cores(self) -> int:
        return sum(each.total_cores for each in self.executors)

    @property
    def is_local(self) -> bool:
        """Whether the driver runs the tasks, so that its CPU is not apart from theirs."""
        return any(each.id == DRIVER for each in self.executors)


@dataclass(frozen=True)
class Cluster:
    """What is stated of a site whose executors are somebody else's."""

    ui: UiConnection | None = None
    """Where its driver shows executors and stages; None: they cannot be seen."""
    most_cores: float | None = None
    """It may grow to so many by itself, and counts with no more; None: it has what it has."""


class SparkUi:
    """Of one site. Not for several threads at once."""

    def __init__(self, connection: UiConnection) -> None:
        self.connection = connection
        self._open_connection: http.client.HTTPConnection | None = None
        self._application = ""
        self._next_job: int | None = None
        self._session_of: dict[int, str] = {}
        """Stage -> the session that it works for."""
        self._open: dict[tuple[int, int], float] = {}
        """Stages that are not over, and what was counted of each."""
        self._cpu_s: dict[str, float] = {}

    def look(self) -> UiLook:
        """`UiError` if that cannot be had; nothing is counted twice then."""
        try:
            return self._look()
        except UiError:
            self.close()
            raise

    def _look(self) -> UiLook:
        application = self._running_application()
        if application != self._application:  # it was started anew
            self._application, self._next_job = application, None
            self._session_of, self._open, self._cpu_s = {}, {}, {}
        base = f"/api/v1/applications/{application}"
        executors = self._get(f"{base}/executors", list[Executor])
        driver_cpu_s, jobs = self._driver()
        active = self._read_stages(base, jobs)
        return UiLook(
            time.monotonic(),
            application,
            tuple(
                each for each in executors or () if each.is_active and (each.id != DRIVER or each.total_cores)
            ),
            driver_cpu_s,
            dict(self._cpu_s),
            active,
        )

    def close(self) -> None:
        if self._open_connection is not None:
            self._open_connection.close()
            self._open_connection = None

    def _running_application(self) -> str:
        found = self._get("/api/v1/applications?status=running", list[_Application]) or []
        if len(found) != 1:
            raise UiError(
                f"{self.connection.shown} shows {len(found)} running applications, expected one: give the "
                "address of the driver's own UI"
            )
        if not _ID.fullmatch(found[0].id):
            raise UiError(f"{self.connection.shown} names its application in an unexpected form")
        return found[0].id

    def _driver(self) -> tuple[float, int]:
        """Its CPU so far, and its jobs so far."""
        metrics = self._get("/metrics/json/", dict[str, Any])
        gauges = (metrics or {}).get("gauges")
        cpu_ns = jobs = None
        for name, gauge in gauges.items() if isinstance(gauges, dict) else ():
            value = gauge.get("value") if isinstance(gauge, dict) else None
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                continue
            if name.endswith(".driver.JVMCPU.jvmCpuTime"):
                cpu_ns = value
            elif name.endswith(".driver.DAGScheduler.job.allJobs"):
                jobs = value
        if cpu_ns is None or jobs is None:
            raise UiError(f"{self.connection.shown} does not tell the metrics of its driver (/metrics/json)")
        return cpu_ns / 1e9, jobs

    def _read_stages(self, base: str, jobs: int) -> dict[str, int]:
        """Count what stages have used since the last look; returns the tasks that run, by session."""
        first, begin = self._next_job is None, jobs if self._next_job is None else self._next_job
        if jobs - begin > MOST_JOBS:
            self._next_job, self._open = jobs, {}
            raise UiError(f"{jobs - begin} jobs since the last look, expected at most {MOST_JOBS}")
        if first:
            for job in (self._get(f"{base}/jobs?status=running", list[_Job]) or [])[:_MOST_KEPT]:
                self._take_job(job)
        new: set[int] = set()
        for number in range(begin, jobs):
            if (found := self._get(f"{base}/jobs/{number}", _Job)) is None:
                break  # not listed yet
            new |= self._take_job(found)
            self._next_job = number + 1
        active: dict[str, int] = {}
        for stage in (self._get(f"{base}/stages?status=active", list[_Stage]) or [])[:_MOST_KEPT]:
            session = self._session_of.get(stage.stage_id, "")
            active[session] = active.get(session, 0) + stage.num_active_tasks
            if first:
                self._open[stage.stage_id, stage.attempt_id] = stage.cpu_s
        self._next_job = begin if self._next_job is None else self._next_job
        for stage_id in sorted(new | ({number for number, _ in self._open} if not first else set())):
            for attempt in self._get(f"{base}/stages/{stage_id}?details=false", list[_Stage]) or []:
                self._count(attempt)
        return active

    def _take_job(self, job: _Job) -> set[int]:
        """Whose its stages are."""
        session = next((found[1] for tag in job.job_tags if (found := _SESSION.search(tag))), "")
        for stage in job.stage_ids[:MOST_JOBS]:
            self._session_of[stage] = session
        _bound(self._session_of)
        return set(job.stage_ids[:MOST_JOBS])

    def _count(self, stage: _Stage) -> None:
        key = stage.stage_id, stage.attempt_id
        new_s = stage.cpu_s - self._open.pop(key, 0.0)
        session = self._session_of.get(stage.stage_id, "")
        self._cpu_s[session] = self._cpu_s.pop(session, 0.0) + max(0.0, new_s)
        if stage.status not in _OVER:
            self._open[key] = stage.cpu_s
        _bound(self._cpu_s)
        _bound(self._open)

    # One request

    def _get(self, path: str, expected: type[T]) -> T | None:
        """None: there is no such thing (404)."""
        where = f"{self.connection.shown}{path.partition('?')[0]}"
        try:
            status, body = self._ask(path)
        except (OSError, http.client.HTTPException, ValueError) as failure:
            said = "timed out" if isinstance(failure, TimeoutError) else type(failure).__name__
            raise UiError(f"{where} cannot be read: {said}") from None
        if status == 404:
            return None
        if status in (401, 403):
            raise UiError(f"{where} refuses access ({status}); check the token that `ui` names")
        if 300 <= status < 400:
            raise UiError(f"{where} redirects elsewhere ({status}), which is not followed")
        if status != 200:
            raise UiError(f"{where} answers {status}")
        try:
            return msgspec.json.decode(body, type=expected)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise UiError(f"{where} answers in an unexpected form: is it the UI of a Spark driver?") from None

    def _ask(self, path: str) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if (token := self._token()) is not None:
            headers["Authorization"] = f"Bearer {token}"
        whole = self.connection.parts["path"] + path
        again = self._open_connection is not None
        for may_be_stale in (True, False) if again else (False,):
            try:
                return self._sent(whole, headers)
            except (http.client.RemoteDisconnected, ConnectionError):
                self.close()
                if not may_be_stale:
                    raise
        raise AssertionError("unreachable")

    def _sent(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        deadline = time.monotonic() + PATIENCE_S
        if self._open_connection is None:
            self._open_connection = self._connected()
        connection = self._open_connection
        connection.request("GET", path, headers=headers)
        # Closed once what came is read: the next request can follow then.
        with contextlib.closing(connection.getresponse()) as answer:
            body = bytearray()
            while part := answer.read1(1 << 16):
                body += part
                if len(body) > MOST_BYTES:
                    raise ValueError("too long")
                if time.monotonic() > deadline:
                    raise TimeoutError
            return answer.status, bytes(body)

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self.connection.parts["host"].strip("[]"), self.connection.port
        if self.connection.parts["scheme"] != "https":
            return http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        context = ssl.create_default_context(cafile=self.connection.ca_file)
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE_S, context=context)

    def _token(self) -> str | None:
        given = self.connection
        if given.token_env is None and given.token_file is None:
            return None
        try:
            return secret_of(given.token_env, given.token_file, "ui")
        except InputError as unfit:
            raise UiError(unfit.message) from None


def _bound(kept: dict[Any, Any]) -> None:
    """Without the oldest beyond what is kept."""
    while len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]
