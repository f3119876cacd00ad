"""Embedded sites are private, and none outlives the process that started it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from lab.benchmarks._wrong_clock import DAY_S, Clock, built_library, why_not
from mooring.errors import EngineError
from mooring.spark.engine.site_clocks import SiteClocks
from mooring.spark.sites import local_files
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite, spark_class_path
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.java import Java, find_java
from mooring.spark.sites.process_tree import can_see_processes, tree_usage
from mooring.spark.sites.sites import SiteHandle, SiteHandles
from tests.spark.quick_start import quick_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTENING = "0A"
_CALL, _REFUSED = 3, 5
"""Types of messages of Spark's transport: a call, and its failure."""

STARTER = """
import sys, time
from pathlib import Path
from mooring.spark.sites.embedded_site import EmbeddedSite
from mooring.spark.sites.java import find_java
site = EmbeddedSite("s", Path(sys.argv[1]), find_java(), capacity=1)
site.start()
print(site._server_pid, site._keeper.pid, flush=True)
time.sleep(600)
"""


def gone(pid: int) -> bool:
    """Ended, or a zombie nobody has waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_gone(*pids: int) -> None:
    deadline = time.monotonic() + 30
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if not gone(pid)]}"
        time.sleep(0.05)


def test_a_site_answers_only_with_its_token(site: EmbeddedSite, session: SparkSession) -> None:
    assert session.range(5).count() == 5
    stranger = Endpoint(site.endpoint.url.split(";")[0] + ";token=wrong")
    with pytest.raises(EngineError, match="refuses the token"):
        open_session(stranger)


def listeners(pid: int) -> dict[int, str]:
    """Port -> address of every listening socket of a process, as the kernel writes them."""
    links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()]
    own = {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:[")}
    lines = [line for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    fields = [line.split() for line in lines]
    found = [each[1].split(":") for each in fields if each[3] == _LISTENING and each[9] in own]
    return {int(port, 16): address for address, port in found}


def unasked(port: int, kind: int, header: bytes, body: bytes = b"") -> bytes:
    """What Spark's transport answers to one message of a stranger."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
        stranger.sendall(struct.pack(">qb", 9 + len(header) + len(body), kind) + header + body)
        return stranger.recv(65536)


@pytest.mark.skipif(sys.platform != "linux", reason="listening sockets are read from /proc")
def test_every_listener_is_on_the_loopback_and_asks_for_a_secret(site: EmbeddedSite) -> None:
    """The driver and the block manager would otherwise take calls, objects to unpack among them, from whoever
    reaches their ports.
    """
    assert site._server_pid is not None
    found = listeners(site._server_pid)
    assert len(found) == 3
    assert all(address.endswith("0100007F") for address in found.values())
    for port in found.keys() - {site._port}:
        answer = unasked(port, _CALL, struct.pack(">qi", 7, 5), b"hello")
        assert answer[8] == _REFUSED
        assert b"Expected SaslMessage" in answer


@pytest.mark.skipif(sys.platform != "linux", reason="command lines are read from /proc")
def test_no_secret_of_a_site_is_on_a_command_line_or_in_a_file(site: EmbeddedSite) -> None:
    """Every user of the machine can read command lines; an environment only its owner can."""
    token = site.endpoint.url.split("token=")[1]
    assert site._server_pid is not None
    assert site._keeper is not None
    for pid in (site._server_pid, site._keeper.pid):
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert Path(f"/proc/{pid}/environ").stat().st_mode & 0o077 == 0
    files = [file for file in site.folder.rglob("*") if file.is_file() and file.suffix != ".jar"]
    assert files
    assert not [file for file in files if token.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        ({}, True),
        ({"spark.master": "local[2,3]"}, True),
        ({"spark.master": "spark://127.0.0.1:7077"}, False),
        ({"spark.master": "local-cluster[1,1,1024]"}, False),
        ({"spark.authenticate": "false"}, False),
    ],
)
def test_only_where_spark_makes_the_secret_itself_is_it_asked_to(
    tmp_path: Path, settings: dict[str, str], asks: bool
) -> None:
    options = EmbeddedOptions(settings=settings | local_files.HADOOPS_FILES)
    command = EmbeddedSite("s", tmp_path, Java(Path("java"), 17, "test"), options=options)._command(tmp_path)
    assert ("-Dspark.authenticate=true" in command) == asks


