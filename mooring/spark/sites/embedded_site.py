"""A site that Mooring starts itself: a small Spark Connect server as a child process, on the loopback only.

It binds to a port that the system picks (its log names it, so there is no race for it) and requires a token
made for this run, so that other users of the machine cannot use it. Its files, temporary ones included, stay
in one folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyspark

import mooring
from mooring.atomic_files import write_whole
from mooring.errors import EngineError
from mooring.spark.sites import local_files, site_watchdog
from mooring.spark.sites.cpu_quota import CpuQuota
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.java import Java, argument_file
from mooring.spark.sites.neighbours import Contention, contention
from mooring.spark.sites.process_tree import TreeUsage, tree_usage
from mooring.spark.sites.site_jvm import SiteJvm, chooses_collector, default_heap_mb, usable_cores

SPARE_SLOTS = 2
"""Tasks that an embedded site runs at a time beyond one per core: a batch that joins reads two sides."""
_READY = re.compile(rb"Spark Connect server started at: \S*?:(\d+)")
_MAIN_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LOG_LINES_SHOWN = 12
_MAKES_ITS_SECRET = re.compile(r"local(\[[^\]]*\])?")
"""Masters under which Spark, told to authenticate, makes the secret that its driver and block manager ask for
itself, in memory: it is on no command line, in no environment and in no file. Elsewhere executors need it
too, and it is the cluster's affair."""

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
"""


@dataclass(frozen=True)
class EmbeddedOptions:
    """How an embedded server is made. The defaults are the leanest that run comfortably (measured,
    docs/spark.md).
    """

    heap_mb: int | None = None
    """Java heap, where the site has none of its own; None: by its memory or capacity."""
    of_sites: Mapping[str, SiteJvm] = field(default_factory=dict)
    """What is stated for single sites."""
    start_timeout_s: float = 90.0
    grace_s: float = 8.0
    """How long the server may take to end by itself before it is made to."""
    class_archive: Path | None = None
    """A class archive (see class_archive.py) that halves the start."""
    settings: dict[str, str] = field(default_factory=dict)
    """Further Spark settings, which win over ours."""
    jvm_flags: tuple[str, ...] = ()
    """Of every site, before those of single ones."""
    jars: tuple[Path, ...] = ()
    """Behind Spark's own on the class path: where both have a class, Spark's is used."""
    working_folder: Path | None = None
    """Where the server takes relative paths to start; None: in its own scratch folder."""
    durable: bool = True
    """What Spark has committed survives a power cut: its files are synced as they are written."""

    def __post_init__(self) -> None:
        if self.heap_mb is not None and self.heap_mb < 450:
            raise ValueError(f"heap_mb is {self.heap_mb}; Spark refuses heaps under 450 MiB")


class EmbeddedSite:
    """One embedded server: started, watched, measured and stopped."""

    def __init__(
        self,
        name: str,
        folder: Path,
        java: Java,
        *,
        capacity: float = 1.0,
        memory_mb: float | None = None,
        options: EmbeddedOptions | None = None,
    ) -> None:
        self.name = name
        self.folder = folder.resolve()
        self.capacity = capacity
        self._java = java
        self._options = options or EmbeddedOptions()
        self._jvm = self._options.of_sites.get(name, SiteJvm())
        self.heap_mb = self._jvm.heap_mb or self._options.heap_mb or default_heap_mb(capacity, memory_mb)
        self.cores = usable_cores(capacity)
        self.slots = self.cores + SPARE_SLOTS
        self._notes = {"slots": f"{self.slots} slots", "heap": f"heap {self.heap_mb} MB"}
        self._token = secrets.token_hex(16)
        self._keeper: subprocess.Popen[str] | None = None
        self._server_pid: int | None = None
        self._held_pid: int | None = None
        self._port: int | None = None
        self._durable = False
        self._given: Path | None = None
        """Settings that others must not read, until the server has them."""
        whole_machine = capacity >= (os.cpu_count() or 1)
        self._quota = None if whole_machine else CpuQuota(name, capacity)

    @property
    def note(self) -> str:
        """How it is run, for the report."""
        return ", ".join(self._notes.values())

    @property
    def durable(self) -> bool:
        """Whether what Spark commits there survives a power cut by itself; not known before it is started."""
        return self._durable

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    @property
    def endpoint(self) -> Endpoint:
        if self._port is None:
            raise EngineError(f"the site {self.name} has not started", remedy="call wait_ready() first")
        # "localhost" by name: only then does the client send a token without TLS, over the loopback.
        return Endpoint(f"sc://localhost:{self._port}/;token={self._token}")

    def start(self) -> None:
        """Spawn the server and return at once, so that several sites start side by side."""
        begins = self._options.working_folder
        if begins is not None and not begins.is_dir():
            raise EngineError(
                f"the site {self.name} cannot start in {begins}, the base of relative paths: the folder no "
                "longer exists",
                remedy="restore the folder, or run the command in another one",
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        # Spark's files, and what Java writes of itself when it crashes, are for this user alone.
        self.folder.chmod(0o700)
        _sweep_scratch(self.folder)
        scratch, hold = _new_scratch(self.folder)
        try:
            self._keeper = self._spawn(scratch, hold, begins or scratch)
        finally:
            os.close(hold)
        assert self._keeper.stdout is not None
        answer = self._keeper.stdout.readline().strip()
        if not answer.isdigit():
            self.stop()
            raise EngineError(f"site {self.name}: could not start {self._java.path}; see {self.log_file}")
        self._server_pid = int(answer)

    def _spawn(self, scratch: Path, hold: int, begins: Path) -> subprocess.Popen[str]:
        if self.log_file.exists():
            self.log_file.replace(self.folder / "server.log.1")
        self.log_file.touch(0o600)
        (self.folder / "log4j2.properties").write_text(_LOG4J)
        order = {
            "command": self._command(scratch),
            "log": str(self.log_file),
            "scratch": str(scratch),
            "cgroups": [] if self._quota is None else [str(group) for group in self._quota.groups],
            "grace_s": self._options.grace_s,
        }
        return subprocess.Popen(
            [sys.executable, "-I", site_watchdog.__file__, json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=begins,
            env=self._environment(),
            pass_fds=[hold],
        )

    def wait_ready(self) -> Endpoint:
        """Wait until it listens; a server that ends or stays silent is an error with its last words."""
        deadline = time.monotonic() + self._options.start_timeout_s
        while (match := _READY.search(self.log_file.read_bytes())) is None:
            if not self.is_alive():
                raise self._failed_start("ended while starting")
            if time.monotonic() > deadline:
                raise self._failed_start(f"did not start within {self._options.start_timeout_s:g} s")
            time.sleep(0.05)
        self._port = int(match[1])
        if self._given is not None:  # Spark has read it
            self._given.unlink(missing_ok=True)
        return self.endpoint

    def hold_to_capacity(self) -> None:
        """Put the CPU quota into force, where there is one.

        Not before everything has started: a cold JVM under the quota of a small site takes a minute to load
        and compile what it needs.
        """
        if self._quota is None or self._server_pid in (None, self._held_pid):
            return
        if self.is_alive():
            self._held_pid = self._server_pid
            self._notes["quota"] = self._quota.hold(self._server_pid)

    def limit_cores(self) -> float | None:
        """The CPU that its control group allows it now; None where there is none."""
        return None if self._quota is None else self._quota.limit_cores()

    def held_back_s(self) -> float | None:
        """How long its control group has held it back so far; None where there is none."""
        return None if self._quota is None else self._quota.held_back_s()

    def contention(self, usage: TreeUsage) -> Contention | None:
        """How long its threads waited for a CPU so far; None where that cannot be seen."""
        if self._server_pid is None:
            return None
        periods = None if self._quota is None else self._quota.periods()
        return contention(self._server_pid, usage.cpu_s, periods or (0, 0))

    def is_alive(self) -> bool:
        return self._keeper is not None and self._keeper.poll() is None

    def usage(self) -> TreeUsage | None:
        """CPU and memory of the server and all it started; None where that cannot be seen."""
        return None if self._server_pid is None else tree_usage(self._server_pid)

    def stop(self) -> None:
        """End the server; close its sessions first, or their clients retry for minutes."""
        if self._keeper is None:
            return
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        try:
            self._keeper.wait(3 * self._options.grace_s + 5)
        except subprocess.TimeoutExpired:
            self._keeper.kill()  # its death takes the server along
            self._keeper.wait()
        self._keeper.stdout.close()
        self._port = None

    def _failed_start(self, what: str) -> EngineError:
        self.stop()
        lines = self.log_file.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        return EngineError(
            f"the site {self.name} {what}; the last lines of {self.log_file}:\n" + "\n".join(lines),
            remedy="check the Java version and the free memory of this machine",
        )

    def _environment(self) -> dict[str, str]:
        mine = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "MALLOC_ARENA_MAX": "2",  # or glibc keeps up to eight pools of freed memory per core
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token,
            "TZ": zone_of_functions(self._options.settings),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            # Functions that name Mooring's own modules must find the same ones in Spark's Python workers.
            "PYTHONPATH": os.pathsep.join([str(_PACKAGE_ROOT), *_absolute_python_path()]),
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        return kept | mine

    def _command(self, scratch: Path) -> list[str]:
        options = self._options
        own = (*options.jvm_flags, *self._jvm.options)
        flags = [f"-Xmx{self.heap_mb}m", "-XX:TieredStopAtLevel=1", "-Xss512k"]
        flags += [] if chooses_collector(own) else ["-XX:+UseSerialGC"]
        # Java reserves 48 MB for compiled code when told to stop at its first compiler. Spark fills that in
        # minutes; then methods are thrown out and compiled again, at .1 to .2 core per site.
        flags += ["-XX:ReservedCodeCacheSize=128m"]
        # What a collection frees goes back to the machine, which several sites share.
        flags += ["-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40"]
        flags += ["-XX:-UsePerfData", f"-Djava.io.tmpdir={scratch}", *self._java.module_options()]
        flags += [f"-XX:ErrorFile={self.folder / 'crash-%p.log'}"]  # repeats all settings
        if options.class_archive is not None and options.class_archive.exists():
            name = "-XX:AOTCache" if self._java.major >= 24 else "-XX:SharedArchiveFile"
            flags += [f"{name}={options.class_archive}"]
        (scratch / _POOLS_FILE_NAME).write_text(_POOLS)
        settings = site_settings(self.name, self.cores, scratch) | options.settings
        if _MAKES_ITS_SECRET.fullmatch(settings["spark.master"]):
            settings.setdefault("spark.authenticate", "true")
        classes = spark_class_path()
        if (jar := self._local_files(settings)) is not None:
            settings |= local_files.SETTINGS
            if not options.durable:
                settings |= local_files.UNSYNCED
            classes += f"{os.pathsep}{jar}"
        self._durable = jar is not None and options.durable
        classes = os.pathsep.join([classes, *map(str, options.jars)])
        if options.jars and not _MAKES_ITS_SECRET.fullmatch(settings["spark.master"]):
            settings["spark.jars"] = ",".join(map(str, options.jars))  # executors elsewhere need them too
        flags += [f"-D{name}={value}" for name, value in settings.items() if name not in options.settings]
        if options.settings:
            flags.append(f"@{self._hand_over(scratch)}")
        flags += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}", *own]
        return [str(self._java.path), *flags, "-cp", classes, _MAIN_CLASS]

    def _hand_over(self, scratch: Path) -> Path:
        """What others have set (a store's keys, say) goes by a file: all users can read a command line."""
        self._given = scratch / "settings"
        flags = [f"-D{name}={value}" for name, value in self._options.settings.items()]
        write_whole(self._given, argument_file(flags), mode=0o600)
        return self._given

    def _local_files(self, settings: dict[str, str]) -> Path | None:
        """Our own class for local files, unless another was asked for or executors elsewhere lack it."""
        asked_for = self._options.settings.keys() & local_files.SETTINGS.keys()
        if asked_for or not settings["spark.master"].startswith("local"):
            return None
        try:
            return local_files.local_files_jar(self._java, self.folder)
        except (OSError, subprocess.SubprocessError) as failure:
            why = getattr(failure, "stderr", None) or str(failure)
            self._notes["files"] = f"a process per file, at a third of its CPU ({why.strip()})"
            return None


def _new_scratch(folder: Path) -> tuple[Path, int]:
    """A folder for the temporary files of one start, and a handle that holds it locked. The keeper inherits
    it: a run that was killed and started again has two of them for a while, each with a folder of its own.
    """
    scratch = folder / f"scratch-{secrets.token_hex(4)}"
    scratch.mkdir(mode=0o700)
    handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):  # a file system without locks: its keeper removes it all the same
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return scratch, handle


