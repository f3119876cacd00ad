"""A project of three sites whose optimisers bring a fragment back wherever it was put, and who can be killed.

The fragment `even` reads a stream of site a, and a query at a wants what it keeps. Whenever somebody has
moved it to c, optimisers bring it back. Steps of such a move are seen in what agents, runner and journal
write.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from lab.benchmarks._user_run import UserRun
from mooring.spark.runs.results import read_stored
from mooring.spark.storage.owned_folder import newest_owned

Step = Literal["proposed", "accepted", "stopping", "starting", "done"]
STEPS: tuple[Step, ...] = ("proposed", "accepted", "stopping", "starting", "done")
Fault = Literal["agent that proposed", "site it leaves", "site it goes to", "runner"]
FAULTS: tuple[Fault, ...] = ("agent that proposed", "site it leaves", "site it goes to", "runner")

SETTINGS = """\
sites: {a: {capacity: 1}, b: {capacity: 1}, c: {capacity: 1}}
latency_ms: {a: {b: 30, c: 60}, b: {c: 30}}
streams: {numbers: {site: a, rate: 50}}
queries: {even: {site: a}}
statistics:
  numbers: {cost_us: 50, fixed_cores: 0.1}
  even: {cost_us: 50, selectivity: 0.5, fixed_cores: 0.1}
