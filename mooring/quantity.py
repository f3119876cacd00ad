"""Numbers with a unit, for people."""

from __future__ import annotations


def quantity(value: float, unit: str) -> str:
    """With three digits and a prefix.

    >>> quantity(2_190_000, "B/s"), quantity(12.5, "B")
    ('2.19 MB/s', '12.5 B')
    """
    prefixes = ["", "k", "M", "G", "T"]
    while abs(value) >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.3g} {prefixes[0]}{unit}"