def _sweep_scratch(folder: Path) -> None:
    """What keepers left that were killed themselves; whoever is still at work holds his."""
    for scratch in folder.glob("scratch*"):
        with contextlib.suppress(OSError):
            handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(scratch, ignore_errors=True)
            finally:
                os.close(handle)


_PACKAGE_ROOT = Path(mooring.__file__).resolve().parent.parent


def _absolute_python_path() -> list[str]:
    given = os.environ.get("PYTHONPATH", "")
    return [os.path.abspath(part) for part in given.split(os.pathsep) if part]


def spark_home() -> Path:
    """The Spark that came with the `pyspark` package."""
    return Path(pyspark.__file__).parent


def zone_of_functions(settings: Mapping[str, str]) -> str:
    """Python functions see the local time of the process that runs them: the zone of the spec, or UTC,
    wherever the machine is.

    >>> zone_of_functions({}), zone_of_functions({"spark.sql.session.timeZone": "Asia/Tokyo"})
    ('UTC', 'Asia/Tokyo')
    """
    zone = settings.get("spark.sql.session.timeZone", "UTC")
    try:
        ZoneInfo(zone)
    except (
        ZoneInfoNotFoundError,
        ValueError,
    ):  # an offset, such as +02:00, which TZ takes the other way round
        return "UTC"
    return zone


