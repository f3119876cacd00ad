"""Whole agents of overlays under faults: gossip, directory, rounds of plans, leases, from durable state.

    python -m lab.benchmarks overlay_agent_faults       # or overlay_agent_faults:drawn, run, planted
    python -m lab.benchmarks.overlay_agent_faults drawn --schedules 200 --seed 7

Every site runs the agent that ships, behind the door through which a host lets messages in, and comes back
from what it kept as bytes. It has to ask for the operators, measure, and make plans with others before there
is any lease. Schedules have crashes of sites and of the mover, also inside what follows from one event,
pauses, partitions, losses, duplicates and delays, links that become slow, sites with less to give, late
queries and changing rates; in every fourth a site is gone for good. After each step what must hold of leases
is checked; in the end, that plans were made for where things are, and that whatever is late or too full was
planned for or given up. Drawn: with a mover that carries out as many plans at once as it is asked for; some
fail halfway. Run: with the mover that ships, in a run with engines, a fence, recovery and moves by hand.
Planted: bugs on purpose, the schedules until each is found, and what is left of the one that shows it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pool

from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.faults.exploration import explore
from lab.overlay_faults.invariants import agent_checkers, agent_run_checkers
from lab.overlay_faults.planted import AGENT_BUGS, planted_in_agents
from lab.overlay_faults.world import AgentRunSubject, AgentSubject, agent, agent_scenarios, draw_run
from mooring.cli.output.result_table import ResultTable

FIRST_SEED, SCHEDULES = 10_000, 2_000
"""Beyond those of the tests."""
CHUNK, WORKERS = 20, 2
MOST_UNTIL_FOUND = 500
SUBJECTS = {
    "drawn": (AgentSubject(agent, agent_checkers), agent_scenarios()),
    "run": (AgentRunSubject(agent, agent_run_checkers), agent_scenarios(draw_run)),
}
TITLES = {
    "drawn": "Drawn schedules, a mover of many plans at once",
    "run": "Drawn schedules, the mover in a run",
}


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parser = argparse.ArgumentParser(prog="overlay_agent_faults")
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--schedules", type=int, default=SCHEDULES)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    given = parser.parse_args(words)
    seeds = range(given.seed, given.seed + given.schedules)
    parts: dict[str, Callable[[], Iterator[ResultTable | str]]] = {
        "drawn": lambda: drawn("drawn", seeds),
        "run": lambda: drawn("run", seeds),
        "planted": lambda: planted(range(given.seed, given.seed + MOST_UNTIL_FOUND)),
    }
    for part in chosen_parts(given.parts, parts):
        yield from parts[part]()


def explored(job: tuple[str, range]) -> tuple[int, int, float, str]:
    """Schedules, steps, CPU seconds, and the finding if there is one."""
    (subject, draw), start_s = SUBJECTS[job[0]], time.process_time()
    found = explore(subject, draw, job[1], most_shrinking_runs=100)
    finding = "" if found.finding is None else str(found.finding)
    return found.scenarios, found.steps, time.process_time() - start_s, finding


def drawn(part: str, seeds: range) -> Iterator[ResultTable | str]:
    with Pool(WORKERS) as pool:
        jobs = [(part, seeds[at : at + CHUNK]) for at in range(0, len(seeds), CHUNK)]
        found = pool.map(explored, jobs, chunksize=1)
    schedules, steps, cpu_s, findings = zip(*found, strict=True)
    broken = [finding for finding in findings if finding]
    row: dict[str, str | float] = {
        "schedules": sum(schedules),
        "steps": sum(steps),
        "broken": len(broken),
        "cpu_s": sum(cpu_s),
    }
    yield ResultTable.of(TITLES[part], [row])
    yield from broken


def planted(seeds: range) -> Iterator[ResultTable]:
    rows: list[dict[str, str | float]] = []
    for bug, _ in AGENT_BUGS:
        found = explore(planted_in_agents(bug), agent_scenarios(), seeds, most_shrinking_runs=100)
        row: dict[str, str | float] = {"bug": bug.__name__, "schedules": found.scenarios, "broken": "nothing"}
        if (finding := found.finding) is not None:
            small = finding.shrunken
            row["broken"] = finding.violation.checker
            row["faults_and_requests"] = len(finding.drawn.faults) + len(finding.drawn.requests)
            row["shrunken_to"] = len(small.faults) + len(small.requests)
        rows.append(row)
    yield ResultTable.of("Planted bugs", rows)


OVERLAY_AGENT_FAULTS = Measurement(
    "overlay_agent_faults", "Whole agents of overlays under faults", prose_of(__doc__), measure
)

if __name__ == "__main__":
    carry_out(OVERLAY_AGENT_FAULTS, sys.argv[1:])
