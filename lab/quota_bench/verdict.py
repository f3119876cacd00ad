"""When a site keeps up, on Spark.

The paper calls a workload point feasible when no node is at 100% CPU. On Spark that alone misleads both ways:
batches of an overloaded fragment grow and share their fixed cost among more rows, so that a site can settle
at full CPU with ever longer batches; and a site that had idle moments at the start of the look may be losing
ground at its end. So a site keeps up when all three hold over the look:

- its CPU stayed below `CPU_FULL` of its quota;
- the batches of each of its fragments took no longer than the trigger on average;
- at the end no fragment had more than `BACKLOG_TRIGGERS` triggers of its input before it. One trigger's rows
  always wait, and another trigger's may be in the batch under way.

A site that lost ground although it used much less than its quota was held back by the machine, not by its
own load: the look is *disturbed* and says nothing about the placement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CPU_FULL = 0.97
BACKLOG_TRIGGERS = 2.2
BACKLOG_ROWS = 10.0
"""Rows that never count as a backlog: files land in lumps."""
HELD_BACK = 0.93
"""Of its quota: a site that uses less has not been stopped by the quota."""


@dataclass(frozen=True)
class FragmentLook:
    """One fragment over the look."""

    site: str
    rows_in: int
    batches: int
    mean_batch_s: float
    """0 without batches."""
    input_rate: float
    """Rows per second that came for it."""
    backlog_rows: float
    """At the end: came for it and not yet in a finished batch."""


@dataclass(frozen=True)
class SiteVerdict:
    utilisation: float
    """CPU used over the quota."""
    overloaded: bool
    disturbed: bool
    reasons: tuple[str, ...] = ()

    @property
    def keeps_up(self) -> bool:
        return not (self.overloaded or self.disturbed)


def judge_site(
    cores: float, quota_cores: float, fragments: Mapping[str, FragmentLook], trigger_s: float
) -> SiteVerdict:
    """The verdict over one site; `fragments` are its own."""
    utilisation = cores / quota_cores
    lost = [reason for name, look in fragments.items() for reason in _lost_ground(name, look, trigger_s)]
    if lost and utilisation < HELD_BACK:
        return SiteVerdict(utilisation, overloaded=False, disturbed=True, reasons=tuple(lost))
    full = [f"CPU at {utilisation:.0%} of the quota"] if utilisation >= CPU_FULL else []
    reasons = tuple(full + lost)
    return SiteVerdict(utilisation, overloaded=bool(reasons), disturbed=False, reasons=reasons)


def _lost_ground(name: str, look: FragmentLook, trigger_s: float) -> list[str]:
    reasons = []
    if look.mean_batch_s > trigger_s:
        reasons.append(f"batches of {name} took {look.mean_batch_s:.1f} s of {trigger_s:g} s")
    allowed = BACKLOG_TRIGGERS * trigger_s * look.input_rate + BACKLOG_ROWS
    if look.backlog_rows > allowed:
        reasons.append(f"{look.backlog_rows:.0f} rows wait for {name}, {allowed:.0f} are allowed")
    return reasons


def judge(
    site_cores: Mapping[str, float],
    quota_cores: Mapping[str, float],
    fragments: Mapping[str, FragmentLook],
    trigger_s: float,
) -> dict[str, SiteVerdict]:
    return {
        site: judge_site(
            cores,
            quota_cores[site],
            {name: look for name, look in fragments.items() if look.site == site},
            trigger_s,
        )
        for site, cores in site_cores.items()
    }
