"""A standalone cluster as a site: rows that mean the same, and every row once while its parts fail.

    python -m lab.benchmarks.spark_cluster [--rounds 1] [--seed 0] [--minutes 20] [--moves 8]
        [--executor-kills 6] [--worker-kills 4] [--worker-joins 2] [--master-kills 3] [--server-kills 3]
        [--mooring-kills 4]

A master, three workers of one core and a Connect server, started by examples/cluster/standalone.py from the
Spark of `pip install`, stand beside three embedded sites.

*Settings.* The cluster is started with twelve settings that change what expressions answer. The table has the
answers of a session as the server opens it, of one that Mooring opened, and of an embedded site.

*Rounds.* The pipeline of spark_faults runs over all four sites, with its view and file sink. Events come in
an order and at moments drawn from the seed: kills of an executor, of a worker with its executors (which is
started again), of the master (which recovers), of the Connect server (started again at its address) and of
the runner; workers that join; and moves to the cluster and back. In the end tables, view and sink are held
against the truth: each row is there once.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException

from examples.cluster.standalone import Cluster
from lab.benchmarks import _machine
from lab.benchmarks._agent_places import AgentPlace
from lab.benchmarks._demo_project import SITES
from lab.benchmarks._far_site import FarSite
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks._under_fire import HERE, UnderFire
from lab.benchmarks._wide_project import FAR, WideProject
from lab.benchmarks._wrong_clock import Clock
from lab.benchmarks.spark_faults import are_exact, carried_through, median
from mooring.cli.output.result_table import ResultTable, Value
from mooring.spark.definitions.result_settings import settle_results, wanted_results
from mooring.spark.sites.class_archive import build_archive, usable_archive
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.java import find_java
from tests.spark.shared_cluster import OTHER_ANSWERS

WORKERS = 3
EVENTS = (
    "moves",
    "executor kills",
    "worker kills",
    "workers joined",
    "master kills",
    "server kills",
    "Mooring kills",
)


class ClusterUnderFire(UnderFire):
    """The same pipeline, with a cluster whose parts fail."""

    cluster: Cluster

    def schedule(self, arguments: argparse.Namespace) -> list[Callable[[], None]]:
        orders: list[Callable[[], None]] = [self.move_over] * arguments.moves
        orders += [self.kill_executor] * arguments.executor_kills
        orders += [self.kill_worker] * arguments.worker_kills
        orders += [self.join_worker] * arguments.worker_joins
        orders += [self.kill_master] * arguments.master_kills
        orders += [self.kill_server] * arguments.server_kills
        orders += [partial(self.kill_mooring, aimed=k % 2 == 1) for k in range(arguments.mooring_kills)]
        self.draw.shuffle(orders)
        return orders

    def move_over(self) -> None:
        """A drawn fragment to the cluster, or one of the cluster's back."""
        for _ in range(20):
            placement = dict(self.at.status()["placement"])
            movable = sorted(name for name in placement if not name.endswith(":ingest"))
            name = self.draw.choice(movable)
            back = placement[name] == FAR
            placement[name] = self.draw.choice(sorted(SITES)) if back else FAR
            if self.moved(placement):
                self.at.wait(partial(self.shows, placement), "the status to follow")
                self.counts["moves back from the cluster" if back else "moves to the cluster"] += 1
                return
            time.sleep(3.0)
        raise RuntimeError("twenty lists of moves were refused in a row")

    def kill_executor(self) -> None:
        self.pause()
        if executors := self.cluster.executors():
            os.kill(self.draw.choice(sorted(executors)), signal.SIGKILL)
        self.counts["executor kills"] += 1
        self.settle_soon()

    def kill_worker(self) -> None:
        """Its machine comes back as another worker."""
        self.pause()
        alive = [n for n, worker in enumerate(self.cluster.workers) if worker.poll() is None]
        self.cluster.kill_worker(self.draw.choice(alive))
        self.counts["worker kills"] += 1
        self.pause()
        self.cluster.add_worker()
        self.settle_soon()

    def join_worker(self) -> None:
        self.pause()
        self.cluster.add_worker()
        self.counts["workers joined"] += 1
        self.settle_soon()

    def kill_master(self) -> None:
        self.pause()
        self.cluster.kill_master()
        self.counts["master kills"] += 1
        self.pause()
        self.cluster.start_master()
        self.settle_soon()

    def kill_server(self) -> None:
        self.pause()
        self.cluster.kill_server()
        self.counts["server kills"] += 1
        self.pause()
        self.cluster.begin_server()
        self.cluster.wait_server()
        self.settle_soon()

    def settle_soon(self) -> None:
        """What follows shows with the next looks, not at once."""
        began = time.monotonic()
        self.pause()
        self.settle()
        self.noticed_s.append(time.monotonic() - began)


@contextlib.contextmanager
def a_cluster(folder: Path, settings: dict[str, str]) -> Iterator[Cluster]:
    java = find_java()
    if usable_archive(java) is None:
        build_archive(java)
    flags = ["-XX:TieredStopAtLevel=1", "-Xss512k", f"-XX:SharedArchiveFile={usable_archive(java)}"]
    recovery = {
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(folder / "recovery"),
    }
    with Cluster(folder, workers=WORKERS, settings=recovery | settings, java_options=flags) as cluster:
        yield cluster


