"""What keeps a run going through faults, put together for `mooring run`."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.markup import escape

from mooring.cli.parsing import settings
from mooring.cli.terminal import Terminal
from mooring.controller.recovery import Incident, Recovery
from mooring.controller.replacement import replace_lost
from mooring.controller.supervision import Supervisor

if TYPE_CHECKING:
    from mooring.problem.problem import Problem
    from mooring.spark.engine import SparkEngine
    from mooring.spark.project_run import PreparedRun
    from mooring.spark.run_report import RunRecord

_MOST_INCIDENTS = 1000


@contextlib.contextmanager
def cared_for(
    args: argparse.Namespace,
    terminal: Terminal,
    prepared: PreparedRun,
    engine: SparkEngine,
    record: RunRecord,
) -> Iterator[Supervisor]:
    """A supervisor over everything that runs now; it stops caring when the block ends."""
    from mooring.run import plan
    from mooring.spark.project_run import fragment_sites
    from mooring.spark.site_revival import SiteRevival

    began = time.monotonic() - (time.time() - engine.began_s)
    policy = args.policy or prepared.project.settings.policy

    def by_policy(reduced: Problem) -> Mapping[str, str]:
        made = plan(reduced, policy, seed=args.seed, settings=settings(args.set))
        return fragment_sites(reduced, made.placement.as_dict())

    def choose(sites: Mapping[str, str], lost: Collection[str]) -> Mapping[str, str]:
        return replace_lost(prepared.problem, sites, lost, by_policy)

    def tell(incident: Incident) -> None:
        line = f"{incident.at_s - began:6.0f} s  {incident.what}"
        record.incidents = [*record.incidents, line][-_MOST_INCIDENTS:]
        terminal.print(escape(line))

    def changed() -> None:
        prepared.files.note_sessions(list(engine.running.values()), prepared.sites)
        record.placement = prepared.operator_sites({n: f.site for n, f in engine.running.items()})
        for site in prepared.sites.values():
            site.hold_to_capacity()

    running = {name: fragment.site for name, fragment in engine.running.items()}
    revival = SiteRevival(prepared.sites)
    try:
        yield Supervisor(
            engine,
            Recovery(running, choose, tell=tell),
            revival,
            changed=changed,
            is_moving=lambda fragment: fragment in engine.moving,
        )
    finally:
        revival.close()
