"""Running a placement at set rates for a while, and looking at what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow.parquet

from lab.quota_bench.feeder import Feeder
from lab.quota_bench.operator_costs import SiteEquation
from lab.quota_bench.verdict import FragmentLook, SiteVerdict, judge
from lab.quota_bench.workload import DelayOperator
from mooring.errors import EngineError
from mooring.spark.engine.engine import SparkEngine

_BEFORE_TRIGGER_S = 0.3
"""Looks begin and end this long before a trigger (Spark's are at multiples of the interval), when batches
that fit the trigger are over and one trigger's rows wait."""


@dataclass(frozen=True)
class BenchLook:
    """What the sites and fragments did over some triggers at constant rates."""

    rates: Mapping[str, float]
    seconds: float
    fed: Mapping[str, int]
    site_cores: Mapping[str, float]
    fragments: Mapping[str, FragmentLook]
    rows_out: Mapping[str, int]
    verdicts: Mapping[str, SiteVerdict]
    table_latencies_s: Mapping[str, tuple[float, ...]]
    """Of the rows delivered meanwhile to each table that nobody reads: from landing to the result's file."""
    load_average: float
    """Of the machine, over the last minute."""

    @property
    def overloaded_sites(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict.overloaded]

    @property
    def feasible(self) -> bool | None:
        """Whether every site kept up; None: the machine disturbed the look."""
        if self.overloaded_sites:
            return False
        return True if all(verdict.keeps_up for verdict in self.verdicts.values()) else None

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Of all of them."""
        return tuple(each for own in self.table_latencies_s.values() for each in own)

    @property
    def mean_latency_s(self) -> float:
        return float(np.mean(self.latencies_s)) if self.latencies_s else float("nan")

    @property
    def max_latency_s(self) -> float:
        return max(self.latencies_s, default=float("nan"))

    def equations(self) -> list[SiteEquation]:
        """One per site, for the fit of costs."""
        return [
            SiteEquation(
                self.seconds,
                cores * self.seconds,
                sum(look.batches for look in self.fragments.values() if look.site == site),
                {name: look.rows_in for name, look in self.fragments.items() if look.site == site},
            )
            for site, cores in self.site_cores.items()
        ]


@dataclass(frozen=True)
class _Reading:
    at_s: float
    cpu_s: Mapping[str, float]
    fed: Mapping[str, int]
    rows_in: Mapping[str, int]
    rows_out: Mapping[str, int]
    batches: Mapping[str, int]

    def came(self, operator: DelayOperator) -> int:
        """Rows that came for an operator so far."""
        return self.fed[operator.name] if operator.reads is None else self.rows_out[operator.reads]


@dataclass
class Deployment:
    """A placement that runs and is fed."""

    engine: SparkEngine
    feeder: Feeder
    operators: tuple[DelayOperator, ...]
    quotas: Mapping[str, float]
    trigger_s: float
    _delivered: dict[str, int] = field(default_factory=dict)

    def look(self, rates: Mapping[str, float], settle_triggers: int, triggers: int) -> BenchLook:
        """Feed at these rates; the first triggers let them arrive everywhere, the rest are looked at."""
        self.feeder.set_rates(rates)
        self._sleep_triggers(settle_triggers)
        self._new_latencies()
        before = self._read()
        self._sleep_triggers(triggers)
        after = self._read()
        self.engine.check()
        looks = {o.name: self._fragment(o, before, after) for o in self.operators}
        seconds = after.at_s - before.at_s
        cores = {site: (after.cpu_s[site] - before.cpu_s[site]) / seconds for site in after.cpu_s}
        latencies = self._new_latencies()
        self._tidy(after)
        return BenchLook(
            dict(rates),
            seconds,
            {name: after.fed[name] - before.fed[name] for name in after.fed},
            cores,
            looks,
            {o.name: after.rows_out[o.name] - before.rows_out[o.name] for o in self.operators},
            judge(cores, self.quotas, looks, self.trigger_s),
            latencies,
            os.getloadavg()[0],
        )

    def drain(self, patience_s: float) -> bool:
        """Feed nothing until everything that came was read; False if that takes too long."""
        self.feeder.set_rates({})
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            now = self._read()
            if all(now.came(o) <= now.rows_in[o.name] for o in self.operators):
                self._tidy(now)
                return True
            time.sleep(min(1.0, self.trigger_s / 4))
        self.engine.check()
        return False

    def _sleep_triggers(self, triggers: int) -> None:
        """To just before the end of the trigger under way (one), the next (two), and so on."""
        under_way = (time.time() + _BEFORE_TRIGGER_S) // self.trigger_s
        end_s = (under_way + triggers) * self.trigger_s - _BEFORE_TRIGGER_S
        time.sleep(max(0.0, end_s - time.time()))

    def _read(self) -> _Reading:
        cpu_s = {}
        for name, site in self.engine.sites.items():
            usage = site.usage()
            if usage is None:
                raise EngineError(f"the CPU of site {name!r} cannot be seen")
            cpu_s[name] = usage.cpu_s
        at_s, fed = time.time(), self.feeder.fed()
        seen = self.engine.snapshot().fragments
        return _Reading(
            at_s,
            cpu_s,
            fed,
            {name: fragment.rows_in for name, fragment in seen.items()},
            {name: fragment.rows_out for name, fragment in seen.items()},
            {name: fragment.batches for name, fragment in seen.items()},
        )

    def _fragment(self, operator: DelayOperator, before: _Reading, after: _Reading) -> FragmentLook:
        name = operator.name
        recent = [b for b in self.engine.progress.meters[name].batches if before.at_s < b.end_s <= after.at_s]
        came = after.came(operator)
        return FragmentLook(
            self.engine.homes()[name],
            after.rows_in[name] - before.rows_in[name],
            after.batches[name] - before.batches[name],
            float(np.mean([b.end_s - b.begin_s for b in recent])) if recent else 0.0,
            (came - before.came(operator)) / (after.at_s - before.at_s),
            came - after.rows_in[name],
        )

    def _new_latencies(self) -> dict[str, tuple[float, ...]]:
        """Of the rows delivered since the last call, by the table that they are in."""
        read = {operator.reads for operator in self.operators}
        found: dict[str, tuple[float, ...]] = {}
        for operator in self.operators:
            if operator.name in read:
                continue
            channel = self.engine.layout.channels[operator.name]
            entries = channel.appended_since(self._delivered.get(operator.name, 0))
            self._delivered[operator.name] = self._delivered.get(operator.name, 0) + len(entries)
            own: list[float] = []
            for entry in entries:
                made_s = pyarrow.parquet.read_table(entry.path, columns=["at"])["at"].to_numpy()
                own += (entry.modified_s - made_s).tolist()
            found[operator.name] = tuple(own)
        return found

    def _tidy(self, now: _Reading) -> None:
        self.engine.trim()
        self.feeder.remove_read(now.rows_in)
