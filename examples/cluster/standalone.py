"""A standalone Spark cluster on this machine, out of the Spark of `pip install`: a master, workers, and a
Connect server whose executors they run.

    python examples/cluster/standalone.py [--workers 3] [--cores 1] [--memory-mb 1024] [--folder out/cluster]
        [--set NAME=VALUE] [--port 7077] [--connect-port 15002] [--ui-port 4040]

It prints the `connect` and `ui` of a site, and ends everything with Ctrl-C or SIGTERM.
docs/clusters.md has the same commands to be typed by hand, on several machines.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from mooring.spark.sites.java import find_java

HOST = "127.0.0.1"
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SPARK_HOME = Path(pyspark.__file__).parent
PATIENCE_S = 90.0
"""For a process to say that it is up."""
_STARTED = {
    "master": rb"Starting Spark master at (spark://\S+)",
    "worker": rb"Successfully registered with master",
    "server": rb"Spark Connect server started at: \S*?:(\d+)",
    "ui": rb"started service 'SparkUI' on port (\d+)",
}
_POOLS = """\
<?xml version="1.0"?>
<allocations><pool name="default"><schedulingMode>FAIR</schedulingMode></pool></allocations>
"""
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
logger.server.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.server.level = info
logger.ports.name = org.apache.spark.util.Utils
logger.ports.level = info
"""


def default_settings(folder: Path) -> dict[str, str]:
    """What a Connect server on a cluster should be started with. Results depend on none of it: Mooring sets
    what they depend on in each session.
    """
    return {
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": (folder / "conf" / "pools.xml").as_uri(),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "768m",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.connect.grpc.binding.address": HOST,
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "scratch" / "warehouse"),
        # No checksum file beside each small file of channels and checkpoints.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        # Logs of channels and checkpoints stay short.
        "spark.sql.streaming.minBatchesToRetain": "25",
        "spark.sql.streaming.fileSink.log.cleanupDelay": "30s",
        "spark.sql.streaming.fileSource.log.cleanupDelay": "30s",
    }


