"""A pipeline on three sites with CPU quotas, run by commands while rates and quotas change under it.

Six fragments whose CPU per row is set (the quota bench's delays): three that read stream `a`, two of `b`, one
of `c`. Every row of a stream has to arrive in the last table of each of its branches exactly once.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.benchmarks._user_run import UserRun
from lab.quota_bench.bench import calibrate, quota_probe, require_quota
from lab.quota_bench.feeder import Feeder
from lab.quota_bench.workload import DelayOperator, roots, write_project
from mooring.model.problem.site import Site
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.process_tree import tree_usage
from mooring.spark.sites.sites import running_sites

QUOTA_CORES = {"ada": 0.5, "bea": 0.5, "cleo": 0.5}
TRIGGER_S = 4.0
COST_US = 2000.0
FIXED_CORES = 0.04
"""Of one fragment at rate zero, as stated to the planner."""
OPERATORS = (
    DelayOperator("a0", None, COST_US, 1.0),
    DelayOperator("a1", "a0", COST_US, 1.0),
    DelayOperator("a2", "a0", COST_US, 1.0),
    DelayOperator("b0", None, COST_US, 1.0),
    DelayOperator("b1", "b0", COST_US, 1.0),
    DelayOperator("c0", None, COST_US, 1.0),
)
FIRST = {"a0": "ada", "a1": "ada", "a2": "ada", "b0": "bea", "b1": "bea", "c0": "cleo"}
RATES = {"a": 25.0, "b": 25.0, "c": 37.0}
"""Rows per second of each stream at first."""
LEAVES = {"a1": "a", "a2": "a", "b1": "b", "c0": "c"}
"""Tables that nobody reads, and the stream whose rows they have to hold."""
READ_EVERY_S = 1.0
SHARES_OVER_S = 10.0
"""A site's share of its quota is a mean over so long."""


@dataclass(frozen=True)
class Sight:
    """What could be seen at one moment, from outside."""

    at_s: float
    """Since feeding began."""
    headroom: float | None
    """At the rates that the run measures, by its own figures; None: it knows too little, or it is endless."""
    shares: Mapping[str, float]
    """Of each site's quota in use, by the CPU of its processes."""
    moves: int
    """Carried out so far."""


@dataclass
class Watcher(threading.Thread):
    """Reads the status file and /proc once a second."""

    run_of: UserRun
    servers: Mapping[str, int]
    quotas: dict[str, float]
    """In force now; changed by whoever changes the quotas."""
    sights: list[Sight] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._over, self._began = threading.Event(), time.monotonic()
        self._cpu: list[tuple[float, dict[str, float]]] = []

    def __hash__(self) -> int:
        return id(self)

    @property
    def now_s(self) -> float:
        return time.monotonic() - self._began

    def run(self) -> None:
        while not self._over.wait(READ_EVERY_S):
            now_s = self.now_s
            seen = {site: tree_usage(pid) for site, pid in self.servers.items()}
            self._cpu.append((now_s, {site: used.cpu_s for site, used in seen.items() if used is not None}))
            status = self.run_of.status()
            proposal = status.get("proposal") or {}
            ledger = (status.get("adapting") or {}).get("ledger", [])
            moves = sum(len(entry["moves"]) for entry in ledger)
            self.sights.append(Sight(now_s, proposal.get("headroom"), self._shares(now_s), moves))

    def halt(self) -> None:
        self._over.set()
        self.join()

    def _shares(self, now_s: float) -> dict[str, float]:
        before_s, before = next(
            (each for each in self._cpu if each[0] >= now_s - SHARES_OVER_S), self._cpu[0]
        )
        last_s, last = self._cpu[-1]
        span_s = max(last_s - before_s, 1e-9)
        return {
            site: (last[site] - before[site]) / span_s / self.quotas[site]
            for site in last
            if site in before and last_s > before_s
        }


@dataclass
class AdaptingRun:
    """A project that runs in the background, fed and watched."""

    run: UserRun
    feeder: Feeder
    watcher: Watcher

    def flood(self, factors: Mapping[str, float]) -> None:
        self.feeder.set_rates({f"{name}0": rate * factors.get(name, 1.0) for name, rate in RATES.items()})

    def halve(self, site: str) -> None:
        self.lower(site, QUOTA_CORES[site] / 2)

    def lower(self, site: str, cores: float) -> None:
        """As somebody else on the machine would: in the control group, behind Mooring's back."""
        for group in groups_of(site, self.watcher.servers[site]):
            set_quota(group, cores)
        self.watcher.quotas[site] = cores

    def rows_are_true(self) -> bool:
        """Whether every row that was fed is in every table that should have it, once."""
        storage, fed = load_project(self.run.folder).settings.storage, self.feeder.fed()
        for leaf, stream in LEAVES.items():
            table = read_stored(storage, leaf)
            found = sorted(table["n"].to_pylist()) if table.num_rows else []
            if found != list(range(fed[f"{stream}0"])):
                return False
        return True