trigger_s: 1
"""
SPEC = """\
name: agents
storage: file://FOLDER/pipelines-storage
libraries: [{glob: {include: transformations/**}}]
"""
FLOWS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()

@dp.table
def numbers():
    return spark.readStream.schema("n long").json("FOLDER/input")

@dp.table
def even():
    return spark.readStream.table("numbers").filter("n % 2 = 0")
"""
AWAY = {"numbers:ingest": "a", "even": "c"}
GUARDS = {
    "looks": "1",
    "pause_s": "0",
    "least_gain": "0",
    "worth": "0",
    "moves_per_hour": "1000",
    "moves_of_one_per_hour": "1000",
    "bar_s": "0",
}
_GUARDED = [word for name, value in GUARDS.items() for word in ("--guard", f"{name}={value}")]
OPTIONS = ("--adapt", "relaxation", "--act", "apply", "--silence", "10s", *_GUARDED)
FEED_S, FED_AT_ONCE = 0.5, 25
WATCH_S = 0.005
"""Between two looks at the files that tell of a step."""


class Numbers(threading.Thread):
    """One after the other, a file of them every half second, except while held."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.fed = 0
        self.held, self._folder, self._over = threading.Lock(), folder, threading.Event()

    def run(self) -> None:
        while not self._over.wait(FEED_S):
            with self.held:
                self._feed()

    def _feed(self) -> None:
        hidden = self._folder / f".{self.fed}"
        hidden.write_text("\n".join(json.dumps({"n": n}) for n in range(self.fed, self.fed + FED_AT_ONCE)))
        hidden.rename(self._folder / f"{self.fed:09d}.json")
        self.fed += FED_AT_ONCE

    def halt(self) -> None:
        self._over.set()
        self.join()


class AgentsRun:
    def __init__(self, folder: Path) -> None:
        for name in ("transformations", "input"):
            (folder / name).mkdir(parents=True)
        (folder / "mooring.yml").write_text(SETTINGS)
        (folder / "spark-pipeline.yml").write_text(SPEC.replace("FOLDER", str(folder)))
        (folder / "transformations" / "flows.py").write_text(FLOWS.replace("FOLDER", str(folder)))
        self.run, self.numbers = UserRun(folder), Numbers(folder / "input")
        self._agents = folder / ".mooring" / "agents"
        self._storage = folder / ".mooring" / "storage"
        self._plan = folder / "away.json"
        self._plan.write_text(json.dumps({"placement": AWAY}))

    # What is done with it

    def start(self, *options: str) -> None:
        self.run.start(2, *OPTIONS, *options)

    def move_away(self) -> subprocess.Popen[bytes]:
        """Begins to ask for it; what becomes of it is seen."""
        words = ["moves", str(self.run.folder), "--to", str(self._plan), "--apply"]
        return subprocess.Popen(
            [sys.executable, "-m", "mooring", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def kill(self, fault: Fault) -> Callable[[], None]:
        """Finds out beforehand whom to kill, so that it takes no time then."""
        victims = {
            "agent that proposed": lambda: self.agent("c"),
            "site it leaves": lambda: self.run.server_of("c"),
            "site it goes to": lambda: self.run.server_of("a"),
            "runner": self.run.pid,
        }
        victim = victims[fault]()
        return lambda: os.kill(victim, signal.SIGKILL)

    # What is seen of it

    def agent(self, site: str) -> int:
        return int(self._read(self._agents / site / "agent.json")["pid"])

    def memory(self, site: str) -> dict[str, Any]:
        machines: dict[str, Any] = self._read(self._agents / site / "durable.json").get("machines", {})
        return machines.get("relaxation") or {}

    def mover(self) -> dict[str, Any]:
        return self._read(self._agents / "runner" / "mover.json")

    def newest(self) -> list[int]:
        """The id of the newest proposal of c that is known anywhere."""
        answers = [answer["id"] for answer in self.mover().get("answers", []) if answer["id"][0] == 2]
        opened = self.memory("c").get("open")
        return max([*answers, *([opened["id"]] if opened else []), [2, -1, -1]])

    def stages(self) -> set[tuple[str, str]]:
        """(list, stage) of all that optimisers ordered, by the journal."""
        owned = newest_owned(self._storage)
        lines = (owned.folder / "journal.jsonl").read_bytes().split(b"\n")[:-1] if owned else []
        records = [json.loads(line)["record"] for line in lines]
        own = {r["id"] for r in records if r["kind"] == "list" and r["asked_by"] == "adapting: relaxation"}
        return {(r["list"], r["stage"]) for r in records if r["kind"] == "step" and r["list"] in own}

    def watch(self, step: Step) -> Callable[[], bool]:
        """Whether optimisers have come so far again, with what they propose from now on."""
        newest, stages = self.newest(), self.stages()

        def proposed() -> bool:
            opened = self.memory("c").get("open")
            return opened is not None and opened["id"] > newest

        def accepted() -> bool:
            return any(each["id"] > newest for each in self.mover().get("accepted", []))

        def done() -> bool:
            answers = self.mover().get("answers", [])
            return any(each["type"] == "Done" and each["id"] > newest for each in answers)

        def reached(stage: str) -> bool:
            return any(at == stage for _, at in self.stages() - stages)

        happened: dict[Step, Callable[[], bool]] = {
            "proposed": proposed,
            "accepted": accepted,
            "stopping": lambda: reached("prepared"),
            "starting": lambda: reached("fenced"),
            "done": done,
        }
        return happened[step]

    def nothing_is_held(self) -> bool:
        return not any(self.memory(site).get(what) for site in "abc" for what in ("held", "open"))

    def calm(self) -> bool:
        """All sites are there, all fragments run, each at its home, nothing is wrong, and nobody waits for an
        answer.
        """
        try:
            for site in "abc":  # a site that has just been killed is not in the status yet
                self.run.server_of(site)
        except RuntimeError:
            return False
        status = self.run.status()
        at = {name: seen["site"] for name, seen in status["fragments"].items()}
        places = {"numbers": "a", "even": "a"}
        return at == places and not status["troubles"] and not status.get("list") and self.nothing_is_held()

    def rows_are_true(self) -> bool:
        table = read_stored(self._storage, "even")
        found = sorted(table["n"].to_pylist()) if table.num_rows else []
        return found == list(range(0, self.numbers.fed, 2))

    @staticmethod
    def _read(file: Path) -> dict[str, Any]:
        with suppress(FileNotFoundError, json.JSONDecodeError):
            found: dict[str, Any] = json.loads(file.read_bytes())
            return found
        return {}


def wait_quick(happened: Callable[[], bool], patience_s: float) -> bool:
    """Whether it did, as soon as it does."""
    deadline = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(WATCH_S)
    return True
