"""A snapshot of a run: the figures of the live view, the status file and the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class SiteSnapshot:
    load_cores: float | None
    """CPU of the site's whole process tree since the last look; None on the first."""
    estimated: bool
    """The processes cannot be seen: the share of time spent inside micro-batches instead."""
    capacity_cores: float
    resident_mb: float | None
    fragments: list[str]
    clock_ahead_s: float = 0.0
    """By how much its clock is ahead of ours; what it says of time is corrected by that."""
    held_back: float | None = None
    """Share of the time since the last look in which its control group held it back; None: nobody knows."""
    left_cores: float | None = None
    """What its neighbours on the machine leave it; None: nobody is in its way, or that cannot be seen."""
    server_cores: float | None = None
    """CPU of the whole server of an existing endpoint, whoever it serves; None where it cannot be seen."""
    executors: int | None = None
    """That are there; None where they cannot be seen, or the site is one process."""
    driver_cores: float | None = None
    """CPU of the driver, beside `load_cores` of the executors; None where it is not apart."""
    slots: int | None = None
    """Tasks that the executors run at a time."""
    held_slots: int | None = None
    """Slots of executors in which tasks of others run at this moment."""
    active_tasks: int | None = None
    """Ours, at this moment."""

    @property
    def utilisation(self) -> float | None:
        """None where the load is not known, or there is nothing to load."""
        if self.load_cores is None or self.capacity_cores <= 0.0:
            return None
        return self.load_cores / self.capacity_cores


@dataclass(frozen=True)
class FragmentSnapshot:
    site: str
    rows_in_per_s: float
    rows_out_per_s: float
    rows_in: int
    rows_out: int
    batches: int
    batch_s: float | None
    state_rows: int
    files_waiting: int | None
    """None: it reads no channel, or one could not be looked at."""
    state_bytes: int = 0
    joins: bool = False
    """Whether it joins streams: it makes a row of each pair, and pairs grow with the square of the rates."""
    rows_behind: int | None = None
    """Of the topics it reads, as its last batch found them; None where it reads none."""
    rows_waiting: int | None = None
    """In channels, not read yet; None: it reads none, or one could not be looked at."""
    cores: float | None = None
    """CPU of its tasks since the last look, without the driver's; None where it is not told apart."""
    open_s: float | None = None
    """Since it last reported a batch or that it has nothing to do; None: it has reported neither."""


@dataclass(frozen=True)
class QuerySnapshot:
    rows_per_s: float
    rows: int
    latency_s: float | None
    """From entering the pipeline to delivery, without what windows hold back."""
    files_behind: int | None
    """Files appended on the way to this query that their readers have not committed."""


@dataclass(frozen=True)
class ChannelSnapshot:
    bytes_per_s: float
    bytes_written: int
    stored_bytes: int
    lag: Mapping[str, int]
    """Files not yet committed, per reading fragment."""
    crosses: list[str]
    """Other sites it is read at."""
    aged_files: int = 0
    """Removed so far, in all runs, for being older than the table keeps them."""
    aged_bytes: int = 0
    untimed_files: int = 0
    """Newest files whose time no known clock explains: latencies of those who read them are unknown."""


@dataclass(frozen=True)
class ViewSnapshot:
    """A materialized view by its current version."""

    refreshes: int
    """Published so far, in all runs."""
    rows: int
    stored_bytes: int
    rows_read: int
    """By the refresh that made it."""
    took_s: float
    age_s: float
    """Since that refresh fixed what it reads."""
    refresh_s: float
    """It is refreshed no more often than that."""


@dataclass(frozen=True)
class Snapshot:
    at_s: float
    since_start_s: float
    sites: Mapping[str, SiteSnapshot] = field(default_factory=dict)
    fragments: Mapping[str, FragmentSnapshot] = field(default_factory=dict)
    queries: Mapping[str, QuerySnapshot] = field(default_factory=dict)
    channels: Mapping[str, ChannelSnapshot] = field(default_factory=dict)
    views: Mapping[str, ViewSnapshot] = field(default_factory=dict)
    """Of materialized views that have a version."""
    troubles: Mapping[str, str] = field(default_factory=dict)
    """What is not as it should be, by the fragment, site or channel concerned."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """What could not be measured, and why: its figures are missing."""

    def rows_in_per_s(self) -> dict[str, float]:
        """Per fragment that runs."""
        return {name: fragment.rows_in_per_s for name, fragment in self.fragments.items()}

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def snapshot_from_json(data: Mapping[str, Any]) -> Snapshot:
    """From a status file; fields beyond the snapshot's are ignored."""
    return Snapshot(
        data["at_s"],
        data["since_start_s"],
        {name: SiteSnapshot(**fields) for name, fields in data["sites"].items()},
        {name: FragmentSnapshot(**fields) for name, fields in data["fragments"].items()},
        {name: QuerySnapshot(**fields) for name, fields in data["queries"].items()},
        {name: ChannelSnapshot(**fields) for name, fields in data["channels"].items()},
        {name: ViewSnapshot(**fields) for name, fields in (data.get("views") or {}).items()},
        dict(data.get("troubles") or {}),
        dict(data.get("unknown") or {}),
    )
