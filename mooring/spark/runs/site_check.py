"""What a live endpoint must have to be a site of a project, tried one by one: what holds, what is missing,
and the line to add. Nothing is changed there.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from mooring.errors import EngineError, MooringError, described
from mooring.quantity import decimal
from mooring.spark.definitions.result_settings import (
    LEFT_ALONE,
    PREFIX,
    STATED,
    effective,
    settle_results,
    wanted_results,
)
from mooring.spark.definitions.session_settings import refused_settings, shown_value
from mooring.spark.engine.warm_up import warm_up
from mooring.spark.pipeline.project import Project
from mooring.spark.pipeline.shared_clusters import groups_of
from mooring.spark.pipeline.site_options import executor_notes, project_jars, site_options
from mooring.spark.runs.known_root import KnownRoot
from mooring.spark.sites.embedded_site import zone_of_functions
from mooring.spark.sites.endpoint import close_session, first_line, open_session, spark_version
from mooring.spark.sites.site_calls import FIRST_PATIENCE_S, SiteCalls
from mooring.spark.sites.sites import SiteHandle, joining_site, running_sites
from mooring.spark.sites.waiting import PATIENCE_S, Tell, say_nothing, waited_for
from mooring.spark.storage.result_record import read_results

State = Literal["holds", "missing", "better", "not compared"]
_POOLS = '<allocations><pool name="default"><schedulingMode>FAIR</schedulingMode></pool></allocations>'
_SHORT_LOGS = {
    "spark.sql.streaming.minBatchesToRetain": "25",
    "spark.sql.streaming.fileSink.log.cleanupDelay": "30s",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "30s",
}
_WINTER_AND_SUMMER_S = (1767225600, 1782864000)
_STREAM_S = 180
"""For the small stream: its first batch loads and compiles at the driver and at each executor."""
_TASKS_PER_CORE = 2
_TASK_S = 0.2
"""How long a task of the tried job takes: so long that each executor gets one."""


@dataclass(frozen=True)
class Finding:
    what: str
    state: State
    found: str
    remedy: str = ""
    """The line to add, and where."""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def checked_site(project: Project, name: str, tell: Tell = say_nothing) -> list[Finding]:
    """An endpoint as it runs; an embedded site is started for it."""
    stated = next(site for site in project.settings.sites if site.name == name)
    KnownRoot(project.work_folder).require(project.settings.storage)
    project.storage_root.create()
    project.work_folder.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="check-", dir=project.work_folder) as own,
        contextlib.ExitStack() as stack,
    ):
        if stated.connect is not None:
            site = joining_site(stated, Path(own), None)
        else:
            up = stack.enter_context(running_sites([stated], Path(own), site_options(project)))
            site = up[name]
        return SiteCheck(project, site, tell=tell).run()


@dataclass
class SiteCheck:
    """Tries a site that is up; findings come one by one, so that a slow one is seen to be tried."""

    project: Project
    site: SiteHandle
    patience_s: float = PATIENCE_S
    tell: Tell = say_nothing
    findings: list[Finding] = field(default_factory=list)

    @property
    def missing(self) -> list[Finding]:
        return [each for each in self.findings if each.state == "missing"]

    def note(self, what: str, state: State, found: str, remedy: str = "") -> None:
        self.findings.append(Finding(what, state, found, remedy))

    def run(self) -> list[Finding]:
        calls = SiteCalls(FIRST_PATIENCE_S)
        try:
            session = calls.ask(self.site.name, lambda: open_session(self.site.endpoint), late=close_session)
        except MooringError as failure:
            self.note("answers", "missing", failure.message, failure.remedy or "")
            return self.findings
        finally:
            calls.close()
        try:
            self._reached()
            self._version(session)
            server = dict(session.conf.getAll)
            self._settings(session, server)
            self._cluster(server)
            self._server(server)
            self._jars(server)
            self._work(session)
        finally:
            close_session(session)
        return self.findings

    # What the server itself says

    def _reached(self) -> None:
        connection = self.site.endpoint.connection
        how = "over TLS" if connection.is_private else "without TLS"
        if connection.is_private or connection.address.is_loopback:
            self.note("answers", "holds", f"{self.site.endpoint.shown}, {how}")
        else:
            remedy = f"sites.{self.site.name}.connect: add `ca_file` or `/;use_ssl=true`"
            self.note("answers", "better", f"{self.site.endpoint.shown}, {how}", remedy)

    def _version(self, session: SparkSession) -> None:
        there = spark_version(session)
        recorded = read_results(self.project.settings.storage)
        wanted = str(pyspark.__version__) if recorded is None else recorded.spark
        whose = "of the storage's rows" if recorded is not None else "of `pip install`, and of embedded sites"
        if there == wanted:
            self.note("version of Spark", "holds", there)
        else:
            self.note(
                "version of Spark",
                "missing",
                f"{there}; {wanted} is that {whose}",
                f"run Spark {wanted} at this site",
            )

    def _settings(self, session: SparkSession, server: Mapping[str, str]) -> None:
        """The settings that rows depend on: those that differ are set in every session, if they can be."""
        configuration = self.project.spec.configuration
        wanted = wanted_results(configuration)
        before = effective(session, wanted)
        file = self.project.spec_file.name
        for name, has in refused_settings(session, configuration).items():
            shown = "has none" if has is None else f"has {shown_value(name, has)}"
            self.note(
                f"configuration.{name}",
                "missing",
                f"{shown}, {file} states {shown_value(name, configuration[name])}",
                f"--conf {name}={shown_value(name, configuration[name]).strip(chr(39))}",
            )
        refused = settle_results(session, wanted)
        for name, (value, why) in refused.items():
            self.note(
                "rows", "missing", f"the server keeps {name}={value}: {why}", f"start it without {name}"
            )
        set_here = [name for name in wanted if before[name] != wanted[name] and name not in refused]
        shown = ", ".join(f"{name.removeprefix(PREFIX)} ({before[name]})" for name in set_here)
        found = f"{len(wanted) - len(refused)} settings"
        self.note("rows", "holds", f"{found}; of its own it has others for {shown}" if set_here else found)
        known = {*STATED, *configuration}
        for name in sorted(server):
            if name.startswith(PREFIX) and name not in known and not LEFT_ALONE.match(name):
                self.note("rows", "not compared", f"{name}={shown_value(name, server[name])}")
        for name in ("spark.sql.extensions", "spark.plugins", "spark.sql.catalog.spark_catalog"):
            if server.get(name, "builtin") not in ("", "builtin"):
                self.note("rows", "not compared", f"{name}={server[name]}: rules and functions of its own")

    def _cluster(self, server: Mapping[str, str]) -> None:
        name, master = self.site.name, server.get("spark.master", "")
        most, cores = server.get("spark.cores.max"), decimal(self.site.capacity)
        group = next((each for each in groups_of(self.project.settings.shares) if name in each), set())
        if master.startswith("local"):
            self.note("cluster", "holds", f"none: one machine, {master}")
            return
        self.note("cluster", "holds", f"{master}; {cores} cores are stated")
        self._executors()
        if not master.startswith("spark://"):
            found = "executors and queues are the cluster's affair; Mooring was not tried there"
            self.note("cores", "not compared", found)
            return
        line = f"--conf spark.cores.max={max(1, math.floor(self.site.capacity))}"
        if most is not None and int(most) > math.ceil(self.site.capacity) and group:
            others = ", ".join(sorted(group - {name}))
            self.note("cores", "missing", f"spark.cores.max={most}, and {others} need the rest", line)
        elif most is not None:
            self.note("cores", "holds", f"spark.cores.max={most}")
        elif group:
            others = ", ".join(sorted(group - {name}))
            self.note("cores", "missing", f"it takes all cores of the cluster, and {others} get none", line)
        else:
            found = "spark.cores.max is not set: it takes all cores, and another application gets none"
            self.note("cores", "better", found, line)

    def _executors(self) -> None:
        stated = self.project.settings.clusters.get(self.site.name)
        if stated is None or stated.ui is None:
            found = "not seen: their CPU is estimated, and a lost one does not show"
            self.note("executors", "better", found, f"sites.{self.site.name}.ui: http://DRIVER:4040")
            return
        notes = executor_notes(self.project, self.site.name)
        for note in notes:
            self.note("executors", "better", note)
        if not notes:
            self.note("executors", "holds", f"as stated, seen at {stated.ui.shown}")

    def _server(self, server: Mapping[str, str]) -> None:
        fair = server.get("spark.scheduler.mode") == "FAIR"
        if fair and server.get("spark.scheduler.allocation.file"):
            self.note("turns", "holds", "FAIR, with a file of pools")
        else:
            self.note(
                "turns",
                "better",
                "batches of all fragments wait in one queue: one with many tasks keeps others waiting",
                "--conf spark.scheduler.mode=FAIR --conf spark.scheduler.allocation.file=POOLS.xml, with "
                + _POOLS,
            )
        master = server.get("spark.master", "")
        if server.get("spark.authenticate") == "true":
            self.note("executors' secret", "holds", "spark.authenticate=true")
        elif not master.startswith("local"):
            self.note(
                "executors' secret",
                "better",
                "any process that reaches the driver's port may pass for an executor",
                "--conf spark.authenticate=true --conf spark.authenticate.secret=..., for workers too",
            )
        long = [name for name in _SHORT_LOGS if name not in server]
        if long:
            lines = " ".join(f"--conf {name}={_SHORT_LOGS[name]}" for name in long)
            self.note("logs", "better", "logs of channels and checkpoints keep hundreds of entries", lines)
        else:
            self.note("logs", "holds", "short histories")

    def _jars(self, server: Mapping[str, str]) -> None:
        wanted = project_jars(self.project)
        if not wanted:
            return
        has = {
            part.rsplit("/", 1)[-1]
            for name in ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
            for part in server.get(name, "").replace(os.pathsep, ",").split(",")
        }
        lacks = [name for name in wanted.names if name.rsplit("/", 1)[-1] not in has]
        if not lacks:
            self.note("jars", "holds", ", ".join(wanted.names))
        else:
            self.note(
                "jars",
                "missing",
                f"the server names none of {', '.join(lacks)}; one on its class path cannot be seen",
                f"--packages {','.join(each for each in lacks if ':' in each)}"
                if all(":" in each for each in lacks)
                else f"--jars {','.join(lacks)}",
            )

    # What takes its executors

    def _work(self, session: SparkSession) -> None:
        root, site = self.project.storage_root, self.site.name
        try:
            with self._waiting(session, "reading the mark of the storage"):
                root.introduce(session, site)
                root.check_seen(session, site)
        except MooringError as failure:
            self.note("storage", "missing", failure.message, failure.remedy or "")
            return
        self.note("storage", "holds", f"{root.path_at(site)} is the same folder there")
        self._tried("executors write", lambda: self._written(session), session)
        self._tried("Python of functions", lambda: self._python(session), session)
        with contextlib.suppress(EngineError, OSError):
            if warm_up(site, self.site.endpoint, root, stateful=True, patience_s=_STREAM_S):
                self.note("a stream with state", "holds", "runs, commits and ends")
                return
        found = f"a small one failed, or did not end within {_STREAM_S} s"
        self.note("a stream with state", "missing", found, "see the server's log")

    def _waiting(self, session: SparkSession, what: str) -> contextlib.AbstractContextManager[None]:
        return waited_for(session, self.site.name, what, patience_s=self.patience_s, tell=self.tell)

    def _tried(self, what: str, call: Callable[[], None], session: SparkSession) -> None:
        try:
            with self._waiting(session, what):
                call()
        except MooringError as failure:
            self.note(what, "missing", failure.message, failure.remedy or "")
        except Exception as failure:
            python = "PYTHON_VERSION_MISMATCH" in str(failure)
            remedy = f"PYSPARK_PYTHON of workers and server: a Python {_minor(sys.version)}" if python else ""
            self.note(what, "missing", described(failure) if python else first_line(failure), remedy)

    @property
    def _tasks(self) -> int:
        return _TASKS_PER_CORE * max(1, math.ceil(self.site.capacity))

    def _written(self, session: SparkSession) -> None:
        """By executors; seen, read and removed here."""
        root = self.project.storage_root
        scratch = root.folder / f".tried-{token_hex(4)}"
        scratch.mkdir()
        try:
            rows = session.range(0, self._tasks, 1, self._tasks)
            rows.write.parquet(root.address(scratch / "rows"))
            files = sorted((scratch / "rows").glob("part-*"))
            if len(files) < self._tasks:
                found = f"{self._tasks - len(files)} of {self._tasks} files that executors wrote are not here"
                remedy = f"mount {root.path_at(self.site.name)} at every worker, not at the driver alone"
                self.note("executors write", "missing", found, remedy)
                return
            owners = {each.stat().st_uid for each in files}
            readable = all(os.access(each, os.R_OK) for each in files)
            removable = os.access(scratch / "rows", os.W_OK | os.X_OK)
            shown = f"{len(files)} files, as user {', '.join(map(str, sorted(owners)))}"
            if readable and removable:
                self.note("executors write", "holds", f"{shown}; Mooring ({os.getuid()}) may remove them")
            else:
                remedy = "run workers as the same user, or give the storage a group of both (umask)"
                self.note("executors write", "missing", f"{shown}; Mooring may not remove them", remedy)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _python(self, session: SparkSession) -> None:
        packages = sorted(imported_packages(self.project.folder))
        facts = [json.loads(each) for each in python_facts(session, self._tasks, packages)]
        zone = zone_of_functions(self.project.spec.configuration)
        here = json.loads(own_facts(packages)) | {"time zone": _minutes_from_utc(ZoneInfo(zone))}
        hosts = sorted({str(each["host"]) for each in facts})
        self.note("Python of functions", "holds", f"{len(facts)} tasks on {', '.join(hosts)}")
        for name, wanted in here.items():
            if name in ("host", "encoding"):
                continue
            others = sorted({str(each.get(name)) for each in facts} - {str(wanted)})
            if not others:
                continue
            found = f"{name} {', '.join(others)} there, {wanted} here"
            self.note("Python of functions", "missing", found, _python_remedy(name, wanted, zone))


def _minutes_from_utc(zone: ZoneInfo) -> list[int]:
    """In a winter and a summer: names of zones differ where the times do not."""
    offsets = [datetime.fromtimestamp(at_s, zone).utcoffset() for at_s in _WINTER_AND_SUMMER_S]
    return [round((offset or timedelta()).total_seconds() / 60) for offset in offsets]


def _python_remedy(name: str, wanted: object, zone: str) -> str:
    if name == "time zone":
        return f"TZ={zone} for workers before they start, or --conf spark.executorEnv.TZ={zone}"
    if name == "Python":
        return f"PYSPARK_PYTHON of workers and server: a Python {wanted}"
    return f"pip install {name}=={wanted} at every worker"


def python_facts(session: SparkSession, tasks: int, packages: Sequence[str]) -> list[str]:
    """Of the Python that executors start for functions; the function goes there by value."""
    look = _looker(tuple(packages), _TASK_S)
    told = F.udf(lambda _: look(), "string")(F.col("id"))
    return [row.told for row in session.range(0, tasks, 1, tasks).select(told.alias("told")).collect()]


def own_facts(packages: Sequence[str]) -> str:
    return _looker(tuple(packages), 0.0)()


def _looker(packages: tuple[str, ...], pause_s: float) -> Callable[[], str]:
    """Nothing of this module is used inside: executors have no Mooring."""
    moments = _WINTER_AND_SUMMER_S

    def look() -> str:
        import json
        import platform
        import socket
        import sys
        import time
        from importlib import metadata

        found: dict[str, Any] = {
            "host": socket.gethostname(),
            "Python": ".".join(platform.python_version_tuple()[:2]),
            "time zone": [time.localtime(at_s).tm_gmtoff // 60 for at_s in moments],
            "encoding": sys.getdefaultencoding(),
        }
        for package in packages:
            try:
                found[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                found[package] = "none"
        time.sleep(pause_s)
        return json.dumps(found)

    return look


def imported_packages(folder: Path) -> set[str]:
    """Installed distributions that the Python files of a project import, wherever."""
    provided = metadata.packages_distributions()
    names: set[str] = set()
    for file in _python_files(folder):
        with contextlib.suppress(SyntaxError, UnicodeDecodeError, OSError):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module.split(".")[0])
    names -= {"pyspark", "mooring"}
    return {distribution for each in names for distribution in provided.get(each, ())}


def _python_files(folder: Path) -> Iterator[Path]:
    hidden = (".", "__pycache__")
    for file in sorted(folder.rglob("*.py")):
        if not any(part.startswith(hidden) for part in file.relative_to(folder).parts):
            yield file


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
