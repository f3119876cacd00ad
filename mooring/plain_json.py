"""Values as JSON represents them, for all writers of documents."""

from __future__ import annotations

import math
from collections.abc import Mapping


def plain(value: object) -> object:
    """Arrays, tuples and numpy's numbers to what JSON knows; null for what is no number."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # an array or a number of numpy, which is not worth loading to ask
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
