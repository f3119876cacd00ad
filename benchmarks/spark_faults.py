"""Exactly once, under fire: the demo's pipeline while fragments are moved and sites and Mooring are killed.

    python -m benchmarks.spark_faults [--rounds 1] [--moves 10] [--site-kills 5] [--mooring-kills 5]

Every round runs the pipeline in the background as a user would, then moves fragments with `mooring moves`,
kills sites and the runner itself with -9 and freezes one site, in an order and at moments drawn from the
seed; a killed runner is started again. Every other kill is aimed between the sink's commit of a batch and the
checkpoint's. In the end the output is held against the truth, row by row. Twenty rounds make the campaign of
100 kills of each kind (`make campaign`).
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._record import Measurement, carry_out, prose_of
from mooring.experiments.result_table import ResultTable, Value
from mooring.spark.sites.file_name import file_name
from mooring.spark.storage.fencing import current_epoch
from mooring.spark.storage.stream_logs import last_batch

EXAMPLE = Path(__file__).parent.parent / "examples" / "network_monitoring"
sys.path.insert(0, str(EXAMPLE))

from compare import Verdict, compare  # noqa: E402
from feed import Feeder  # noqa: E402
from truth import demo_traffic, expected_rows  # noqa: E402

PATIENCE_S = 300.0
AIM_S = 30.0
SPEED = 1.0


class Round:
    """One project under fire."""

    def __init__(self, root: Path, seed: int) -> None:
        self.folder = root / "project"
        ignored = shutil.ignore_patterns("__pycache__", ".mooring", "landing")
        shutil.copytree(EXAMPLE, self.folder, ignore=ignored)
        self.storage = self.folder / ".mooring" / "storage"
        self.draw = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.pauses_s: list[float] = []
        self.noticed_s: list[float] = []

    # What a user does

    def mooring(self, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "mooring", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def run(self) -> None:
        self.mooring("run", str(self.folder), "--detach", "--silence", "10s")
        self.wait(lambda: len(self.status()["fragments"]) == 10, "ten fragments to run")

    def move_one(self) -> None:
        """A drawn fragment to a drawn site; where that site cannot take it, another draw."""
        for _ in range(20):
            placement = dict(self.status()["placement"])
            name = self.draw.choice(sorted(name for name in placement if not name.endswith(":ingest")))
            placement[name] = self.draw.choice(sorted({"berlin", "oslo", "porto"} - {placement[name]}))
            if self.moved(placement):
                self.wait(functools.partial(self.shows, placement), "the status to follow")
                return
        raise RuntimeError("twenty moves were refused in a row")

    def moved(self, placement: dict[str, str]) -> bool:
        plan = self.folder / "plan.json"
        plan.write_text(json.dumps({"placement": placement}))
        try:
            answer = self.mooring("moves", str(self.folder), "--to", str(plan), "--apply")
        except RuntimeError as refused:
            self.counts["moves refused"] += 1
            print(f"  {str(refused).splitlines()[0]}", file=sys.stderr, flush=True)
            time.sleep(3.0)
            return False
        steps = answer["applied"]["steps"] if answer["applied"] else []
        self.counts["moves"] += len(steps)
        self.pauses_s += [float(step["pause_s"]) for step in steps]
        return bool(steps)

    def shows(self, placement: dict[str, str]) -> bool:
        return bool(self.status()["placement"] == placement)

    # What happens to them

    def kill_site(self, *, aimed: bool) -> None:
        site = self.draw.choice(["berlin", "oslo", "porto"])
        fragments = [n for n, f in self.status()["fragments"].items() if f["site"] == site]
        self.kill(server_of(self.folder, site), fragments, aimed=aimed)
        self.counts["site kills"] += 1
        began = time.monotonic()
        self.wait(lambda: self.status()["troubles"], "the lost site to be noticed")
        self.noticed_s.append(time.monotonic() - began)
        self.settle()

    def kill_mooring(self, *, aimed: bool) -> None:
        pid = self.mooring("status", str(self.folder))["pid"]
        self.kill(pid, list(self.status()["fragments"]), aimed=aimed)
        self.counts["Mooring kills"] += 1
        self.wait(lambda: not processes_in(self.folder), "the killed runner's sites to end")
        (self.folder / ".mooring" / "status.json").unlink(missing_ok=True)
        self.run()

    def freeze_site(self) -> None:
        """Frozen, its fragments go elsewhere; thawed, it changes nothing and is used again."""
        site = self.draw.choice(["berlin", "oslo", "porto"])
        pid = server_of(self.folder, site)
        os.kill(pid, signal.SIGSTOP)
        self.wait(lambda: f"site {site}" in self.status()["troubles"], "the frozen site to be noticed")
        away = {n for n in self.status()["placement"] if not n.endswith(":ingest")}
        self.wait(
            lambda: (
                all(f["site"] != site for f in self.status()["fragments"].values())
                and away <= self.status()["fragments"].keys()
            ),
            "its fragments to run elsewhere",
        )
        time.sleep(self.draw.uniform(0.0, 6.0))
        os.kill(pid, signal.SIGCONT)
        self.counts["freezes"] += 1
        self.settle()

    def kill(self, pid: int, fragments: list[str], *, aimed: bool) -> None:
        time.sleep(self.draw.uniform(0.0, 5.0))
        if aimed:
            self.aim(fragments)
        os.kill(pid, signal.SIGKILL)
        standing = [self.standing(fragment) for fragment in fragments]
        self.counts["kills"] += 1
        self.counts["kills aimed"] += aimed
        self.counts["kills inside a batch"] += any(begun > done for begun, _, done in standing)
        self.counts["unaimed kills inside a batch"] += not aimed and any(b > d for b, _, d in standing)
        self.counts["kills between the two commits"] += any(sunk > done for _, sunk, done in standing)

    def aim(self, fragments: list[str]) -> None:
        """Wait for the moment after a sink's commit and before the checkpoint's."""
        deadline = time.monotonic() + AIM_S
        while time.monotonic() < deadline:
            for fragment in fragments:
                _, sunk, done = self.standing(fragment)
                if sunk > done:
                    return

    def standing(self, fragment: str) -> tuple[int, int, int]:
        """The newest batch begun, in the sink's log, and committed."""
        checkpoint = current_epoch(self.storage / "checkpoints" / file_name(fragment))
        name = file_name(fragment)
        done = last_batch(checkpoint / "commits")
        sunk = last_batch(self.storage / "channels" / name / name / "_spark_metadata")
        return last_batch(checkpoint / "offsets"), sunk, max(done, last_batch(checkpoint / "commits"))

    # Looking on

    def status(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / ".mooring" / "status.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {"fragments": {}, "troubles": {}, "placement": {}}
        return found

    def settle(self) -> None:
        self.wait(
            lambda: not self.status()["troubles"] and len(self.status()["fragments"]) == 10,
            "everything to run again",
        )

    def wait(self, happened: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            if time.monotonic() > deadline:
                log = (self.folder / ".mooring" / "run.log").read_text()
                raise RuntimeError(f"waited {PATIENCE_S:g} s for {what}\n{log[-4000:]}")
            time.sleep(0.2)

    def fire(self, arguments: argparse.Namespace) -> list[Verdict]:
        """All of it; returns the verdicts."""
        traffic = demo_traffic()
        expected = expected_rows(traffic)
        feeder = Feeder(traffic, self.folder / "landing", speed=SPEED)
        orders: list[Callable[[], None]] = [self.move_one] * arguments.moves + [self.freeze_site]
        orders += [partial(self.kill_site, aimed=k % 2 == 1) for k in range(arguments.site_kills)]
        orders += [partial(self.kill_mooring, aimed=k % 2 == 1) for k in range(arguments.mooring_kills)]
        self.draw.shuffle(orders)
        feeder.start()
        try:
            self.run()
            for number, order in enumerate(orders):
                order()
                print(f"  {number + 1}/{len(orders)} {dict(self.counts)}", file=sys.stderr, flush=True)
            feeder.hurry()
            feeder.join()
            # A query that starts again keeps its watermark until each of its inputs has brought a row since.
            feeder.close("99999-again")
            with contextlib.suppress(RuntimeError):
                self.wait(lambda: all(v.exact for v in compare(self.storage, expected)), "all rows")
            return compare(self.storage, expected)
        finally:
            feeder.halt()
            subprocess.run([sys.executable, "-m", "mooring", "stop", str(self.folder)], capture_output=True)


def processes_in(folder: Path) -> list[int]:
    """Processes with the folder in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if str(folder).encode() in words and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def server_of(folder: Path, site: str) -> int:
    mark = f"{folder}/.mooring/sites/{site}/".encode()
    for pid in processes_in(folder):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if words.split(b"\0")[0].endswith(b"java") and mark in words:
                return pid
    raise RuntimeError(f"the site {site} does not run")


def measure(failures: list[int], words: Sequence[str]) -> Iterator[ResultTable | str]:
    """Rounds that delivered anything but the truth are added to `failures`."""
    arguments = parser().parse_args(words)
    total: Counter[str] = Counter()
    rows: list[dict[str, Value]] = []
    for number in range(arguments.rounds):
        one, row = fire_round(number, arguments)
        rows.append(row)
        total += one.counts
        print(json.dumps(row), file=sys.stderr, flush=True)
        if not row["exact"]:
            failures.append(number)
    yield ResultTable.of("Rounds", rows)
    yield ResultTable.of(
        "All rounds together", [{"happened": what, "times": count} for what, count in total.items()]
    )
    yield f"{len(rows) - len(failures)} of {len(rows)} rounds delivered every row exactly once."


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--site-kills", type=int, default=5)
    parser.add_argument("--mooring-kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def fire_round(number: int, arguments: argparse.Namespace) -> tuple[Round, dict[str, Value]]:
    root = Path(tempfile.mkdtemp(prefix="mooring-faults-"))
    began = time.monotonic()
    try:
        one = Round(root, arguments.seed + number)
        verdicts = one.fire(arguments)
    finally:
        shutil.rmtree(root)
    return one, {
        "round": number,
        "seconds": round(time.monotonic() - began),
        "exact": all(verdict.exact for verdict in verdicts),
        "rows": sum(verdict.delivered for verdict in verdicts),
        "missing": sum(verdict.missing for verdict in verdicts),
        "wrong_or_double": sum(verdict.extra for verdict in verdicts),
        "moves": len(one.pauses_s),
        "median_pause_s": statistics.median(one.pauses_s) if one.pauses_s else None,
        "longest_pause_s": max(one.pauses_s, default=None),
        "median_s_to_notice_a_lost_site": statistics.median(one.noticed_s) if one.noticed_s else None,
    }


def main(words: Sequence[str]) -> int:
    failures: list[int] = []
    title = "Exactly once, while fragments are moved and sites and Mooring are killed"
    carry_out(
        Measurement("spark_faults", title, prose_of(__doc__), functools.partial(measure, failures)), words
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
