"""The simulator as an engine: the calls that drive Spark, in virtual time.

A fragment that is not running holds its operators: what arrives waits in their channels. A move holds them,
changes where they are, and lets them run again after the pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mooring.arrays import Floats
from mooring.contracts.engine import FragmentReport, Measurement, MoveReport, QueryReport, SiteReport, Trouble
from mooring.errors import EngineError, InputError, MooringError, SiteLostError
from mooring.model.deployment.channels import Channel
from mooring.model.deployment.move_stages import STAGES, Reached, Stages, ignored
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.simulator.data_plane.arrivals import Arrivals
from mooring.simulator.data_plane.binding import Behaviour, Binding
from mooring.simulator.data_plane.overload import Limits, Overload
from mooring.simulator.data_plane.simulation import Simulation


@dataclass(frozen=True)
class Counters:
    """What a simulation has counted up to one instant; a measurement is the difference of two."""

    at_s: float
    totals: Mapping[str, Floats]
    lengths: Floats
    recent_max: Floats

    @classmethod
    def of(cls, simulation: Simulation) -> Counters:
        world = simulation.world
        return cls(
            at_s=simulation.now_s,
            totals={
                "busy": simulation.utilisation() * simulation.counted_s,
                "taken": world.operators["taken"].copy(),
                "given": world.operators["given"].copy(),
                "work": world.operators["work"].copy(),
                "emitted": world.sources["emitted"].copy(),
                "count": world.queries["count"].copy(),
                "latency": world.queries["sum"].copy(),
            },
            lengths=world.sites["length"].copy(),
            recent_max=world.queries["recent_max"].copy(),
        )

    def query_report(self, query: int, rate: Mapping[str, Floats]) -> QueryReport:
        """What a query received, given everything per second since the counters before."""
        count = float(rate["count"][query])
        if count == 0:
            return QueryReport(0.0, None, None)
        mean_s, longest_s = float(rate["latency"][query]) / count, float(self.recent_max[query])
        return QueryReport(count, 1e3 * mean_s, 1e3 * longest_s)


class SimulatedEngine:
    """An engine that can be stepped: `run(until_s)` lets virtual time pass between the calls.

    A site can be lost (`lose_site`): what ran there stands still, as if its machine were gone, until it is
    forgotten and started elsewhere, or the site is given back.
    """

    def __init__(
        self,
        problem: Problem,
        arrivals: Sequence[Arrivals],
        rng: np.random.Generator,
        *,
        horizon_s: float,
        bins: int = 120,
        batch: int = 1,
        behaviour: Behaviour | None = None,
        limits: Limits | None = None,
        times: MoveTimes | None = None,
        stand_ins: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`stand_ins`: operators that others may be read instead of, over spare channels (`Binding`)."""
        if len(arrivals) != len(problem.streams):
            raise InputError(f"{len(arrivals)} arrival processes for {len(problem.streams)} streams")
        self.problem = problem
        self.binding = Binding(problem, behaviour, stand_ins)
        self.times = times or MoveTimes()
        self._sites = [0] * len(problem.operators)  # where each operator is
        self._fragments = dict(zip(problem.fragment_names, problem.fragments, strict=True))
        self._running: dict[str, str] = {}  # fragment -> site
        self._starts: Counter[str] = Counter()  # the fence: every start of a fragment has the next number
        self._lost: dict[str, str] = {}  # site -> why
        self._capacity = problem.capacity_cores  # nominal
        self._fixed_cores = np.zeros(len(problem.sites))  # of the fragments that run there
        self._changes = sorted(self.binding.behaviour.capacity_changes)
        self._spare = {Channel(*channel) for channel in self.binding.spare_closed}
        model = self.binding.model(self._sites, arrivals)
        self.simulation = Simulation(model, rng, horizon_s=horizon_s, bins=bins, batch=batch, limits=limits)
        self._arcs_of: list[list[int]] = [[] for _ in problem.operators]
        self._arcs_between: dict[Channel, list[int]] = {}
        for index, arc in enumerate(self.binding.arcs):
            for j in {arc.operator, arc.producer - self.binding.stream_count}:
                if j is not None and 0 <= j < len(problem.operators):
                    self._arcs_of[j].append(index)
            if arc.channel is not None:
                self._arcs_between.setdefault(Channel(*arc.channel), []).append(index)
                self.simulation.open_arc(index, False)
        for j in range(len(problem.operators)):
            self.simulation.hold(j)
        self._before = Counters.of(self.simulation)

    # The Engine protocol.

    def start(self, fragment: str, site: str) -> None:
        members = self._members(fragment)
        if fragment in self._running:
            raise EngineError(
                f"fragment {fragment!r} already runs at {self._running[fragment]!r}", remedy="move it"
            )
        self._refuse_lost(site)
        self._put(members, self._site_index(site))
        self._running[fragment] = site
        self._starts[fragment] += 1
        self._charge_fixed(members, site, +1)
        for j in members:
            self.simulation.release(j)

    def start_all(self, sites: FragmentSites) -> None:
        for fragment, site in sites.items():
            self.start(fragment, site)

    def stop(self, fragment: str, patience_s: float = 0.0) -> None:
        members = self._members(fragment)
        site = self._running.pop(fragment, None)
        if site is None:
            raise EngineError(f"fragment {fragment!r} does not run, so it cannot be stopped")
        for j in members:
            self.simulation.hold(j)
        self._charge_fixed(members, site, -1)

    def connect(self, channel: Channel) -> None:
        self.binding.spare_closed.discard((channel.producer, channel.reader))
        for arc in self._channel_arcs(channel):
            self.simulation.open_arc(arc, True)
            self._recount_sending(arc)

    def disconnect(self, channel: Channel) -> None:
        if channel in self._spare:
            self.binding.spare_closed.add((channel.producer, channel.reader))
        for arc in self._channel_arcs(channel):
            self.simulation.open_arc(arc, False)
            self._recount_sending(arc)
        if channel.reader in self._fragments and channel.reader not in self._running:
            for j in self._fragments[channel.reader]:  # of a reader that is gone nothing is kept
                self.simulation.discard(j)

    def move(self, fragment: str, to_site: str, reached: Reached = ignored) -> MoveReport:
        target = self._site_index(to_site)
        self._refuse_lost(to_site)
        from_site = self._running.get(fragment)
        stages = Stages(reached)
        stages.reach("prepared")
        self.stop(fragment)
        members = self._members(fragment)
        assert from_site is not None  # or stop would have refused
        state = sum(self.problem.operators[j].state_bytes for j in members)
        pause_s = self._pause_s(members, self.problem.site_index[from_site], target)
        self._put(members, target)
        self._running[fragment] = to_site
        self._starts[fragment] += 1
        self._charge_fixed(members, to_site, +1)
        for j in members:
            self.simulation.release(j, after_s=pause_s)
        try:
            for stage in STAGES[1:]:  # at one instant: only the pause takes time
                stages.reach(stage)
        except MooringError:
            self.stop(fragment)
            self.start(fragment, from_site)
            raise
        return MoveReport(fragment, from_site, to_site, pause_s, state)

    def measure(self) -> Measurement:
        now, before = Counters.of(self.simulation), self._before
        self._before = now
        self.simulation.world.queries["recent_max"] = 0.0
        seconds = max(now.at_s - before.at_s, 1e-300)
        rate = {name: (now.totals[name] - before.totals[name]) / seconds for name in now.totals}
        used, capacity = self._used(rate["busy"]), self._capacity
        sites = {
            site.name: SiteReport(float(used[i]), float(now.lengths[i]), float(capacity[i]))
            for i, site in enumerate(self.problem.sites)
        }
        queries = {sink.name: now.query_report(q, rate) for q, sink in enumerate(self.binding.sinks)}
        return Measurement(
            at_s=now.at_s,
            seconds=now.at_s - before.at_s,
            stream_rates={s.name: float(rate["emitted"][k]) for k, s in enumerate(self.problem.streams)},
            sites=sites,
            fragments=self._fragment_reports(rate),
            queries=queries,
            latency_ms=self.binding.network.latency_ms,
        )

    def homes(self) -> FragmentSites:
        return FragmentSites(dict(self._running))

    # What keeping a run alive needs beside.

    def lose_site(self, site: str, why: str = "its machine is lost") -> None:
        """Everything there stands still from now on."""
        self._site_index(site)
        self._lost[site] = why
        self._freeze(site)

    def give_back(self, site: str) -> None:
        """The site is there again; what nobody has started elsewhere meanwhile goes on."""
        self._lost.pop(site, None)
        for fragment, at in self._running.items():
            if at == site:
                for j in self._fragments[fragment]:
                    self.simulation.release(j)

    def dead_sites(self) -> list[Trouble]:
        return [
            Trouble(site, None, SiteLostError(f"the site {site!r} is lost: {why}"))
            for site, why in self._lost.items()
        ]

    def inspect(self) -> list[Trouble]:
        return self.dead_sites()

    def forget(self, fragment: str) -> None:
        if fragment in self._running:
            self.stop(fragment)

    def clear_leftovers(self, site: str) -> int:
        """Nothing is ever left behind: a fragment that was forgotten stands still."""
        return 0

    def in_move(self, fragment: str) -> bool:
        """A move takes no time but its pause, during which the fragment is where it was moved to."""
        return False

    def is_idle(self, fragment: str) -> bool:
        return fragment not in self._running

    def settled(self) -> None:
        """Sites never get more than their capacity here."""

    def batches(self) -> Mapping[str, int]:
        taken = self.simulation.world.operators["taken"]
        return {name: int(taken[list(self._fragments[name])].sum()) for name in self._running}

    def lost_channels(self) -> Mapping[str, str]:
        return {}

    def users_of(self, channel: str) -> list[str]:
        readers = [each.reader for each in self._arcs_between if each.producer == channel]
        return [channel, *(reader for reader in readers if reader in self._fragments)]

    def trim(self) -> int:
        """What was read is gone at once."""
        return 0

    # Time.

    def run(self, until_s: float) -> Overload | None:
        """Let virtual time pass, applying capacity changes on the way."""
        while self._changes and self._changes[0][0] <= until_s and self.simulation.overload is None:
            at_s, site, cores = self._changes.pop(0)
            self.simulation.run(at_s)
            self.set_capacity(site, cores)
        return self.simulation.run(until_s)

    def set_capacity(self, site: str, cores: float) -> None:
        """Change a site's nominal capacity now."""
        self._capacity[self._site_index(site)] = cores
        self._refresh_capacity(site)

    def capacity_cores(self, site: str) -> float:
        """Nominal, now."""
        return float(self._capacity[self._site_index(site)])

    def latency_ms(self, start: str, end: str) -> float:
        """Between two sites, now; zero where the problem states none."""
        latencies = self.binding.network.latency_ms
        return 0.0 if latencies is None else float(latencies[self._site_index(start), self._site_index(end)])

    def set_latencies(self, latency_ms: Mapping[tuple[str, str], float]) -> None:
        """Change latencies between pairs of sites, both ways, now; what is on its way arrives as it was
        sent.
        """
        changed = {(self._site_index(a), self._site_index(b)): ms for (a, b), ms in latency_ms.items()}
        self.binding.set_latencies(changed)
        for index, arc in enumerate(self.binding.arcs):
            ends = self.binding.crossing(arc, self._sites)
            if ends is not None and (ends in changed or ends[::-1] in changed):
                self.simulation.reroute(index, self.binding.reader(arc, self._sites))

    def restart_statistics(self) -> None:
        """Forget what was counted so far: the end of the warm-up."""
        self.simulation.restart_statistics()
        self._before = Counters.of(self.simulation)

    # Inside.

    def _refuse_lost(self, site: str) -> None:
        if site in self._lost:
            raise SiteLostError(f"the site {site!r} is lost: {self._lost[site]}")

    def _freeze(self, site: str) -> None:
        for fragment, at in self._running.items():
            if at == site:
                for j in self._fragments[fragment]:
                    self.simulation.hold(j)

    def _members(self, fragment: str) -> tuple[int, ...]:
        if fragment not in self._fragments:
            known = ", ".join(list(self._fragments)[:5])
            raise EngineError(f"there is no fragment {fragment!r}", remedy=f"there are {known}, ...")
        return self._fragments[fragment]

    def _site_index(self, site: str) -> int:
        if site not in self.problem.site_index:
            raise EngineError(
                f"there is no site {site!r}", remedy=f"one of {', '.join(self.problem.site_index)}"
            )
        return self.problem.site_index[site]

    def _channel_arcs(self, channel: Channel) -> list[int]:
        if channel not in self._arcs_between:
            raise EngineError(
                f"{channel.reader!r} does not read {channel.producer!r}: there is no such channel"
            )
        return self._arcs_between[channel]

    def _put(self, members: Sequence[int], site: int) -> None:
        """Place operators and reroute every arc that they touch."""
        for j in members:
            self._sites[j] = site
        touched = sorted({index for j in members for index in self._arcs_of[j]})
        readers = [self.binding.reader(self.binding.arcs[index], self._sites) for index in touched]
        self.simulation.links_up_to(len(self.binding.link_ends), self.binding.link_rates)
        for index, reader in zip(touched, readers, strict=True):
            self.simulation.reroute(index, reader)
        producers = {self.binding.arcs[index].producer - self.binding.stream_count for index in touched}
        for j in producers | set(members):
            if j >= 0:
                work_us = self.binding.send_work_us(j, self._sites)
                self.simulation.place(j, self.binding.site_of(j, self._sites), send_work_us=work_us)

    def _recount_sending(self, arc: int) -> None:
        """What its producer does per tuple for crossings, now that spare channels were opened or closed."""
        j = self.binding.arcs[arc].producer - self.binding.stream_count
        if self._spare and 0 <= j < len(self.problem.operators):
            work_us = self.binding.send_work_us(j, self._sites)
            self.simulation.place(j, self._sites[j], send_work_us=work_us)

    def _refresh_capacity(self, site: str) -> None:
        """What the fixed load of the fragments that run at a site leaves of its capacity."""
        index = self.problem.site_index[site]
        left = float(self._capacity[index] - self._fixed_cores[index])
        self.simulation.set_capacity(index, max(left, 0.0))

    def _charge_fixed(self, members: Sequence[int], site: str, sign: int) -> None:
        """A fragment's load at rate zero, counted once however many operators it has."""
        self._fixed_cores[self.problem.site_index[site]] += sign * self._fixed(members)
        self._refresh_capacity(site)

    def _fixed(self, members: Sequence[int]) -> float:
        return max(self.problem.operators[j].fixed_cores for j in members)

    def _used(self, busy: Floats) -> Floats:
        """Share of each site's capacity in use: its fixed load, and the part of the rest that was busy."""
        left = np.maximum(self._capacity - self._fixed_cores, 0.0)
        return np.asarray((self._fixed_cores + busy * left) / self._capacity)

    def _pause_s(self, members: Sequence[int], start: int, end: int) -> float:
        """As `MoveTimes` has it, but for what the problem knows better: the state's way over its network."""
        network, operators = self.binding.network, [self.problem.operators[j] for j in members]
        state_bytes = sum(operator.state_bytes for operator in operators)
        stateful = any(operator.stateful for operator in operators)
        still_s = self.times.pause_s(stateful=stateful, state_bytes=0.0)
        if start == end:
            return still_s
        latency_s = 0.0 if network.latency_ms is None else float(network.latency_ms[start, end]) / 1e3
        speed = self.times.bytes_per_s if network.bandwidth is None else float(network.bandwidth[start, end])
        return still_s + latency_s + state_bytes / speed

    @cached_property
    def _ends(self) -> dict[str, tuple[list[int], list[int], list[int]]]:
        """Per fragment its operators, those through which tuples enter it, and those through which they
        leave."""
        readers, streams = self.problem.graph.readers, self.binding.stream_count
        ports = self.problem.graph.ports
        found = {}
        for name, members in self._fragments.items():
            inside = set(members)
            entries = [
                j for j in members if any(node - streams not in inside for port in ports[j] for node in port)
            ]
            exits = [
                j for j in members if not set(readers[streams + j]) <= inside or not readers[streams + j]
            ]
            found[name] = list(members), entries or list(members), exits
        return found

    def _fragment_reports(self, rate: Mapping[str, Floats]) -> dict[str, FragmentReport]:
        taken, given, work = rate["taken"].tolist(), rate["given"].tolist(), rate["work"].tolist()
        held = self.simulation.world.operators["held_head"].tolist()
        return {
            name: FragmentReport(
                site=self._running.get(name, ""),
                running=name in self._running,
                input_rate=_sum(taken, entries),
                output_rate=_sum(given, exits),
                cores=_sum(work, members) + (self._fixed(members) if name in self._running else 0.0),
                waiting=self._waiting(held, members),
                epoch=self._starts[name] or None,
            )
            for name, (members, entries, exits) in self._ends.items()
        }

    def _waiting(self, held: Sequence[int], members: Sequence[int]) -> float:
        """Tuples in the fragment's channels while it stands still."""
        total, tuples = 0.0, self.simulation.world.tuples
        for j in members:
            node = held[j]
            while node >= 0:
                total, node = total + float(tuples["weight"][node]), tuples["next"][node]
        return total


def _sum(values: Sequence[float], rows: Sequence[int]) -> float:
    """As numpy adds up; most fragments have one row."""
    return values[rows[0]] if len(rows) == 1 else float(np.sum([values[row] for row in rows]))