def spark_class_path() -> str:
    """In the order of Spark's own launcher. A class archive fits only Java machines with the same class path,
    and so fits those of a cluster too.
    """
    jars = spark_home() / "jars"
    return os.pathsep.join([*map(str, sorted(jars.glob("slf4j-api-*.jar"))), f"{jars}/*"])


_HISTORIES = (
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.ui.retainedTasks",
    "spark.sql.ui.retainedExecutions",
    "spark.sql.streaming.ui.retainedQueries",
    "spark.sql.streaming.ui.retainedProgressUpdates",
    "spark.sql.connect.ui.retainedSessions",
    "spark.sql.connect.ui.retainedStatements",
)
_KEPT_FOR_NO_PAGE = 20
"""Of each: Spark records the last thousand jobs and plans for its web page, even where the page is off,
and would fill the heap with them for the first hour of micro-batches."""


_POOLS_FILE_NAME = "pools.xml"
_POOLS = """\
<?xml version="1.0"?>
<allocations><pool name="default"><schedulingMode>FAIR</schedulingMode></pool></allocations>
"""
"""A Connect session cannot choose a pool, so all share one. In it the batches of all fragments take turns,
task by task; by default Spark runs the tasks of the oldest batch first."""


def site_settings(name: str, cores: int, scratch: Path) -> dict[str, str]:
    """Spark settings of an embedded site: small, private, and with short state and log histories.

    It runs more tasks than it has cores, so that a long batch leaves slots to the others; the CPU quota holds
    all of them to the site's capacity. Work is divided by cores.
    """
    return {
        "spark.app.name": f"mooring {name}",
        "spark.master": f"local[{cores + SPARE_SLOTS}]",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (scratch / _POOLS_FILE_NAME).as_uri(),
        "spark.default.parallelism": str(cores),
        "spark.sql.leafNodeDefaultParallelism": str(cores),
        "spark.sql.files.minPartitionNum": str(cores),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.artifactory.dir.path": str(scratch / "artifacts"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        # Fragments share generated code (endpoint.py), some dozen classes each. By default 100 are kept.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Short histories: what channels and checkpoints keep beside the data stays small.
        # But two compactions at least (every tenth batch): a log with a single one, of batch 19, is taken by
        # whoever opens it next for one that compacts every twentieth, and nobody then agrees with its writer.
        "spark.sql.streaming.minBatchesToRetain": "25",
        "spark.sql.streaming.fileSink.log.cleanupDelay": "30s",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "30s",
        "spark.sql.streaming.stateStore.maintenanceInterval": "30s",
        # Its one executor is in the same process. After a clock that jumped ahead by two minutes Spark would
        # take it for lost, and end the server ten minutes later.
        "spark.storage.blockManagerHeartbeatTimeoutMs": "36500d",
        # A full collection (about 0.1 s) each minute: without it the heap fills up to its limit and stays.
        "spark.cleaner.periodicGC.interval": "60s",
        **{name: str(_KEPT_FOR_NO_PAGE) for name in _HISTORIES},
        **local_files.HADOOPS_FILES,
    }
