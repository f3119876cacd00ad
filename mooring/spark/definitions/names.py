"""A dataset's name as written, in one, two or three parts, and the key that stands for it everywhere else.

The pipeline's own catalog and database are left out of a key, so `x`, `default.x` and
`spark_catalog.default.x` are one dataset; what lies in another database keeps its parts: `silver.x`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.pipelines.cli import PipelineSpec

_PART = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^.`]*))\s*(?:\.|$)")


@dataclass(frozen=True)
class PipelineNames:
    """The catalog and database that names are completed with."""

    catalog: str = "spark_catalog"
    database: str = "default"

    @classmethod
    def of(cls, spec: PipelineSpec) -> PipelineNames:
        return cls(spec.catalog or cls.catalog, spec.database or cls.database)

    def key(self, written: str) -> str:
        """
        >>> names = PipelineNames(database="sales")
        >>> names.key("orders"), names.key("`sales`.orders"), names.key("silver.orders")
        ('orders', 'orders', 'silver.orders')
        """
        parts = parts_of(written)
        if len(parts) == 3 and _same(parts[0], self.catalog):
            parts = parts[1:]
        if len(parts) == 2 and _same(parts[0], self.database):
            parts = parts[1:]
        return ".".join(parts)

    def whole(self, written: str) -> str:
        """With all parts.

        >>> PipelineNames(database="sales").whole("orders")
        '`spark_catalog`.`sales`.`orders`'
        """
        parts = parts_of(written)
        known = [self.catalog, self.database][: max(0, 3 - len(parts))]
        return ".".join(quoted(part) for part in (*known, *parts))

    def found(self, written: str, known: Iterable[str]) -> str | None:
        """The key among `known` that the name stands for, whatever its case, as Spark finds it."""
        wanted = self.key(written).casefold()
        return next((key for key in known if key.casefold() == wanted), None)


def parts_of(written: str) -> list[str]:
    """
    >>> parts_of("a.`b.c`.d")
    ['a', 'b.c', 'd']
    """
    parts, at = [], 0
    while at < len(written) and (match := _PART.match(written, at)) is not None and match.end() > at:
        quoted, plain = match.groups()
        parts.append(plain.strip() if quoted is None else quoted.replace("``", "`"))
        at = match.end()
    return parts or [written]


def quoted(name: str) -> str:
    """As one part, whatever is in it: the name of a temporary view can have dots so."""
    return f"`{name.replace('`', '``')}`"


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()
