"""How many rows of a Kafka topic a fragment has not read: the topic's end against where a batch ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def rows_behind(progress: Mapping[str, Any]) -> int | None:
    """Over all sources of a progress report that count by topic and partition; None where none does.

    >>> read, there = {"orders": {"0": 7, "1": 5}}, '{"orders": {"0": 9, "1": 5}}'
    >>> rows_behind({"sources": [{"endOffset": read, "latestOffset": there}]})
    2
    >>> rows_behind({"sources": [{"endOffset": '{"logOffset": 3}', "latestOffset": None}]}) is None
    True
    """
    each = [_behind(source) for source in progress.get("sources") or ()]
    known = [count for count in each if count is not None]
    return sum(known) if known else None


def _behind(source: Mapping[str, Any]) -> int | None:
    read, there = _by_partition(source.get("endOffset")), _by_partition(source.get("latestOffset"))
    if not read or not there:
        return None
    return sum(max(0, offset - read.get(partition, offset)) for partition, offset in there.items())


def _by_partition(offset: object) -> dict[tuple[str, str], int]:
    """Empty where the offset is not Kafka's. Over Connect it comes as text."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    if not isinstance(offset, Mapping) or not all(isinstance(part, Mapping) for part in offset.values()):
        return {}
    return {(topic, partition): int(at) for topic, parts in offset.items() for partition, at in parts.items()}
