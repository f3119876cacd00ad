"""A problem that adapts while it runs: optimisers propose, the simulator carries the tuples, and measures.

The control plane (the optimisers of all sites and the mover, under the harness) and the data plane (the
simulated engine) advance together. What the mover accepts is moved in the second, with its pause and its
state, and the mover is told; what the engine sees flowing goes to the optimisers. Guards are not part of it:
everything is accepted that is made from how things are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lab.faults.checkers import Checker, Step, WorldView
from lab.faults.faults import Fault
from lab.faults.harness import Harness
from lab.faults.runner_model import JudgedMover
from lab.faults.scenario import Scenario
from mooring.algorithms.relaxation.machines.fragment_specs import fragment_specs
from mooring.algorithms.relaxation.machines.messages import MeasuredFlows
from mooring.algorithms.relaxation.machines.optimiser import optimiser_machines
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.contracts.engine import carry_out
from mooring.contracts.site_machine import Output, SiteMachine
from mooring.coordination.move_messages import StartedAt, Whereabouts, mover_of
from mooring.coordination.mover import CarriedOut, CarryOut
from mooring.errors import UnsupportedError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.placement.placement import Placement
from mooring.model.problem.latencies import as_matrix
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.engine import SimulatedEngine

JUDGE_EVERY_MS = 500.0
_MOVER_MS = 1.0
"""From the mover to any site: it is where nothing else is."""


@dataclass(frozen=True)
class Migration:
    at_s: float
    fragment: str
    from_site: str
    to_site: str
    pause_s: float


class Orders:
    """Listens to what the mover wants carried out."""

    name = "orders are heard"

    def __init__(self) -> None:
        self.waiting: list[CarryOut] = []

    def after_step(self, step: Step, world: WorldView) -> str | None:
        for effect in step.effects:
            if isinstance(effect, Output) and isinstance(effect.value, CarryOut):
                self.waiting.append(effect.value)
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


class AdaptiveRun:
    """Step it with `run`; `migrations` says what moved."""

    def __init__(
        self,
        start: Placement,
        arrivals: Sequence[Arrivals],
        *,
        horizon_s: float,
        seed: int = 0,
        params: OptimiserParams | None = None,
        times: MoveTimes | None = None,
        faults: tuple[Fault, ...] = (),
        checkers: Sequence[Checker] = (),
        measure_every_s: float = 2.0,
    ) -> None:
        problem = start.problem
        if problem.network.latency_ms is None:
            raise UnsupportedError("the problem states no latency_ms between its sites", field="latency_ms")
        self.problem, self.migrations = problem, list[Migration]()
        self._measure_every_s, self._measured_s = measure_every_s, 0.0
        self._orders = Orders()
        latency_ms = np.pad(as_matrix(problem.network.latency_ms), (0, 1), constant_values=_MOVER_MS)
        scenario = Scenario(seed, tuple(map(tuple, latency_ms.tolist())), horizon_s * 1e3, faults)
        specs, capacity = fragment_specs(problem), problem.capacity_cores.tolist()
        make_site = optimiser_machines(lambda sites: (specs, capacity), params)

        def make(site: int, count: int, generator: np.random.Generator) -> SiteMachine:
            if site < count - 1:
                return make_site(site, count - 1, generator)
            return JudgedMover(count - 1, lambda proposed: None, JUDGE_EVERY_MS)

        self.control = Harness(scenario, make, (self._orders, *checkers), recorded=False, most_steps=10**8)
        self.engine = SimulatedEngine(
            problem, arrivals, np.random.default_rng(seed), horizon_s=horizon_s, times=times
        )
        carry_out(self.engine, start)
        self._places = [StartedAt(f, int(site), 0) for f, site in enumerate(start.site_of_fragment)]
        self._tell(Whereabouts(tuple(self._places), whole=True))

    def run(self, until_s: float, step_s: float = 0.25) -> None:
        """Let both planes advance; raises nothing when an invariant breaks: look at `control.violation`."""
        while self.engine.simulation.now_s < until_s - 1e-9 and self.control.violation is None:
            now_s = min(self.engine.simulation.now_s + step_s, until_s)
            self.control.run_until(now_s * 1e3)
            self._carry_out()
            self.engine.run(now_s)
            if now_s - self._measured_s >= self._measure_every_s:
                self._report_measurements()
                self._measured_s = now_s

    def _tell(self, what: Whereabouts | CarriedOut) -> None:
        self.control.ask(mover_of(len(self.problem.sites)), what)

    def _carry_out(self) -> None:
        orders, self._orders.waiting = self._orders.waiting, []
        names, sites = self.problem.fragment_names, self.problem.sites
        for move in [m for order in orders for proposed in order.proposals for m in proposed.plan.moves]:
            report = self.engine.move(names[move.fragment], sites[move.to_site].name)
            now_s = self.engine.simulation.now_s
            self.migrations.append(
                Migration(now_s, report.fragment, report.from_site, report.to_site, report.pause_s)
            )
            place = StartedAt(move.fragment, move.to_site, move.epoch + 1)
            self._places[move.fragment] = place
            self._tell(Whereabouts((place,)))
        if orders:
            self._tell(CarriedOut())

    def _report_measurements(self) -> None:
        """Flows as they are at the rates that were seen."""
        seen = self.engine.measure().stream_rates
        rates = [seen[stream.name] for stream in self.problem.streams]
        for spec in fragment_specs(self.problem.with_rates(np.array(rates))):
            flows = MeasuredFlows(spec.fragment, tuple(link.rate for link in spec.links))
            self.control.ask(self._places[spec.fragment].site, flows)
