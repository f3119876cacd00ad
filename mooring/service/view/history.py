"""The recent history of a run: a bounded list of points, kept in a file across restarts of a service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.atomic_files import write_whole

MOST_POINTS = 600
_WRITE_S = 10.0
FILE_NAME = "page_history.json"


class History:
    """Points of one run; those of an earlier run are forgotten."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / FILE_NAME
        self.points: list[dict[str, Any]] = self._read()
        self._written_s = 0.0

    def add(self, picture: Mapping[str, Any]) -> bool:
        """Take in a picture; whether it tells of another moment than the last."""
        point = _point(picture)
        if self.points and point["at_s"] <= self.points[-1]["at_s"]:
            return False
        if self.points and abs(self._start_s(point) - self._start_s(self.points[-1])) > 5.0:
            self.points = []
        self.points.append(point)
        if len(self.points) > MOST_POINTS:
            self.points = self.points[::2]
        if point["at_s"] - self._written_s >= _WRITE_S:
            self.write()
            self._written_s = point["at_s"]
        return True

    def write(self) -> None:
        if self._file is not None and self.points:
            write_whole(self._file, json.dumps(self.points))

    @staticmethod
    def _start_s(point: Mapping[str, Any]) -> float:
        return float(point["at_s"]) - float(point["since_start_s"])

    def _read(self) -> list[dict[str, Any]]:
        if self._file is None:
            return []
        try:
            found = json.loads(self._file.read_text())
            fine = isinstance(found, list) and all(
                isinstance(each, dict) and {"at_s", "since_start_s", "rates"} <= each.keys() for each in found
            )
        except (OSError, ValueError):
            return []
        return found[-MOST_POINTS:] if fine else []


def _waiting(fragments: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all fragments together; None where none is known."""
    known = [rows for each in fragments if (rows := rows_waiting(each)) is not None]
    return sum(known) if known else None


def rows_waiting(fragment: Mapping[str, Any]) -> float | None:
    """In channels and topics; None: it reads neither, or they could not be looked at."""
    parts = [fragment.get("rows_waiting"), fragment.get("rows_behind")]
    known = [float(rows) for rows in parts if rows is not None]
    return sum(known) if known else None


def _point(picture: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at_s": picture["at_s"],
        "since_start_s": picture["since_start_s"],
        "headroom": picture["headroom"]["factor"],
        "rates": {each["name"]: each["rate"] for each in picture["streams"]},
        "shares": {each["name"]: each["share"] for each in picture["sites"]},
        "rows_waiting": _waiting(picture["fragments"]),
        "latencies_s": {each["name"]: each["latency_s"] for each in picture["queries"]},
    }