@pytest.mark.parametrize(
    ("master", "executors_fetch_them"), [("local[2]", False), ("local-cluster[1,1,1024]", True)]
)
def test_jars_stand_behind_sparks_own_and_reach_executors_elsewhere(
    tmp_path: Path, master: str, executors_fetch_them: bool
) -> None:
    jars = (tmp_path / "a.jar", tmp_path / "b.jar")
    settings = {"spark.master": master} | local_files.HADOOPS_FILES
    options = EmbeddedOptions(settings=settings, jars=jars)
    command = EmbeddedSite("s", tmp_path, Java(Path("java"), 17, "test"), options=options)._command(tmp_path)
    classes = command[command.index("-cp") + 1].split(os.pathsep)
    sparks = spark_class_path().split(os.pathsep)
    assert sparks[-1].endswith("jars/*")
    assert classes == [*sparks, *map(str, jars)]
    assert (f"-Dspark.jars={jars[0]},{jars[1]}" in command) == executors_fetch_them


def test_the_load_of_a_site_is_seen(site: EmbeddedSite, session: SparkSession) -> None:
    if not can_see_processes():
        pytest.skip("no /proc on this machine: loads are estimates here")
    before = site.usage()
    session.range(3_000_000).selectExpr("sum(id * id % 7)").collect()
    after = site.usage()
    assert before is not None
    assert after is not None
    assert after.cpu_s > before.cpu_s
    assert after.resident_mb > 100


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="process states are read from /proc")
def test_neither_kill_nine_nor_the_keepers_death_leaves_a_server_behind(tmp_path: Path) -> None:
    """Of Mooring in the first round, of the keeper in the second. The server is still starting; one that has
    long been up is killed in tests/spark/runs/test_run_verb.py.
    """
    starters = {
        victim: subprocess.Popen(
            [sys.executable, "-c", STARTER, str(tmp_path / victim)], stdout=subprocess.PIPE, text=True
        )
        for victim in ("mooring", "keeper")
    }
    for victim, starter in starters.items():
        folder = tmp_path / victim
        assert starter.stdout is not None
        server, keeper = map(int, starter.stdout.readline().split())
        assert tree_usage(server) is not None
        os.kill(starter.pid if victim == "mooring" else keeper, signal.SIGKILL)
        wait_gone(server, keeper)
        starter.kill()
        starter.communicate()
        if victim == "mooring":
            assert not list(folder.glob("scratch*"))
        assert (folder / "server.log").exists()


@pytest.mark.spark
def test_a_failed_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    options = EmbeddedOptions(settings={"spark.master": "nonsense"})
    site = EmbeddedSite("bad", tmp_path / "bad", find_java(), options=options)
    site.start()
    server = site._server_pid
    assert server is not None
    with pytest.raises(EngineError, match=r"(?s)ended while starting.*nonsense"):
        site.wait_ready()
    wait_gone(server)


def idle_java(folder: Path) -> Java:
    """Takes any command line, and does nothing until it is ended."""
    script = folder / "java"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    return Java(script, 17, "test")


@pytest.mark.skipif(sys.platform != "linux", reason="command lines are read from /proc")
def test_a_setting_is_on_no_command_line_and_in_no_file_that_others_can_read(tmp_path: Path) -> None:
    """A store's key among them."""
    settings = {"spark.hadoop.fs.s3a.secret.key": "hush"} | local_files.HADOOPS_FILES
    options = EmbeddedOptions(settings=settings)
    site = EmbeddedSite("s", tmp_path / "s", idle_java(tmp_path), options=options)
    site.start()
    try:
        assert site._server_pid is not None
        assert site._keeper is not None
        for pid in (site._server_pid, site._keeper.pid):
            assert b"hush" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert site.folder.stat().st_mode & 0o077 == 0
        assert site.log_file.stat().st_mode & 0o077 == 0
        (given,) = [
            file for file in site.folder.rglob("*") if file.is_file() and b"hush" in file.read_bytes()
        ]
        assert given.stat().st_mode & 0o077 == 0
    finally:
        site.stop()
    assert not given.exists()


