"""What runs have learnt of each flow: its costs, the rate at which rows come, and how far they may be off.

It lies in the storage root, in one file of a line per flow and version of that flow. So an edit of one flow
leaves what is known of the others, and an edit that is taken back finds again what was known before. Each
line has a checksum of its own: one that is damaged is named, and costs no other. The file is bounded, and
the folder has room for other files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mooring.checksum import DamagedError, checked, with_sum
from mooring.disk import DISK, Disk, read_if_there
from mooring.spark.storage.owned_folder import OwnedFolder

LEARNT = "learnt"
"""The folder in a storage root."""
COSTS_FILE_NAME = "costs.jsonl"
MOST_VERSIONS = 3
"""Versions of one flow that are kept, the newest."""
MOST_GONE = 100
"""Lines of flows that the pipeline no longer has that are kept, the newest."""


class LearntFlow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one version of a flow. A later Mooring may write more fields."""

    flow: str
    version: str
    """The fingerprint by which an edit is told."""
    at: str
    """When it was last measured, ISO 8601 in UTC."""
    looks: int
    """Looks of runs that it is made of, as far as they still count."""
    cost_us: float
    cost_us_error: float
    """Standard error, like the others, in the unit of the figure."""
    batch_cpu_s: float | None = None
    """Only of the last flow of a fragment."""
    batch_cpu_s_error: float | None = None
    batches_per_s: float = 0.0
    """That came, as often as the trigger at most; 0: not known."""
    selectivity: float | None = None
    bytes: float | None = None
    error: float = 0.0
    """Relative, of the CPU of its site that the figures explain."""
    rate: float = 0.0
    """Rows per second that came into its fragment."""
    rate_error: float = 0.0
    estimated: bool = False
    """The processes of its site could not be seen: the figures follow from how long batches took."""


@dataclass(frozen=True)
class Learnt:
    lines: tuple[LearntFlow, ...] = ()
    """At most one per flow and version, the newest first."""
    damage: tuple[str, ...] = ()
    """What could not be read, in words."""
    wins: bool = False
    """Over what is stated and profiled: what was asked for is what runs measured."""

    def of(self, flow: str, version: str) -> LearntFlow | None:
        """Of exactly that version."""
        return next((line for line in self.lines if (line.flow, line.version) == (flow, version)), None)

    def nearest(self, flow: str, version: str) -> LearntFlow | None:
        """Of that version, or else of the one that was measured last."""
        found = self.of(flow, version)
        return found or next((line for line in self.lines if line.flow == flow), None)

    def with_lines(self, new: Iterable[LearntFlow], present: Collection[str]) -> Learnt:
        """The newer lines in place of those that they follow. `present`: flows that the pipeline has."""
        newer = {(line.flow, line.version): line for line in new}
        rest = [line for line in self.lines if (line.flow, line.version) not in newer]
        versions, gone = dict[str, int](), 0
        kept = []
        for line in [*newer.values(), *rest]:
            versions[line.flow] = versions.get(line.flow, 0) + 1
            gone += line.flow not in present
            if versions[line.flow] <= MOST_VERSIONS and (line.flow in present or gone <= MOST_GONE):
                kept.append(line)
        return Learnt(tuple(kept))


NOTHING_LEARNT = Learnt()


def costs_file(root: Path) -> Path:
    return root / LEARNT / COSTS_FILE_NAME


def read_learnt(root: Path, disk: Disk = DISK) -> Learnt:
    """What earlier runs over the storage root have learnt. What cannot be read is named and left out: it is
    measured again.
    """
    file = costs_file(root)
    try:
        content = read_if_there(disk, file) or b""
    except OSError as failure:
        return Learnt(damage=(f"{file} cannot be read: {failure}",))
    lines, damage = [], []
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            lines.append(msgspec.json.decode(checked(line), type=LearntFlow))
        except (msgspec.DecodeError, DamagedError, UnicodeDecodeError) as wrong:
            damage.append(f"line {number} of {file}{_of_flow(line)} is damaged: {wrong}")
    return Learnt(tuple(lines), tuple(damage))


def write_learnt(root: Path, learnt: Learnt, owned: OwnedFolder) -> None:
    """On disk when this returns."""
    owned.make_folder(root / LEARNT)
    content = b"".join(with_sum(msgspec.json.encode(line)) + b"\n" for line in learnt.lines)
    owned.replace(costs_file(root), content, on_disk=True)


class _Named(msgspec.Struct):
    flow: str


def _of_flow(line: bytes) -> str:
    """Whose it was, if that can still be read."""
    try:
        return f" ({msgspec.json.decode(line, type=_Named).flow})"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
