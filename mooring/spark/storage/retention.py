"""Retention of a table's rows: `tables: {x: {keep: all | 7d | read}}` in `mooring.yml`.

Under every setting, files stay until all readers of the pipeline have committed them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mooring.model.problem.reading.fields import fail, nearest

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]+)([smhdw])")
_LONGEST_S = 1e10


@dataclass(frozen=True)
class Keep:
    for_good: bool
    """Rows stay when all readers have them: the table is a result."""
    age_s: float | None = None
    """They go when their file is this much older than the newest one; None: never."""
    merge: bool = True
    """Its small files may be merged; of no account where rows do not stay."""


ALL = Keep(for_good=True)
"""Every row ever written."""
READ = Keep(for_good=False)
"""Until all readers have it."""


def results_reader(dataset: str) -> str:
    """Registered in the channels of a table that is kept, beside the fragments that read it: whoever reads
    it from outside.
    """
    return f"results {dataset}"


def read_keep(value: object, path: str) -> Keep:
    """From a field of `mooring.yml`.

    >>> read_keep("12h", "tables.x.keep").age_s
    43200.0
    """
    if value == "all":
        return ALL
    if value == "read":
        return READ
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is not None and 0 < (age_s := int(found[1]) * _UNITS_S[found[2]]) <= _LONGEST_S:
        return Keep(for_good=True, age_s=float(age_s))
    closest = nearest(value, ("all", "read")) if isinstance(value, str) else None
    fail(
        path,
        "all, read, or a duration in seconds, minutes, hours, days or weeks such as 90s, 30m, 12h, 7d, 2w",
        value,
        remedy=f"did you mean {closest}?" if closest else None,
    )
