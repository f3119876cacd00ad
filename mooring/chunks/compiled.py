"""The compiler options of the loops over chunks."""

from __future__ import annotations

from typing import Any

# What allocates nothing is compiled without numba's reference counting, and what an event loop calls is
# inlined: together that makes the simulation thirty times as fast.
KERNEL: dict[str, Any] = {"cache": True, "_nrt": False, "error_model": "numpy"}
INLINED: dict[str, Any] = {**KERNEL, "inline": "always"}
