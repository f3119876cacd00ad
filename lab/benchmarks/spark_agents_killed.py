"""Optimisers at the sites decide, and somebody is killed at every step of it: does each fragment run once?

    python -m lab.benchmarks spark_agents_killed[:proposed|:accepted|:stopping|:starting|:done]

Three embedded sites with an agent each, `--adapt relaxation --act apply`. The fragment `even` belongs at a,
where its stream and its query are. In every case it is moved to c by hand, the optimiser of c finds out and
proposes to move it back, and when that has come so far as the case wants, one process gets kill -9: the agent
that proposed, the site that the fragment leaves, the one it goes to, or the runner, which is then started
again. The steps: the proposal is in the agent's durable state; the mover has it among those accepted; the
journal says that the target is prepared, so that the source is about to be stopped; the journal says that the
source is fenced off, so that the target is about to be started; the mover has said `Done`.

A case is over when every fragment runs, `even` at a, nothing is wrong and no site holds room or waits for an
answer. Rows come in all the time. Then they are held back until the table has what it should: every even
number that was fed, once.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.benchmarks._agents_run import FAULTS, STEPS, AgentsRun, Fault, Step, wait_quick
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from mooring.cli.output.result_table import ResultTable, Value

PATIENCE_S = 240.0


def case(made: AgentsRun, step: Step, fault: Fault) -> dict[str, Value]:
    """One kill; what came of it."""
    came, kill = made.watch(step), made.kill(fault)
    asking = made.move_away()
    try:
        reached = wait_quick(came, PATIENCE_S)
        kill()
        killed_s = time.monotonic()
        if fault == "runner":
            made.run.wait(lambda: not made.run.processes(), "the killed runner's sites to end")
            made.run.forget_status()
            made.start()
    finally:
        asking.kill()
        asking.wait()
    calm = settled(made)
    calm_s = time.monotonic() - killed_s
    with made.numbers.held:
        exact = wait_quick(made.rows_are_true, PATIENCE_S)
    return {
        "killed at": step,
        "killed": fault,
        "step reached": reached,
        "all as it should be": calm,
        "after, s": round(calm_s),
        "rows": made.numbers.fed // 2,
        "each row once": exact,
    }


def settled(made: AgentsRun) -> bool:
    """At three looks in a row, so that what is about to be started is not taken for what runs."""
    deadline, in_a_row = time.monotonic() + PATIENCE_S, 0
    while in_a_row < 3:
        if time.monotonic() > deadline:
            return False
        in_a_row = in_a_row + 1 if made.calm() else 0
        time.sleep(1.0)
    return True


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    chosen = chosen_parts(words, STEPS)
    root, rows = Path(tempfile.mkdtemp(prefix="mooring-agents-")), list[dict[str, Value]]()
    made = AgentsRun(root / "project")
    made.numbers.start()
    try:
        made.start()
        if not settled(made):
            raise RuntimeError(f"it never came to rest\n{made.run.log_end()}")
        for step in (each for each in STEPS if each in chosen):
            for fault in FAULTS:
                rows.append(case(made, step, fault))
                print(rows[-1], file=sys.stderr, flush=True)
        yield ResultTable.of("Each step of a move, and who was killed then", rows)
        good = sum(bool(row["all as it should be"] and row["each row once"]) for row in rows)
        yield f"In {good} of {len(rows)} cases every fragment ran in the end, once, with every row once."
    finally:
        made.numbers.halt()
        made.run.stop()
        shutil.rmtree(root, ignore_errors=True)


SPARK_AGENTS_KILLED = Measurement(
    "spark_agents_killed",
    "Sites decide, and agents, sites and the runner are killed at every step of a move",
    prose_of(__doc__),
    measure,
)

if __name__ == "__main__":
    carry_out(SPARK_AGENTS_KILLED, sys.argv[1:])
