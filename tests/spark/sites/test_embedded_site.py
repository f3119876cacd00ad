"""Embedded sites are private, and none outlives the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the `spark` extra is not installed")

from mooring.errors import EngineError
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint, open_session
from mooring.spark.sites.java import Java, find_java
from mooring.spark.sites.process_tree import can_see_processes, tree_usage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def test_a_site_answers_only_with_its_token_and_only_on_the_loopback(
    site: EmbeddedSite, session: SparkSession
) -> None:
    assert session.range(5).count() == 5
    stranger = Endpoint(site.endpoint.url.split(";")[0] + ";token=wrong")
    with pytest.raises(EngineError, match="refuses the token"):
        open_session(stranger)
    assert site.endpoint.url.split("token=")[1] not in site.endpoint.redacted()
    port = int(site.endpoint.url.split(":")[2].split("/")[0])
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    addresses = {line.split()[1] for line in listening.splitlines() if f":{port:04X} " in line}
    assert addresses
    assert all(address.split(":")[0].endswith("0100007F") for address in addresses)


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
            assert not (folder / "scratch").exists()
        assert (folder / "server.log").exists()


def test_a_failed_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    options = EmbeddedOptions(settings={"spark.master": "nonsense"})
    site = EmbeddedSite("bad", tmp_path / "bad", find_java(), options=options)
    site.start()
    server = site._server_pid
    assert server is not None
    with pytest.raises(EngineError, match=r"(?s)ended while starting.*nonsense"):
        site.wait_ready()
    wait_gone(server)


def test_a_java_that_cannot_be_run_is_an_engine_error(tmp_path: Path) -> None:
    site = EmbeddedSite("bad", tmp_path / "bad", Java(tmp_path / "nowhere", 17, "test"))
    with pytest.raises(EngineError, match="could not start"):
        site.start()
