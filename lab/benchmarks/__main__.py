"""`make bench`: every benchmark in turn, what it prints kept in out/bench/NAME.txt.

python -m lab.benchmarks [NAME ...]          without names: all but those on Spark, which take many minutes
python -m lab.benchmarks NAME:PART,PART      some parts of a benchmark that has them
python -m lab.benchmarks NAME ... --record
    also written to docs/results/NAME.md, with commit, date and machine
python -m lab.benchmarks --list

A name may also be that of an experiment, which then runs at its full size.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lab.benchmarks._record import RECORD
from lab.experiments.registry import EXPERIMENTS

FOLDER = Path(__file__).parent
OUTPUT = Path("out/bench")
NO_BENCHMARKS = ("recorded_outputs",)
"""Modules here that measure nothing."""


def names() -> list[str]:
    """Of the benchmarks."""
    found = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
    return [name for name in found if name not in NO_BENCHMARKS]


def command_of(argument: str) -> list[str]:
    """The process that measures NAME or NAME:PART,PART."""
    name, _, parts = argument.partition(":")
    module = [f"lab.benchmarks.{name}"] if name in names() else ["lab.benchmarks._experiments", name]
    return [sys.executable, "-m", *module, *filter(None, parts.split(","))]


def main(arguments: list[str]) -> int:
    known = [*names(), *EXPERIMENTS]
    if arguments == ["--list"]:
        print("\n".join(known))
        return 0
    options = [RECORD] if RECORD in arguments else []
    chosen = [argument for argument in arguments if argument != RECORD]
    unknown = [name for name in chosen if name.partition(":")[0] not in known]
    if unknown:
        print(f"found {unknown[0]!r}, expected one of {', '.join(known)}", file=sys.stderr)
        return 2
    OUTPUT.mkdir(parents=True, exist_ok=True)
    failed = False
    for argument in chosen or [name for name in names() if not name.startswith("spark_")]:
        print(f"== {argument}", flush=True)
        code = _run([*command_of(argument), *options], OUTPUT / f"{argument.partition(':')[0]}.txt")
        failed = failed or code != 0
    return int(failed)


def _run(command: list[str], output: Path) -> int:
    """In a process of its own, so that no benchmark warms or slows the next."""
    with output.open("w") as file, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            file.write(line)
            print(line, end="", flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
