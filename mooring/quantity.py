"""Numbers with a unit, for people."""

from __future__ import annotations

import math

_SHOWN_IN_MS = 10_000.0
MOST_FACTOR = 10.0
"""Beyond this a headroom says no more than that there is room."""


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


def decimal(value: float, digits: int = 3) -> str:
    """With so many digits that count, and never an exponent.

    >>> decimal(0.65527), decimal(11_254.2, 4), decimal(0.0000123), decimal(114.0, 2)
    ('0.655', '11,250', '0.0000123', '110')
    """
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    short = float(text)
    return (
        f"{short:,.0f}"
        if abs(short) >= 1.0
        else f"{short:.{digits - 1 - math.floor(math.log10(abs(short)))}f}"
    )


def milliseconds(value_ms: float, digits: int = 4) -> str:
    """From 10 s on in seconds.

    >>> milliseconds(310.25), milliseconds(11_254.2)
    ('310.2 ms', '11.25 s')
    """
    if value_ms < _SHOWN_IN_MS or not math.isfinite(value_ms):
        return f"{decimal(value_ms, digits)} ms"
    return f"{decimal(value_ms / 1000.0, digits)} s"


def duration(seconds: float) -> str:
    """Of something that was timed; its further digits differ each time.

    >>> duration(0.1143), duration(11.254), duration(0.00006)
    ('110 ms', '11 s', '0.06 ms')
    """
    return f"{decimal(seconds, 2)} s" if seconds >= 1.0 else f"{decimal(1000.0 * seconds, 2)} ms"


def factor_words(factor: float | None, low: float | None = None, high: float | None = None) -> str:
    """A headroom, with its interval.

    >>> factor_words(1.4), factor_words(1.4, 1.2, 30.0), factor_words(131.8, 9.0, None), factor_words(None)
    ('x 1.40', 'x 1.40 (1.20 to more than 10)', 'more than x 10', 'no limit')
    """
    if factor is None:
        return "no limit"
    if factor > MOST_FACTOR:
        return f"more than x {MOST_FACTOR:g}"
    said = f"x {factor:.2f}"
    if low is None or (high is not None and high - low < 0.02):
        return said
    most = f"{high:.2f}" if high is not None and high <= MOST_FACTOR else f"more than {MOST_FACTOR:g}"
    return f"{said} ({low:.2f} to {most})"
