"""A pipeline on three embedded sites, fed with a real trace and checked against the truth.

    python examples/network_monitoring/demo.py [--policy rod] [--seconds 600] [--calm] [--one-site]

Once the pipeline runs, ten minutes of packets are replayed in 75 seconds. Half-way a flood of them arrives at
one site: the headroom falls, the running pipeline proposes a move from the rates it measures, and the move is
applied while it runs (burst.py; --calm leaves the flood out).
Arrival instants are real; addresses and sizes are drawn from the simulator's documented model (truth.py).
While it runs, the address that is printed shows it as a page.
Everything happens in a copy of this folder, out/network_monitoring, which keeps the report and the tables
until the next demo.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from burst import FLOOD, Mover  # noqa: E402
from compare import Verdict, compare  # noqa: E402
from feed import Feeder  # noqa: E402
from truth import Rows, demo_traffic, expected_rows  # noqa: E402

from mooring.cli.main import main as mooring  # noqa: E402

LIMIT_S = 300.0
"""Of the whole demo; what is not delivered by then counts as missing. A quiet machine needs half of it."""


class Referee(threading.Thread):
    """Feeds the pipeline once it runs, so that it meets the stated rates however slowly it started, and ends
    it, as Ctrl-C would, once everything has been delivered or time is up.
    """

    def __init__(self, folder: Path, feeder: Feeder, expected: dict[str, Rows]) -> None:
        super().__init__(daemon=True)
        self._work = folder / ".mooring"
        self._feeder = feeder
        self._expected = expected
        self._deadline = time.monotonic() + LIMIT_S
        self.over = threading.Event()

    def run(self) -> None:
        while not (self._work / "status.json").exists():
            if self.over.wait(0.5):
                return
        self._feeder.start()
        while not self._is_done() and time.monotonic() < self._deadline:
            if self.over.wait(2.0):
                return
        os.kill(os.getpid(), signal.SIGINT)

    def _is_done(self) -> bool:
        verdicts = compare(self._work / "storage", self._expected) if not self._feeder.is_alive() else []
        return bool(verdicts) and all(verdict.exact for verdict in verdicts)


def run_demo(
    folder: Path, policy: str, seconds: float, *, flooded: bool
) -> tuple[list[Verdict], tuple[bool, list[str]]]:
    """Feed, run and compare in `folder`, a copy of this one; a verdict per query, and on the flood."""
    traffic = demo_traffic(seconds, burst=FLOOD if flooded else None)
    expected = expected_rows(traffic)
    feeder = Feeder(traffic, folder / "landing")
    referee = Referee(folder, feeder, expected)
    mover = Mover(folder, feeder)
    referee.start()
    if flooded:
        mover.start()
    try:
        code = mooring(["run", str(folder), "--policy", policy, "--serve"])
    finally:
        feeder.halt()
        referee.over.set()
        mover.over.set()
    if code != 0:
        sys.exit(code)
    return compare(folder / ".mooring" / "storage", expected), mover.verdict() if flooded else (True, [])


def on_one_site(folder: Path) -> None:
    """Rewrite mooring.yml so that everything enters, runs and is delivered at one site."""
    file = folder / "mooring.yml"
    settings = yaml.safe_load(file.read_text())
    settings["sites"] = {"berlin": {"capacity": 2.0}}
    del settings["latency_ms"]
    for section in ("streams", "queries"):
        for fields in settings[section].values():
            fields["site"] = "berlin"
    file.write_text(yaml.safe_dump(settings))


def fresh_copy(folder: Path) -> Path:
    """In place of the copy of an earlier demo, and of nothing else."""
    if folder.exists():
        if not (folder / HERE.name).with_suffix(".demo").exists():
            sys.exit(f"{folder} is no copy of an earlier demo; name another folder with --output")
        shutil.rmtree(folder)
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__", ".mooring", "landing", "out"))
    (folder / HERE.name).with_suffix(".demo").touch()
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="rod")
    parser.add_argument("--seconds", type=float, default=600.0, help="of the trace (at most 600)")
    parser.add_argument("--calm", action="store_true", help="without the flood")
    parser.add_argument("--one-site", action="store_true", help="instead of three")
    parser.add_argument(
        "--output", type=Path, default=Path("out/network_monitoring"), help="the copy; one that exists goes"
    )
    arguments = parser.parse_args()
    began = time.monotonic()
    folder = fresh_copy(arguments.output.resolve())
    if arguments.one_site:
        on_one_site(folder)
    flooded = not arguments.calm and not arguments.one_site and arguments.seconds >= FLOOD.to_s
    verdicts, (answered, story) = run_demo(folder, arguments.policy, arguments.seconds, flooded=flooded)
    for verdict in verdicts:
        state = "equal to the truth" if verdict.exact else f"{verdict.missing} missing, {verdict.extra} wrong"
        sys.stdout.write(f"{verdict.query:16} {verdict.delivered:6} rows: {state}\n")
    for line in story:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{time.monotonic() - began:.0f} s in all\n")
    sys.stdout.write(f"open the report in a browser: {(folder / '.mooring' / 'report.html').as_uri()}\n")
    return 0 if answered and all(verdict.exact for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
