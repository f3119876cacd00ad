"""A problem that adapts while it runs: optimisers decide, the simulator carries the tuples, and measures.

The control plane (the optimisers of all sites under the harness) and the data plane (the simulated engine)
advance together. Whenever an operator has moved in the first, its fragment is moved in the second, with its
pause and its state; what the engine sees flowing goes back to the optimisers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.deployment.carry_out import carry_out
from mooring.deployment.move_times import MoveTimes
from mooring.errors import UnsupportedError
from mooring.load.build import build_load_model
from mooring.load.rates import output_rates
from mooring.placement.links import Link, problem_links
from mooring.placement.placement import Placement
from mooring.protocols.optimiser import optimiser_machines
from mooring.protocols.optimiser_messages import Hosted, MeasuredFlows, OperatorLink
from mooring.protocols.optimiser_params import OptimiserParams
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.engine import SimulatedEngine
from mooring.simulator.harness.checkers import Checker
from mooring.simulator.harness.faults import Fault
from mooring.simulator.harness.harness import Harness
from mooring.simulator.harness.scenario import Scenario


@dataclass(frozen=True)
class Migration:
    at_s: float
    fragment: str
    from_site: str
    to_site: str
    pause_s: float


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
        model = build_load_model(problem)
        self._links = problem_links(problem, model.pinned_site)
        self._expected = output_rates(problem, None)
        cores = np.asarray(model.coefficients @ model.present).ravel() + model.fixed_cores
        hosted = self._layout(start, model.pinned_site, cores)
        latency = tuple(map(tuple, problem.network.latency_ms.tolist()))
        scenario = Scenario(seed, latency, horizon_s * 1e3, faults)
        capacity = problem.capacity_cores.tolist()
        machines = optimiser_machines(lambda sites: (hosted, capacity), params)
        self.control = Harness(scenario, machines, checkers, recorded=False, most_steps=10**8)
        self.engine = SimulatedEngine(
            problem, arrivals, np.random.default_rng(seed), horizon_s=horizon_s, times=times
        )
        carry_out(self.engine, start)
        self._site_of = start.site_of_fragment.copy()

    def run(self, until_s: float, step_s: float = 0.25) -> None:
        """Let both planes advance; raises nothing when an invariant breaks: look at `control.violation`."""
        while self.engine.simulation.now_s < until_s - 1e-9 and self.control.violation is None:
            now_s = min(self.engine.simulation.now_s + step_s, until_s)
            self.control.run_until(now_s * 1e3)
            self._carry_out_moves()
            self.engine.run(now_s)
            if now_s - self._measured_s >= self._measure_every_s:
                self._report_measurements()
                self._measured_s = now_s

    def _layout(
        self,
        start: Placement,
        pinned: Ints,
        cores: Floats,
    ) -> list[list[Hosted]]:
        problem = self.problem
        coordinator = self._coordinators()
        hosted: list[list[Hosted]] = [[] for _ in problem.sites]
        for fragment, members in enumerate(problem.fragments):
            movable = pinned[fragment] < 0 and all(problem.operators[j].movable for j in members)
            links = tuple(
                OperatorLink(*((other, -1) if other >= 0 else (-1, ~other)), link.rate)
                for link, other in self._links_of(fragment)
            )
            site = int(start.site_of_fragment[fragment])
            hosted[site].append(
                Hosted(fragment, 0, coordinator[fragment], float(cores[fragment]), links, movable)
            )
        return hosted

    def _links_of(self, fragment: int) -> list[tuple[Link, int]]:
        """The flows of a fragment, each with its other end."""
        return [
            (link, link.target if link.source == fragment else link.source)
            for link in self._links
            if fragment in (link.source, link.target)
        ]

    def _coordinators(self) -> list[int]:
        """Per fragment: one site for each group of fragments that flows connect, that of its first query."""
        group = list(range(len(self.problem.fragments)))
        home: dict[int, int] = {}

        def root(fragment: int) -> int:
            while group[fragment] != fragment:
                fragment = group[fragment]
            return fragment

        for link in self._links:
            if link.source >= 0 and link.target >= 0:
                group[root(link.source)] = root(link.target)
        for link in self._links:
            if link.source >= 0 > link.target:
                home.setdefault(root(link.source), ~link.target)
        return [home.get(root(fragment), 0) for fragment in range(len(group))]

    def _carry_out_moves(self) -> None:
        names = self.problem.fragment_names
        for site in range(len(self.problem.sites)):
            machine = self.control.machine(site)
            for each in machine.running if machine is not None else ():
                if self._site_of[each.operator] != site:
                    self._site_of[each.operator] = site
                    report = self.engine.move(names[each.operator], self.problem.sites[site].name)
                    self.migrations.append(
                        Migration(
                            self.engine.simulation.now_s,
                            report.fragment,
                            report.from_site,
                            report.to_site,
                            report.pause_s,
                        )
                    )

    def _report_measurements(self) -> None:
        """Flows by what was seen: a link's rate scales with its producer's output."""
        problem, seen = self.problem, self.engine.measure()
        streams, owner = len(problem.streams), {j: f for f, own in enumerate(problem.fragments) for j in own}

        def ratio(node: int) -> float:
            if node < streams:
                return float(seen.stream_rates[problem.streams[node].name] / max(self._expected[node], 1e-12))
            fragment = owner[node - streams]
            readers = problem.graph.readers[streams:]
            last = [
                j
                for j in problem.fragments[fragment]
                if not set(readers[j]) & set(problem.fragments[fragment])
            ]
            expected = sum(self._expected[streams + j] for j in last)
            return float(seen.fragments[problem.fragment_names[fragment]].output_rate / max(expected, 1e-12))

        for fragment, site in enumerate(self._site_of.tolist()):
            rates = tuple(float(link.rate * ratio(link.node)) for link, _ in self._links_of(fragment))
            self.control.ask(int(site), MeasuredFlows(fragment, rates))
