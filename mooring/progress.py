"""Saying how far long work is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[float, str], None]
"""Called now and then with the share that is done, from 0 to 1, and what is being done."""


def silent(done: float, message: str) -> None:
    """Says nothing."""
