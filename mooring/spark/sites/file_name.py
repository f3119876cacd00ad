"""Names of sites, datasets and flows as names of folders."""

from __future__ import annotations

import hashlib
import re


def file_name(name: str) -> str:
    """A folder name that no file system or URI minds; names that need changing get a mark of their own.

    >>> file_name("berlin"), file_name("../x")
    ('berlin', '___x-d6b96a')
    """
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