def test_a_site_that_is_started_again_at_once_keeps_its_scratch_folder(tmp_path: Path) -> None:
    """The keeper of the run before is still ending its server, and then clears away what was its own."""
    (tmp_path / "scratch-left").mkdir()  # by a keeper that was killed too
    options = EmbeddedOptions(settings=local_files.HADOOPS_FILES)
    first, second = (EmbeddedSite("s", tmp_path, idle_java(tmp_path), options=options) for _ in range(2))
    first.start()
    second.start()
    try:
        assert first._keeper is not None
        held = set(tmp_path.glob("scratch*"))
        assert len(held) == 2
        first.stop()
        (kept,) = tmp_path.glob("scratch*")
        assert kept in held
        assert second.is_alive()
    finally:
        first.stop()
        second.stop()
    assert not list(tmp_path.glob("scratch*"))


def test_a_java_that_cannot_be_run_is_an_engine_error(tmp_path: Path) -> None:
    site = EmbeddedSite("bad", tmp_path / "bad", Java(tmp_path / "nowhere", 17, "test"))
    with pytest.raises(EngineError, match="could not start"):
        site.start()


def test_a_site_does_not_start_where_relative_paths_would_lead_nowhere(tmp_path: Path) -> None:
    options = EmbeddedOptions(working_folder=tmp_path / "gone")
    with pytest.raises(EngineError, match="the base of relative paths: the folder no longer exists"):
        EmbeddedSite("here", tmp_path / "site", find_java(), options=options).start()


@pytest.mark.soak
def test_a_clock_that_jumps_ahead_does_not_take_a_servers_executor_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark looks once a second here; the server would end with the sixtieth heartbeat after that."""
    if (library := built_library(tmp_path)) is None:
        pytest.skip(f"no clock can be set: {why_not()}")
    clock = Clock(tmp_path / "clock", library)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    options = quick_start(settings={"spark.network.timeoutInterval": "1s"})
    site = EmbeddedSite("s", tmp_path / "site", find_java(), options=options)
    site.start()
    try:
        session = open_session(site.wait_ready())
        began_s = seconds_there(session)
        with clock.ahead(30 * DAY_S):
            while (passed_s := seconds_there(session) - began_s - 30 * DAY_S) < 5:
                assert passed_s > -5, "the server goes by another clock"
                time.sleep(0.2)
        close_session(session)
        assert "Removing executor" not in site.log_file.read_text()
    finally:
        site.stop()


def seconds_there(session: SparkSession) -> int:
    return int(session.sql("SELECT unix_timestamp()").collect()[0][0])


def test_a_full_site_answers_what_needs_no_slot_and_the_next_slot_is_for_who_has_none(
    site: EmbeddedSite, session: SparkSession
) -> None:
    """A batch of more tasks than there are slots, each of which ends when it is told to."""
    gate, tasks = str(site.folder / "gate"), 3 * site.slots
    Path(gate).mkdir()

    def wait(parts: Iterator[Any]) -> Iterator[Any]:
        for part in parts:
            number = part.column(0)[0].as_py()
            Path(gate, f"begun-{number}").touch()
            while not Path(gate, f"end-{number}").exists():
                time.sleep(0.02)
            yield part

    def begun() -> list[str]:
        return sorted(file.name.removeprefix("begun-") for file in Path(gate).glob("begun-*"))

    batch = open_session(site.endpoint)
    handle = SiteHandle("here", 2.0, site.endpoint, None)
    with ThreadPoolExecutor() as threads:
        try:
            rows = batch.range(0, tasks, 1, tasks).mapInArrow(wait, "id long")
            whole = threads.submit(rows.collect)
            while len(begun()) < site.slots:
                assert not whole.done(), whole.result()
            SiteClocks({"here": handle}, site.folder).ask("here", session)
            SiteHandles([handle]).pulse("here")
            other = threads.submit(session.range(5).count)
            ended: set[str] = set()
            while not other.done() and (left := set(begun()) - ended):
                ended.add(left.pop())
                for number in ended:
                    Path(gate, f"end-{number}").touch()
                while not other.done() and len(begun()) < min(site.slots + len(ended), tasks):
                    time.sleep(0.02)
            assert other.result(60) == 5
            assert len(begun()) < tasks, "waited for the last task of another batch"
        finally:
            for each in range(tasks):
                Path(gate, f"end-{each}").touch()
    close_session(batch)
