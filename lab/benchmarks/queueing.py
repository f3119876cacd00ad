"""The data-plane simulator beside queueing theory.

    python -m lab.benchmarks queueing

Each queue with a known answer is run with 16 seeds; the interval of the mean (99.9%, Student's t) has to
contain the theory's value. Waits in G/G/1 queues are held against Allen and Cunneen's approximation and
against that of Kraemer and Langenbach-Belz; services take one second on average.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from lab.benchmarks._record import Measurement, carry_out, prose_of
from lab.oracles.known_queues import Approximation, TheoryCase, approximations, cases, run_case
from mooring.cli.output.result_table import ResultTable
from mooring.model.load.queueing import allen_cunneen_wait_s


def measure(words: Sequence[str]) -> Iterator[ResultTable]:
    yield ResultTable.of("Queues with known answers, mean sojourn in s", [_known(case) for case in cases()])
    yield ResultTable.of("Waits in G/G/1 queues, in s", [_approximate(case) for case in approximations()])


def _known(case: TheoryCase) -> dict[str, str | float]:
    found = run_case(case)
    return {
        "queue": case.name,
        "theory": case.theory,
        "simulated": found.mean,
        "half_width": found.half_width,
        "holds": "yes" if found.contains(case.theory) else "no",
    }


def _approximate(case: Approximation) -> dict[str, str | float]:
    plain = float(allen_cunneen_wait_s(case.rho, 1.0, case.arrival_scv, case.service_scv))
    return {
        "load": case.rho,
        "arrivals_scv": case.arrival_scv,
        "services_scv": case.service_scv,
        "simulated": case.simulated_s,
        "corrected": case.approximate_s,
        "corrected_off": case.error,
        "plain": plain,
        "plain_off": abs(plain / case.simulated_s - 1),
    }


QUEUEING = Measurement(
    "queueing", "The data-plane simulator beside queueing theory", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(QUEUEING, sys.argv[1:])
