"""Assumptions of compiled loops about floating-point numbers."""

from __future__ import annotations

FAST = {"nnan", "ninf", "nsz", "reassoc", "contract", "arcp"}
"""`nnan` and `ninf` hold because sentinels are finite; the others let loops over sites vectorise."""
