"""How good plans are for the time they take: `python -m lab.benchmarks resilient` (about twenty minutes).

    python -m lab.benchmarks resilient:PART,PART    some parts only

The first parts hold what the policy has to show against its figures; the last three are tables: every
policy's quality against its time, growth with operators, sites and streams, and an exact solver (HiGHS) that
minimises a linear surrogate, the sum over the streams of the largest weight any site has. Ratios are within
this run and budgets in CPU time, so that a busy machine shifts both sides alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from lab.benchmarks import _resilient_claims as claims
from lab.benchmarks import _resilient_scale as scale
from lab.benchmarks import _resilient_tables as tables
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.benchmarks._resilient_cases import Row
from mooring.cli.output.result_table import ResultTable

PARTS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "two_sites": ("Two sites, against the optimum", claims.two_sites),
    "ten_sites": ("Ten sites, trees grown breadth first", claims.ten_sites),
    "ten_sites_random_order": ("Ten sites, trees grown at random", claims.ten_sites_random_order),
    "errors": ("Statistics with errors, 100 operators", claims.errors),
    "communication": ("Communication at 25% of processing", claims.communication),
    "joins": ("Window joins", claims.joins),
    "large": ("10,000 operators on 100 sites", scale.large),
    "max_moves": ("Twenty moves after a stream doubled", scale.max_moves),
    "quality": ("Quality against time", tables.quality_against_time),
    "growth": ("Growth (300,000 steps)", tables.growth),
    "solver": ("Beside HiGHS on a linear surrogate", tables.beside_a_solver),
}


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    for part in chosen_parts(words, PARTS):
        title, rows = PARTS[part]
        yield ResultTable.of(title, rows())


RESILIENT = Measurement(
    "resilient",
    "How good plans are for the time they take",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(RESILIENT, sys.argv[1:])
