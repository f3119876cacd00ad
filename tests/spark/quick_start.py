"""Servers that tests start take a class archive, which halves the CPU of a start, where one is built by then.

python -m tests.spark.quick_start        # builds it; a whole suite has that done beside its first tests
"""

from __future__ import annotations

from typing import Any

from mooring.spark.sites.class_archive import build_archive, usable_archive
from mooring.spark.sites.embedded_site import EmbeddedOptions
from mooring.spark.sites.java import find_java


def quick_start(**options: Any) -> EmbeddedOptions:
    return EmbeddedOptions(class_archive=usable_archive(find_java()), **options)


if __name__ == "__main__":
    java = find_java()
    if usable_archive(java) is None:
        build_archive(java)
