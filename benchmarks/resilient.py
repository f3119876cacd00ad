"""How good plans are for the time they take: `python -m benchmarks resilient` (about twenty minutes).

`python -m benchmarks resilient:PART,PART` for some parts only. The first parts hold what the policy has to
show against its figures; the last three are tables: every policy's quality against its time, growth with
operators, sites and streams, and an exact solver (HiGHS) that minimises a linear surrogate, the sum over the
streams of the largest weight any site has. Ratios are within this run and budgets in CPU time, so that a busy
machine shifts both sides alike. Written to out/bench/resilient.json too; parts not run keep their last rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import _resilient_claims as claims
from benchmarks import _resilient_scale as scale
from benchmarks import _resilient_tables as tables
from benchmarks._resilient_cases import Row

OUTPUT = Path("out/bench/resilient.json")
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


def show(title: str, rows: list[Row]) -> None:
    print(title)
    names = list(dict.fromkeys(name for row in rows for name in row))
    widths = [max(len(name), *(len(str(row.get(name, ""))) for row in rows)) for name in names]
    for cells in (names, *([str(row.get(name, "")) for name in names] for row in rows)):
        print("  ".join(str(cell).rjust(width) for cell, width in zip(cells, widths, strict=True)))
    print(flush=True)


def main(parts: list[str]) -> int:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"found {unknown[0]!r}, expected one of {', '.join(PARTS)}", file=sys.stderr)
        return 2
    results = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    for part in parts or list(PARTS):
        title, measure = PARTS[part]
        results[part] = measure()
        show(title, results[part])
        OUTPUT.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
