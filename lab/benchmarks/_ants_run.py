"""A pipeline with two queries on three sites with CPU quotas, run by commands while ants look after it.

Stream `a` comes in at ada and goes through a0, a1 and a2; `b` comes in at bea and goes through b0 and b1.
Where a stream comes in its first fragment stays. Every row has to arrive in a2 or b1 exactly once.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet

from lab.benchmarks._adapting_run import groups_of, set_quota, weigh_more
from lab.benchmarks._user_run import UserRun, command_lines
from lab.quota_bench.feeder import Feeder
from lab.quota_bench.workload import DelayOperator, roots, write_project
from mooring.spark.pipeline.project import load_project
from mooring.spark.runs.results import read_stored
from mooring.spark.sites.process_tree import tree_usage
from mooring.spark.storage.stream_logs import sink_entries

QUOTA_CORES = {"ada": 0.5, "bea": 0.5, "cleo": 0.5}
TRIGGER_S = 4.0
FIXED_CORES = 0.06
"""Of one fragment at rate zero, as stated to the planner."""
OPERATORS = (
    DelayOperator("a0", None, 500.0, 1.0),
    DelayOperator("a1", "a0", 2000.0, 1.0),
    DelayOperator("a2", "a1", 2000.0, 1.0),
    DelayOperator("b0", None, 500.0, 1.0),
    DelayOperator("b1", "b0", 2000.0, 1.0),
)
FIRST = {"a0": "ada", "a1": "ada", "a2": "ada", "b0": "bea", "b1": "bea"}
ENTERS = {"a0": "ada", "b0": "bea"}
RATES = {"a0": 25.0, "b0": 25.0}
LEAVES = {"a2": "a0", "b1": "b0"}
"""Tables that nobody reads, and the stream whose rows they have to hold."""
LATENCY_MS = 20.0


@dataclass(frozen=True)
class Arrival:
    """Of the rows of one file: when they landed, and how long after that the file was there."""

    landed_s: float
    latency_s: float
    rows: int


@dataclass
class AntsRun:
    """A project that runs in the background and is fed."""

    run: UserRun
    feeder: Feeder
    began_s: float = field(default_factory=time.time)

    @property
    def now_s(self) -> float:
        return time.time() - self.began_s

    @property
    def storage(self) -> Path:
        return Path(load_project(self.run.folder).settings.storage)

    def feed(self, factors: Mapping[str, float]) -> None:
        self.feeder.set_rates({name: rate * factors.get(name, 1.0) for name, rate in RATES.items()})

    def lower(self, site: str, cores: float) -> None:
        """As somebody else on the machine would: in the control group, behind Mooring's back."""
        for group in groups_of(site, self.run.server_of(site)):
            set_quota(group, cores)

    def kill_site(self, site: str) -> None:
        os.kill(self.run.server_of(site), signal.SIGKILL)

    def kill_agent(self, site: str) -> bool:
        """False if there is none."""
        found = [pid for pid, own in self._agents() if own == site]
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return bool(found)

    def agents_cpu_s(self) -> float:
        used = [tree_usage(pid) for pid, _ in self._agents()]
        return sum(each.cpu_s for each in used if each is not None)

    def _agents(self) -> Iterator[tuple[int, str]]:
        for pid, line in command_lines():
            words = line.decode(errors="replace").split("\0")
            if str(self.run.folder) in line.decode(errors="replace") and "--site" in words:
                yield pid, words[words.index("--site") + 1]

    def moves(self) -> list[str]:
        entries = (self.run.status().get("adapting") or {}).get("ledger", [])
        return [f"{move['fragment']} to {move['to']}" for entry in entries for move in entry["moves"]]

    def ant_bytes(self) -> int:
        """That agents have sent one another and the runner, as they said some seconds ago."""
        files = (self.run.folder / ".mooring" / "agents").glob("*/agent.json")
        return sum(json.loads(file.read_text())["counts"].get("bytes sent: ants", 0) for file in files)

    def channel_bytes(self) -> int:
        """Of all files that fragments have committed."""
        logs = self.storage.glob("channels/*/*/_spark_metadata")
        return sum(entry.path.stat().st_size for log in logs for entry in sink_entries(log))

    def arrivals(self, leaf: str) -> list[Arrival]:
        """By what is stored, in the order of landing."""
        found = []
        for log in self.storage.glob(f"channels/{leaf}/*/_spark_metadata"):
            for entry in sink_entries(log):
                there_s = entry.path.stat().st_mtime
                landed = pyarrow.parquet.read_table(entry.path, columns=["at"])["at"].to_pylist()
                for at in sorted(set(landed)):
                    found.append(Arrival(at - self.began_s, there_s - at, landed.count(at)))
        return sorted(found, key=lambda arrival: arrival.landed_s)

    def rows_are_true(self) -> bool:
        """Whether every row that was fed is in the table that should have it, once."""
        fed = self.feeder.fed()
        for leaf, stream in LEAVES.items():
            table = read_stored(self.storage, leaf)
            found = sorted(table["n"].to_pylist()) if table.num_rows else []
            if found != list(range(fed[stream])):
                return False
        return True


def mean_latency_s(arrivals: Sequence[Arrival], from_s: float, to_s: float) -> float | None:
    """Of the rows that landed within a time."""
    inside = [each for each in arrivals if from_s <= each.landed_s < to_s]
    if not inside:
        return None
    return statistics.fmean([each.latency_s for each in inside], [each.rows for each in inside])


def write_settings(file: Path) -> None:
    """Where streams come in, how far sites are apart, who wants results, and what a batch costs."""
    said = json.loads(file.read_text())
    said["streams"] = {name: {"rate": rate, "site": ENTERS[name]} for name, rate in RATES.items()}
    said["latency_ms"] = {
        "ada": {"bea": LATENCY_MS, "cleo": LATENCY_MS},
        "bea": {"cleo": LATENCY_MS},
    }
    said["queries"] = {
        f"of_{leaf}": {"reads": leaf, "site": ENTERS[stream]} for leaf, stream in LEAVES.items()
    }
    said["statistics"] = {
        name: {**own, "fixed_cores": FIXED_CORES} for name, own in said["statistics"].items()
    }
    del said["tables"]  # all files stay, so that their bytes can be counted in the end
    file.write_text(json.dumps(said))


@contextmanager
def ants_run(folder: Path, step_us: float, *options: str) -> Iterator[AntsRun]:
    """Fed from the first moment on."""
    folder.mkdir(parents=True)
    landing = write_project(folder, OPERATORS, QUOTA_CORES, step_us=step_us, trigger_s=TRIGGER_S)
    write_settings(folder / "mooring.json")
    plan = folder / "plan.json"
    operators = {f"{name}:ingest" if name in ENTERS else name: at for name, at in FIRST.items()}
    plan.write_text(json.dumps({"placement": operators}))
    run, feeder = UserRun(folder), Feeder(landing, roots(OPERATORS))
    run.start(len(OPERATORS), "--placement", str(plan), *options)
    try:
        for site in QUOTA_CORES:
            weigh_more(site, run.server_of(site))
        made = AntsRun(run, feeder)
        made.feed({})
        with feeder.feeding():
            yield made
    finally:
        run.stop()
