"""What keeps a run going through faults, put together for `mooring run`."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from mooring.cli.input.parsing import settings
from mooring.cli.output.terminal import Terminal, plain
from mooring.controller.recovery import Incident, Recovery
from mooring.controller.replacement import replace_lost
from mooring.controller.supervision import Supervisor

if TYPE_CHECKING:
    from mooring.controller.journal import Journal
    from mooring.controller.proposal import Proposal
    from mooring.problem.problem import Problem
    from mooring.spark.running.engine import SparkEngine
    from mooring.spark.running.project_run import PreparedRun
    from mooring.spark.running.run_report import RunRecord
    from mooring.spark.running.snapshot import Snapshot

_MOST_INCIDENTS = 1000


@contextlib.contextmanager
def cared_for(
    args: argparse.Namespace,
    terminal: Terminal,
    prepared: PreparedRun,
    engine: SparkEngine,
    record: RunRecord,
    journal: Journal,
) -> Iterator[Supervisor]:
    """A supervisor over everything that runs now; it stops caring when the block ends."""
    from mooring.run import plan
    from mooring.spark.running.project_run import fragment_sites
    from mooring.spark.sites.site_revival import SiteRevival

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

    revival = SiteRevival(prepared.sites)
    recovery = Recovery(engine.homes(), choose, tell=tell)

    def changed() -> None:
        prepared.files.note_sessions(list(engine.running.values()), prepared.sites)
        record.placement = prepared.operator_sites(recovery.placement)
        journal.note_placement(recovery.placement, "started again after a fault")
        for site in prepared.sites.values():
            site.hold_to_capacity()

    def noticed() -> None:
        prepared.files.amend_status(engine.homes(), supervisor.troubles())

    supervisor = Supervisor(
        engine,
        recovery,
        revival,
        changed=changed,
        noticed=noticed,
        is_moving=lambda fragment: fragment in engine.moving,
    )
    try:
        yield supervisor
    finally:
        revival.close()


def proposals(prepared: PreparedRun, terminal: Terminal) -> Callable[[Snapshot], dict[str, object]]:
    """For the status file: the rates measured now, and the moves they call for; new ones are also told."""
    from mooring.controller.proposal import propose
    from mooring.load.build import build_load_model

    problem, model = prepared.problem, build_load_model(prepared.problem)
    told: list[object] = [()]

    def tell(proposal: Proposal) -> None:
        steps = [(move.fragment, move.to_site) for move in proposal.moves]
        if steps and steps != told[-1]:
            what = ", ".join(f"{move.fragment} to {move.to_site}" for move in proposal.moves)
            terminal.print(
                escape(
                    f"the headroom at the measured rates is x {proposal.headroom:.2f}, at "
                    f"{proposal.bottleneck}; moving {what} makes it x {proposal.moves[-1].headroom:.2f}: "
                    f"mooring moves {prepared.project.folder} --apply"
                )
            )
        told[-1] = steps

    def remarks(snapshot: Snapshot) -> dict[str, object]:
        rates = prepared.layout.stream_rates(snapshot.rows_in_per_s())
        whole = set(snapshot.fragments) == set(problem.fragment_names) and not snapshot.troubles
        if not whole or set(rates) != set(problem.stream_index):
            return {"stream_rates": rates, "proposal": None}
        sites = [problem.site_index[snapshot.fragments[name].site] for name in problem.fragment_names]
        measured = np.array([rates[stream.name] for stream in problem.streams])
        proposal = propose(problem, model, np.array(sites), measured)
        tell(proposal)
        return {"stream_rates": rates, "proposal": plain(proposal.as_json())}

    return remarks
