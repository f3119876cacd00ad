"""The name of a merged file, which holds its positions in the channel and the age of its youngest rows, so
that no other record of the replaced files is needed.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

_NAME = re.compile(r"merged-(\d+)-(\d+)-(\d+)-[0-9a-f]{16}\.parquet")


@dataclass(frozen=True)
class MergedName:
    first: int
    """Position of the first file it stands for."""
    end: int
    """Position after the last."""
    newest_ms: int
    """When the youngest of them was written, in milliseconds since 1970."""

    def make(self) -> str:
        return f"merged-{self.first}-{self.end}-{self.newest_ms}-{secrets.token_hex(8)}.parquet"


def read_name(name: str) -> MergedName | None:
    """None if it is a file as a flow wrote it.

    >>> read_name("merged-100-150-1700000000000-00112233445566ff.parquet").end
    150
    >>> read_name("part-00000-5d2-c000.snappy.parquet") is None
    True
    """
    found = _NAME.fullmatch(name) if name.startswith("merged-") else None
    return None if found is None else MergedName(*(int(number) for number in found.groups()))


def items_of(name: str) -> int:
    """How many files that a flow wrote a file stands for."""
    merged = read_name(name)
    return 1 if merged is None else merged.end - merged.first
