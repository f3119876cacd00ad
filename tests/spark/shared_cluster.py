"""One standalone cluster for all tests of a session, whichever worker (`-n 2`) runs them: a process beside
them starts it for the first test that takes it, and ends it once no process of the tests is left.

    python -m tests.spark.shared_cluster FOLDER
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from examples.cluster.standalone import Cluster
from mooring.spark.sites.class_archive import usable_archive
from mooring.spark.sites.java import find_java

ROOT = Path(__file__).parents[2]
WORKERS = 2
OTHER_ANSWERS = {
    "session.timeZone": ("America/New_York", "date_format(timestamp_seconds(0), 'yyyy-MM-dd HH')"),
    "ansi.enabled": ("false", "cast('12a' AS int)"),
    "mapKeyDedupPolicy": ("LAST_WIN", "map(1, 'a', 1, 'b')"),
    "decimalOperations.allowPrecisionLoss": ("false", "typeof(1.0BD / cast(3 AS decimal(38, 10)))"),
    "timestampType": ("TIMESTAMP_NTZ", "typeof(timestamp '2026-01-01 00:00:00')"),
    "parser.escapedStringLiterals": ("true", r"length('a\tb')"),
    "function.concatBinaryAsString": ("true", "typeof(concat(x'61', x'62'))"),
    "jsonGenerator.ignoreNullFields": ("false", "to_json(named_struct('a', 1, 'b', cast(null AS int)))"),
    "legacy.negativeIndexInArrayInsert": ("true", "array_insert(array(1, 2), -1, 3)"),
    "legacy.castComplexTypesToString.enabled": ("true", "cast(map(1, 2) AS string)"),
    "legacy.timeParserPolicy": ("LEGACY", "date_format(timestamp_seconds(0), 'u')"),
    "caseSensitive": ("true", "named_struct('a', 1).A"),
}
"""Setting below `spark.sql.` -> what the cluster is started with, and an expression that shows it."""
_STATE, _USERS, _TURN = "state.json", "users", "turn"
_POLL_S = 0.2
_PATIENCE_S = 180.0


@dataclass(frozen=True)
class SharedCluster:
    folder: Path
    url: str
    """Of its Connect server, with the token."""
    ui: str
    """The REST interface of its application."""
    master_url: str
    secret: str
    """`spark.authenticate.secret`: another application needs it too."""
    server_pid: int
    worker_pids: tuple[int, ...]

    @property
    def log(self) -> Path:
        """Of the Connect server."""
        return self.folder / "logs" / "server.log"

    @contextlib.contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Nobody else uses it meanwhile: a test that fills its cores makes others wait."""
        with (self.folder / _TURN).open("a") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def shared_cluster(folder: Path) -> Iterator[SharedCluster]:
    """`folder`: of all processes of the tests."""
    folder.mkdir(exist_ok=True)
    with (folder / _USERS).open("a") as users, (folder / _TURN).open("a") as turn:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / _STATE).exists():
            _start(folder)
        fcntl.flock(turn, fcntl.LOCK_UN)
        state = json.loads((folder / _STATE).read_text())
        try:
            yield SharedCluster(**{**state, "folder": folder, "worker_pids": tuple(state["worker_pids"])})
        finally:
            if _only_user(users):
                fcntl.flock(users, fcntl.LOCK_UN)
                pids = [state["server_pid"], *state["worker_pids"]]
                _wait(folder, lambda: not any(map(_is_alive, pids)))


def _only_user(users: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _start(folder: Path) -> None:
    """Whoever uses it last ends it, so nobody here waits for the process that keeps it."""
    log = os.open(folder / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    words = ["-m", "tests.spark.shared_cluster", str(folder)]
    keeper = os.posix_spawn(
        sys.executable,
        [sys.executable, *words],
        {**os.environ, "PYTHONPATH": str(ROOT)},
        file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
        setsid=True,
    )
    os.close(log)
    _wait(folder, lambda: (folder / _STATE).exists() or os.waitpid(keeper, os.WNOHANG) != (0, 0))
    assert (folder / _STATE).exists(), (folder / "keeper.log").read_text()


def _wait(folder: Path, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, (folder / "keeper.log").read_text()
        time.sleep(_POLL_S)


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def keep(folder: Path) -> None:
    archive = usable_archive(find_java())
    lean = ["-XX:TieredStopAtLevel=1", "-Xss512k"]
    lean += [] if archive is None else [f"-XX:SharedArchiveFile={archive}"]
    # Executors import the modules of tests as embedded sites do.
    variables = {"PYTHONPATH": str(ROOT)}
    settings = {f"spark.sql.{name}": value for name, (value, _) in OTHER_ANSWERS.items()}
    made = Cluster(folder, workers=WORKERS, settings=settings, java_options=lean, variables=variables)
    with (
        made as cluster,
        (folder / _USERS).open("a") as users,
    ):
        assert cluster.server is not None
        state = SharedCluster(
            folder,
            cluster.url,
            cluster.ui,
            cluster.master_url,
            cluster.secret,
            cluster.server.pid,
            tuple(worker.pid for worker in cluster.workers),
        )
        fresh = folder / "state.new"
        fresh.write_text(json.dumps({**asdict(state), "folder": str(folder)}))
        fresh.replace(folder / _STATE)
        try:
            while not _only_user(users):
                time.sleep(_POLL_S)
        finally:
            (folder / _STATE).unlink()
            fcntl.flock(users, fcntl.LOCK_UN)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