class Cluster:
    """Its processes. They end with `stop`, and, on Linux, with the thread that started them."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 3,
        cores: int = 1,
        memory_mb: int = 1024,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        ports: tuple[int, int, int] = (0, 0, 0),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`memory_mb`: of a worker, for its executors. `settings` of the Connect server win over the
        defaults. `java_options`: of all its Java machines. `ports`: of the master, Connect and its web page;
        0: any free one. `variables`: of the environment of all processes.
        """
        self.folder = folder.resolve()
        self._workers, self._cores, self._memory_mb = workers, cores, memory_mb
        log4j = self.folder / "conf" / "log4j2.properties"
        self._options = ("-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={log4j}", *java_options)
        self._settings = {**default_settings(self.folder), **(settings or {})}
        self._port, self._connect_port, self._ui_port = ports
        self._variables = dict(variables or {})
        self.token = secrets.token_hex(16)
        self.secret = secrets.token_hex(32)
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Where it is

    @property
    def master_url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    @property
    def address(self) -> str:
        """Without the token."""
        return f"sc://localhost:{self._connect_port}"

    @property
    def url(self) -> str:
        """With the token, as `connect` takes it."""
        return f"{self.address}/;token={self.token}"

    @property
    def ui(self) -> str:
        """The web page and REST interface of the Connect server's application."""
        return f"http://{HOST}:{self._ui_port}"

    def log(self, name: str) -> Path:
        """Of "master", "worker-0", "worker-1", ..., "server"."""
        return self.folder / "logs" / f"{name}.log"

    # Starting and ending

    def start(self) -> None:
        for part in ("conf", "logs", "scratch", "work"):
            (self.folder / part).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.start_master()
        for _ in range(self._workers):
            self.begin_worker()
        self.begin_server()
        for number in range(len(self.workers)):
            self.wait_worker(number)
        self.wait_server()

    def start_master(self) -> None:
        """Again at the same port, if it was up before. It knows nothing of applications that run."""
        self._configure()
        ports = ["--host", HOST, "--port", str(self._port), "--webui-port", "0"]
        self.master = self._run("master", [_bin("spark-class"), MASTER, *ports, *self._by_file])
        self._port = int(self._await("master", self.master, "master").rsplit(b":", 1)[-1])
        self._configure()

    def begin_worker(self) -> int:
        """Returns its number; `wait_worker` waits until it is there."""
        number = len(self.workers)
        size = ["--cores", str(self._cores), "--memory", f"{self._memory_mb}m"]
        place = ["--host", HOST, "--webui-port", "0", "--work-dir", str(self.folder / "work" / str(number))]
        command = [_bin("spark-class"), WORKER, *place, *size, *self._by_file, self.master_url]
        self.workers.append(self._run(f"worker-{number}", command))
        return number

    def wait_worker(self, number: int) -> None:
        self._await(f"worker-{number}", self.workers[number], "worker")

    def add_worker(self) -> int:
        self.wait_worker(number := self.begin_worker())
        return number

    def begin_server(self) -> None:
        """The Connect server; `wait_server` waits until it listens."""
        self._configure()
        command = [_bin("spark-submit"), *self._by_file, "--class", CONNECT_SERVER, "spark-internal"]
        self.server = self._run("server", command)

    def wait_server(self) -> None:
        assert self.server is not None
        self._connect_port = int(self._await("server", self.server, "server"))
        if self._settings.get("spark.ui.enabled") != "false":
            self._ui_port = int(self._await("server", self.server, "ui"))

    def stop(self) -> None:
        for process in (self.server, *self.workers, self.master):
            if process is not None and process.poll() is None:
                process.terminate()
        for process in (self.server, *self.workers, self.master):
            if process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                end(process)

    # What goes wrong

    def kill_worker(self, number: int) -> None:
        """With its executors, as if its machine failed."""
        end(self.workers[number])

    def kill_server(self) -> None:
        assert self.server is not None
        end(self.server)

    def kill_master(self) -> None:
        assert self.master is not None
        end(self.master)

    def executors(self) -> dict[int, int]:
        """Process of each executor -> the number of its worker."""
        found = {}
        for number, worker in enumerate(self.workers):
            for pid in children(worker.pid):
                with contextlib.suppress(OSError):
                    if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found[pid] = number
        return found

    # How

    @property
    def _by_file(self) -> list[str]:
        """One file of settings for master, workers and server; others must not read it."""
        return ["--properties-file", str(self.folder / "conf" / "spark.conf")]

    def _configure(self) -> None:
        conf = self.folder / "conf"
        settings = {
            "spark.master": self.master_url,
            "spark.connect.grpc.binding.port": str(self._connect_port),
            "spark.ui.port": str(self._ui_port),
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.driver.defaultJavaOptions": " ".join(self._options),
            "spark.executor.defaultJavaOptions": " ".join(self._options),
            **self._settings,
        }
        lines = [f"{name} {value}\n" for name, value in settings.items()]
        (conf / "pools.xml").write_text(_POOLS)
        (conf / "log4j2.properties").write_text(_LOG4J)
        file = conf / "spark.conf"
        file.touch(0o600)
        file.write_text("".join(lines))

    def _run(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        log = self.log(name)
        if log.exists():
            log.replace(log.with_suffix(".log.1"))
        starter = os.getpid()
        with log.open("ab") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd=self.folder / "scratch",
                env=self._environment(is_server=name == "server"),
                preexec_fn=lambda: _end_with(starter),
            )

    def _environment(self, *, is_server: bool) -> dict[str, str]:
        java = find_java().path.resolve()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        # Spark would give a Connect server the memory of a daemon instead of `spark.driver.memory`.
        daemon = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": " ".join(self._options)}
        return {
            **kept,
            **({} if is_server else daemon),
            "JAVA_HOME": str(java.parent.parent),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_PUBLIC_DNS": HOST,
            "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self.token,
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
            "MALLOC_ARENA_MAX": "2",
            **self._variables,
        }

    def _await(self, name: str, process: subprocess.Popen[bytes], what: str) -> bytes:
        deadline = time.monotonic() + PATIENCE_S
        while (match := re.search(_STARTED[what], self.log(name).read_bytes())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                said = self.log(name).read_text(errors="replace").splitlines()[-12:]
                raise RuntimeError(f"{name} did not start; {self.log(name)} ends:\n" + "\n".join(said))
            time.sleep(0.05)
        return match[1] if match.groups() else match[0]


def end(process: subprocess.Popen[bytes]) -> None:
    """It and all that it has started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def children(pid: int) -> list[int]:
    """By Linux's list of processes."""
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


def _bin(name: str) -> str:
    return str(SPARK_HOME / "bin" / name)


def _end_with(starter: int) -> None:
    """Runs in the child, between fork and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != starter:
            os._exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory-mb", type=int, default=1024, help="of each worker, for its executors")
    parser.add_argument("--folder", type=Path, default=Path("out/cluster"))
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], dest="settings")
    parser.add_argument("--port", type=int, default=7077, help="of the master")
    parser.add_argument("--connect-port", type=int, default=15002)
    parser.add_argument("--ui-port", type=int, default=4040)
    words = parser.parse_args()
    cluster = Cluster(
        words.folder,
        workers=words.workers,
        cores=words.cores,
        memory_mb=words.memory_mb,
        settings=dict(each.split("=", 1) for each in words.settings),
        ports=(words.port, words.connect_port, words.ui_port),
    )
    with cluster:
        token = cluster.folder / "token"
        token.touch(0o600)
        token.write_text(cluster.token)
        print(f'connect: {{url: "{cluster.address}", token_file: {token}}}')
        print(f"ui: {cluster.ui}")
        print(f"master: {cluster.master_url}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
