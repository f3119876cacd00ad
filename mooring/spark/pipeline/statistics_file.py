"""`statistics.yml` beside `mooring.yml`: what `mooring profile` measured, for people to read and edit.

One line per flow. What a human writes under `statistics` in `mooring.yml` wins over it, field by field. Every
line names the version of its flow that it was measured on, so that an edited flow makes it stale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mooring.atomic_files import write_whole
from mooring.errors import InputError
from mooring.model.problem.files import load_data
from mooring.model.problem.reading.fields import (
    Check,
    child,
    fail,
    mapping,
    name,
    number,
    read_fields,
    refuse_key,
)

STATISTICS_FILE_NAME = "statistics.yml"
LONG_AGO_DAYS = 90
"""Figures older than this are called stale: Spark, Java and the machine change."""

_HEAD = """\
# Measured by `mooring profile`: CPU per row (cost_us) and per micro-batch (batch_cpu_s), each with its
# standard error; rows out per row in; bytes per row written; bytes of state held. `error` is relative, of
# cost and selectivity. Figures may be edited; `statistics` in mooring.yml overrides this file, and the next
# profile replaces it.
"""


@dataclass(frozen=True)
class FlowStatistics:
    """What is known of one flow. None: not known."""

    cost_us: float | None = None
    cost_us_error: float | None = None
    batch_cpu_s: float | None = None
    """CPU of a micro-batch that does not grow with its rows; only on the last flow of a fragment."""
    batch_cpu_s_error: float | None = None
    selectivity: float | None = None
    selectivity_error: float | None = None
    bytes: float | None = None
    state_bytes: float | None = None
    error: float | None = None
    batches: int | None = None
    """Micro-batches the figures are made of."""
    rows: int | None = None
    """Rows of the largest of them."""
    flow: str | None = None
    """Version of the flow that was measured."""
    note: str | None = None

    def operator_fields(self, trigger_s: float, look_cores: float) -> dict[str, object]:
        """As a problem file knows them."""
        known = {
            key: value
            for key in ("cost_us", "selectivity", "bytes", "state_bytes", "error")
            if (value := getattr(self, key)) is not None
        }
        if self.batch_cpu_s is not None:
            known["fixed_cores"] = self.batch_cpu_s / trigger_s + look_cores
        return known


@dataclass(frozen=True)
class MeasuredStatistics:
    flows: Mapping[str, FlowStatistics] = field(default_factory=dict)
    at: str = ""
    """When, ISO 8601 in UTC."""
    on: Mapping[str, str] = field(default_factory=dict)
    """Spark, Java, site, machine."""
    look_cpu_s: float = 0.0
    """CPU that one of Mooring's looks at one running fragment costs its site."""
    idle_cores: float = 0.0
    """What a site uses with nothing running; not part of any flow's figures."""

    def age_days(self, now: datetime) -> float | None:
        try:
            then = datetime.fromisoformat(self.at.replace("Z", "+00:00"))
        except ValueError:
            return None
        return (now - then.replace(tzinfo=then.tzinfo or UTC)).total_seconds() / 86400


def _count(value: object, path: str) -> object:
    if type(value) is not int or value < 0:
        fail(path, "a whole number", value)
    return value


_FLOW: dict[str, Check] = {
    "cost_us": number,
    "cost_us_error": number,
    "batch_cpu_s": number,
    "batch_cpu_s_error": number,
    "selectivity": number,
    "selectivity_error": number,
    "bytes": number,
    "state_bytes": number,
    "error": number,
    "batches": _count,
    "rows": _count,
    "flow": name,
    "note": name,
}


def read_statistics(file: Path) -> MeasuredStatistics:
    """From a statistics file; one that is not there is empty."""
    if not file.exists():
        return MeasuredStatistics()
    try:
        return _read(load_data(file))
    except InputError as error:
        error.file = error.file or str(file)
        raise


def _read(data: object) -> MeasuredStatistics:
    given = mapping(data, "", "a mapping with version, measured and flows")
    for key in given:
        if key not in ("version", "measured", "flows"):
            refuse_key(key, ("version", "measured", "flows"), "")
    if given.get("version") != 1:
        fail("version", "1, the only version", given.get("version"))
    measured = dict(mapping(given.get("measured") or {}, "measured"))
    costs = {key: number(measured.pop(key, 0.0), f"measured.{key}") for key in ("look_cpu_s", "idle_cores")}
    words = {str(key): str(value) for key, value in measured.items()}
    lines = mapping(given.get("flows") or {}, "flows")
    flows = {}
    for key, raw in lines.items():
        own: dict[str, Any] = read_fields(raw, _FLOW, child("flows", key))
        flows[str(key)] = FlowStatistics(**own)
    return MeasuredStatistics(flows, words.pop("at", ""), words, **costs)


def write_statistics(file: Path, statistics: MeasuredStatistics) -> None:
    """All or nothing, and on disk: measuring them again takes minutes."""
    write_whole(file, statistics_text(statistics), on_disk=True)


def statistics_text(statistics: MeasuredStatistics) -> str:
    lines = [_HEAD + "version: 1", "measured:", f"  at: {statistics.at}"]
    lines += [f"  {key}: {_scalar(value)}" for key, value in statistics.on.items()]
    lines += [
        f"  look_cpu_s: {_scalar(statistics.look_cpu_s)} # of one look at one running fragment",
        f"  idle_cores: {_scalar(statistics.idle_cores)} # of a site with nothing running",
        "flows:" if statistics.flows else "flows: {}",
    ]
    for flow, own in statistics.flows.items():
        known = {key: value for key, value in asdict(own).items() if value is not None}
        inner = ", ".join(f"{key}: {_scalar(value)}" for key, value in known.items())
        lines.append(f"  {_scalar(flow)}: {{{inner}}}")
    return "\n".join(lines) + "\n"


def _scalar(value: object) -> str:
    """Four digits are more than any measurement here is good for."""
    if isinstance(value, float):
        if value == 0.0 or not math.isfinite(value):
            return "0"
        short = float(f"{value:.4g}")
        return f"{int(short)}" if short.is_integer() else f"{short:.10f}".rstrip("0")
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def merged(old: MeasuredStatistics, new: MeasuredStatistics) -> MeasuredStatistics:
    """The new figures, and old ones of flows that the new profile did not measure."""
    return replace(new, flows={**old.flows, **new.flows})