def answers(url: str, *, settled: bool) -> dict[str, str]:
    """Of a session at a server, by setting."""
    session = open_session(Endpoint(url))
    try:
        if settled:
            refused = settle_results(session, wanted_results({}))
            assert not refused, refused
        found = {}
        for name, (_, expression) in OTHER_ANSWERS.items():
            try:
                found[name] = str(session.sql(f"SELECT {expression} AS it").collect()[0].it)
            except PySparkException as failure:
                found[name] = str(failure.getCondition())
        return found
    finally:
        close_session(session)


def settings_rows(root: Path) -> list[dict[str, Value]]:
    started = {f"spark.sql.{name}": value for name, (value, _) in OTHER_ANSWERS.items()}
    embedded = EmbeddedSite("here", root / "here", find_java(), options=EmbeddedOptions())
    embedded.start()
    try:
        with a_cluster(root / "cluster", started) as cluster:
            before = answers(cluster.url, settled=False)
            after = answers(cluster.url, settled=True)
        here = answers(embedded.wait_ready().url, settled=True)
    finally:
        embedded.stop()
    return [
        {
            "setting": name,
            "server_has": value,
            "expression": expression,
            "as_the_server_opens_it": before[name],
            "opened_by_mooring": after[name],
            "embedded_site": here[name],
            "differed": before[name] != here[name],
            "same_now": after[name] == here[name],
        }
        for name, (value, expression) in OTHER_ANSWERS.items()
    ]


def fire_round(seed: int, arguments: argparse.Namespace) -> dict[str, Value]:
    """One of them. A folder with something to look into is kept."""
    root = Path(tempfile.mkdtemp(prefix="mooring-cluster-"))
    began, failure, exact = time.monotonic(), "", False
    settings = {"spark.sql.session.timeZone": "America/New_York"}
    with a_cluster(root / "cluster", settings) as cluster:
        far = FarSite(AgentPlace("localhost"), cluster.url, cluster.log("server"))
        project = WideProject(root / "disk" / "storage", root / "disk" / "ledger", far, None, WORKERS)
        hosts = {root / "one" / "project": root / "disk" / "storage"}
        clock = Clock(root / "clock", None)
        fire = ClusterUnderFire(project, root / "landing", hosts, {HERE: clock, FAR: clock}, seed)
        fire.cluster = cluster
        try:
            orders = fire.schedule(arguments)
            verdicts, _ = carried_through(fire, orders, arguments.minutes, root / "landing")
            exact = are_exact(verdicts)
        except RuntimeError as broken:
            failure, verdicts = str(broken).splitlines()[0], []
            print(f"{broken}\nkept: {root}", file=sys.stderr, flush=True)
    if exact:
        shutil.rmtree(root)
    return {
        "seed": seed,
        "commit": _machine.commit(),
        "seconds": round(time.monotonic() - began),
        "events": sum(fire.counts[what] for what in EVENTS),
        **{what.replace(" ", "_"): fire.counts[what] for what in EVENTS},
        "exact": exact,
        "rows": sum(verdict.delivered for verdict in verdicts),
        "missing": sum(verdict.missing for verdict in verdicts),
        "wrong_or_double": sum(verdict.extra for verdict in verdicts),
        "median_pause_s": median(fire.pauses_s),
        "median_s_until_all_runs_again": median(fire.noticed_s),
        "longest_s_until_all_runs_again": max(fire.noticed_s, default=None),
        "failure": failure,
    }


def measure(failures: list[int], words: Sequence[str]) -> Iterator[ResultTable | str]:
    arguments = parser().parse_args(words)
    with tempfile.TemporaryDirectory(prefix="mooring-cluster-") as folder:
        settings = settings_rows(Path(folder))
    yield ResultTable.of("Settings", settings)
    differed = sum(bool(row["differed"]) for row in settings)
    same = sum(bool(row["same_now"]) for row in settings)
    yield f"{differed} of {len(settings)} settings change the answer; with Mooring {same} answers agree."
    rows = []
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        rows.append(fire_round(seed, arguments))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if not rows[-1]["exact"]:
            failures.append(seed)
    if rows:
        yield ResultTable.of("Rounds", rows)
        exact = sum(bool(row["exact"]) for row in rows)
        yield f"{exact} of {len(rows)} rounds delivered every row exactly once."


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--moves", type=int, default=8)
    parser.add_argument("--executor-kills", type=int, default=6)
    parser.add_argument("--worker-kills", type=int, default=4)
    parser.add_argument("--worker-joins", type=int, default=2)
    parser.add_argument("--master-kills", type=int, default=3)
    parser.add_argument("--server-kills", type=int, default=3)
    parser.add_argument("--mooring-kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0, help="of the first round; the next ones count on")
    parser.add_argument("--minutes", type=int, default=20, help="of packets; the rest is hurried in the end")
    return parser


def main(words: Sequence[str]) -> int:
    failures: list[int] = []
    title = "A standalone cluster as a site, while its parts fail"
    carry_out(
        Measurement("spark_cluster", title, prose_of(__doc__), functools.partial(measure, failures)), words
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
