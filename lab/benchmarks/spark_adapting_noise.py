"""Does a run leave well alone? Half an hour with rates that only vary.

    python -m lab.benchmarks spark_adapting_noise[:MINUTES]

The pipeline of `spark_adapting` at the rates that it was placed for, each stream drawn anew every ten
seconds: a lognormal factor with a deviation of 15%. It runs with `--adapt headroom --act apply`, so every
move that the guards allow would be made. None should be.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from lab.benchmarks._adapting_run import RATES, adapting_run, busiest, step_us
from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.benchmarks.spark_adapting import WAYS, drained
from mooring.cli.output.result_table import ResultTable, Value

MINUTES = 30.0
EVERY_S = 10.0
DEVIATION = 0.15
TOLD_MIN = 5.0


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    seconds = 60.0 * (float(words[0]) if words else MINUTES)
    root, rng, rows = Path(tempfile.mkdtemp(prefix="mooring-noise-")), np.random.default_rng(0), []
    try:
        step = step_us(root)
        with adapting_run(root / "project", step, *WAYS["headroom"]) as made:
            while made.watcher.now_s < seconds:
                made.flood(dict(zip(RATES, rng.lognormal(0.0, DEVIATION, len(RATES)), strict=True)))
                time.sleep(EVERY_S)
            sights = list(made.watcher.sights)
            made.feeder.set_rates({})
            exact = drained(made)
        for begin_s in np.arange(0.0, seconds, 60.0 * TOLD_MIN):
            inside = [s for s in sights if begin_s <= s.at_s < begin_s + 60.0 * TOLD_MIN]
            known = [s.headroom for s in inside if s.headroom is not None]
            row: dict[str, Value] = {
                "from minute": round(begin_s / 60.0),
                "least headroom": min(known, default=None),
                "most headroom": max(known, default=None),
                "busiest site": f"{busiest(inside, begin_s, begin_s + 60.0 * TOLD_MIN):.0%}",
                "moves": inside[-1].moves - inside[0].moves,
            }
            rows.append(row)
        yield ResultTable.of(f"Five minutes at a time, of {seconds / 60.0:g}", rows)
        yield (
            f"{sights[-1].moves} moves were made. Every row that was fed {'is' if exact else 'is NOT'} in "
            "every table that should have it, once."
        )
    finally:
        shutil.rmtree(root, ignore_errors=True)


SPARK_ADAPTING_NOISE = Measurement(
    "spark_adapting_noise", "Half an hour of noise, and nothing is moved", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(SPARK_ADAPTING_NOISE, sys.argv[1:])