def set_quota(group: Path, cores: float) -> None:
    """Of a control group of either kind."""
    if (group / "cpu.max").exists():
        (group / "cpu.max").write_text(f"{round(cores * 100_000)} 100000")
    else:
        (group / "cpu.cfs_quota_us").write_text(str(round(cores * 100_000)))


def groups_of(site: str, server: int) -> list[Path]:
    """The control groups that hold a site's server."""
    found = Path("/sys/fs/cgroup").rglob(f"mooring-{site}-*")
    return [group for group in found if str(server) in (group / "cgroup.procs").read_text().split()]


def weigh_more(site: str, server: int) -> None:
    """Others on the machine get what the site leaves: its quota is then what limits it, as it should be."""
    for group in groups_of(site, server):
        for name, most in (("cpu.shares", "262144"), ("cpu.weight", "10000")):
            if (group / name).exists():
                (group / name).write_text(most)


def step_us(folder: Path) -> float:
    """CPU of one step of a delay, on a site of its own."""
    require_quota(quota_probe())
    with running_sites([Site(name="calibration", capacity=1.0)], folder / "calibration") as sites:
        return calibrate(sites["calibration"])


@contextmanager
def adapting_run(
    folder: Path, step: float, *options: str, settings: Mapping[str, object] | None = None
) -> Iterator[AdaptingRun]:
    """Started with a plan that suits the first rates, and fed from the first moment on. `settings`: what
    else its settings say.
    """
    folder.mkdir(parents=True)
    landing = write_project(folder, OPERATORS, QUOTA_CORES, step_us=step, trigger_s=TRIGGER_S)
    _state(folder / "mooring.json", settings or {})
    plan = folder / "plan.json"
    operators = {f"{name}:ingest" if name in roots(OPERATORS) else name: at for name, at in FIRST.items()}
    plan.write_text(json.dumps({"placement": operators}))
    run, feeder = UserRun(folder), Feeder(landing, roots(OPERATORS))
    run.start(len(OPERATORS), "--placement", str(plan), *options)
    try:
        servers = {site: run.server_of(site) for site in QUOTA_CORES}
        for site, server in servers.items():
            weigh_more(site, server)
        watcher = Watcher(run, servers, dict(QUOTA_CORES))
        made = AdaptingRun(run, feeder, watcher)
        made.flood({})
        with feeder.feeding():
            watcher.start()
            try:
                yield made
            finally:
                watcher.halt()
    finally:
        run.stop()


def _state(settings: Path, more: Mapping[str, object]) -> None:
    """The rates it begins with, and what a fragment costs at rate zero."""
    said = {**json.loads(settings.read_text()), **more}
    said["streams"] = {f"{name}0": {"rate": rate} for name, rate in RATES.items()}
    for fields in said["statistics"].values():
        fields["fixed_cores"] = FIXED_CORES
    settings.write_text(json.dumps(said))


def ledger_of(run: UserRun) -> list[dict[str, Any]]:
    """What became of every list that was ordered and measured."""
    entries = (run.status().get("adapting") or {}).get("ledger", [])
    return [entry for entry in entries if entry["after"] is not None]


def load_errors(entries: Sequence[Mapping[str, Any]]) -> list[float]:
    """Per list and site that a move touched: |measured - promised| / promised."""
    found = []
    for entry in entries:
        touched = {site for move in entry["moves"] for site in (move["from"], move["to"])}
        promised, after = entry["promised"]["site_loads_at_rates"], entry["after"]["site_loads_cores"]
        found += [
            abs(after[site] - promised[site]) / promised[site] for site in sorted(touched) if site in after
        ]
    return found


def busiest(sights: Sequence[Sight], from_s: float, to_s: float) -> float:
    """The fullest site's share of its quota, median over some seconds."""
    inside = [max(s.shares.values(), default=0.0) for s in sights if from_s <= s.at_s < to_s and s.shares]
    return statistics.median(inside) if inside else float("nan")
