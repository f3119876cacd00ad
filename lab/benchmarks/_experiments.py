"""Experiments at their full size as measurements: `python -m lab.benchmarks rod_figure14 --record`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from lab.benchmarks._record import Measurement, carry_out
from lab.experiments.experiment import Experiment
from lab.experiments.registry import find_experiment
from lab.experiments.summary import summarise
from mooring.cli.output.result_table import ResultTable

SEED = 0


def measurement_of(experiment: Experiment) -> Measurement:
    def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
        rows = experiment.run(seed=SEED, quick=False, report=_report)
        for summary in experiment.summaries:
            yield summarise(summary, rows)
        yield from experiment.conclude(rows) if experiment.conclude else []

    return Measurement(experiment.name, experiment.title, about(experiment), measure)


def about(experiment: Experiment) -> str:
    """Where it comes from, how to see more, and what the columns mean."""
    headings = {
        name: name for summary in experiment.summaries for name in (*summary.by, summary.across) if name
    }
    for shown in (shown for summary in experiment.summaries for shown in summary.shown):
        headings.setdefault(shown.column, shown.heading or shown.column)
    origin = f"{experiment.source[0].upper()}{experiment.source[1:]}."
    more = f"`mooring experiment {experiment.name}` prints the same, and writes all rows and a figure."
    meanings = [
        f"- {headings[n].replace('_', ' ')}: {meaning}"
        for n, meaning in experiment.columns.items()
        if n in headings and meaning != n
    ]
    return "\n".join([origin, experiment.setting, more, "", *meanings])


def _report(done: float, what: str) -> None:
    print(f"{done:4.0%} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    carry_out(measurement_of(find_experiment(name)), words)
