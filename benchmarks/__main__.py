"""`make bench`: every benchmark in turn, what it prints kept in out/bench/NAME.txt.

python -m benchmarks [NAME ...]     without names: all but those on Spark, which take many minutes
python -m benchmarks NAME:PART,PART  some parts of a benchmark that has them
python -m benchmarks --list
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
OUTPUT = Path("out/bench")


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        print("\n".join(names()))
        return 0
    unknown = [name for name in arguments if name.partition(":")[0] not in names()]
    if unknown:
        print(f"found {unknown[0]!r}, expected one of {', '.join(names())}", file=sys.stderr)
        return 2
    OUTPUT.mkdir(parents=True, exist_ok=True)
    failed = 0
    for argument in arguments or [name for name in names() if not name.startswith("spark_")]:
        print(f"== {argument}", flush=True)
        name, _, parts = argument.partition(":")
        # A process each, so that no benchmark warms or slows the next.
        run = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *filter(None, parts.split(","))],
            capture_output=True,
            text=True,
            check=False,
        )
        (OUTPUT / f"{name}.txt").write_text(run.stdout)
        print(run.stdout, run.stderr if run.returncode else "", flush=True)
        failed |= run.returncode
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
