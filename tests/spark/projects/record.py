"""Records plain Spark's tables as golden data: `python -m tests.spark.projects.record [PROJECT...]`.

Every project is run by `spark-pipelines run` at a server that is started for it. Once its tables are in the
catalog, plain Spark starts flows before those that they read have ended, and rows then come with a later
update: so what arrives after the first one is updated until nothing changes any more. That would not do for
materialized views over views, which such updates empty again and again: a project with `input-2` has none.
Where a view is read as a stream, every update delivers its rows again, so each is recorded as it is.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.java import find_java
from tests.spark.projects import golden, plain_spark

MOST_UPDATES = 10
GROWING = {"view_streams"}
"""Projects with tables that every update adds rows to, whether or not something has arrived."""


def recorded(name: str, scratch: Path, site: EmbeddedSite) -> list[golden.Tables]:
    """The project's tables after what it has at first, and after what arrives later."""
    folder, made = golden.copy_of(name, scratch, for_plain_spark=True), list[golden.Tables]()
    with plain_spark.catalog_for(folder, site.endpoint):
        for number in range(golden.updates_of(name)):
            if number:
                golden.arrive(folder)
            settles = number > 0 and name not in GROWING
            rows = _updated(folder, site) if settles else _updated_once(folder, site)
            made.append({table: lines for table, lines in rows.items() if not table.startswith("part_")})
    return made


def _updated(folder: Path, site: EmbeddedSite) -> golden.Tables:
    """Until nothing changes."""
    before = _updated_once(folder, site)
    for _ in range(MOST_UPDATES):
        if (rows := _updated_once(folder, site)) == before:
            return rows
        before = rows
    raise AssertionError(f"{folder.name} still changes after {MOST_UPDATES} updates")


def _updated_once(folder: Path, site: EmbeddedSite) -> golden.Tables:
    plain_spark.update(folder, site.endpoint)
    return plain_spark.all_rows(folder, site.endpoint)


@contextmanager
def server(folder: Path) -> Iterator[EmbeddedSite]:
    options = EmbeddedOptions(start_timeout_s=600.0)
    site = EmbeddedSite("plain", folder, find_java(), capacity=2, options=options)
    site.start()
    try:
        site.wait_ready()
        yield site
    finally:
        site.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        with server(scratch / "site") as site:
            for name in sys.argv[1:] or golden.NAMES:
                sys.stdout.write(f"{name}\n")
                sys.stdout.flush()
                golden.write_golden(name, recorded(name, scratch, site))


if __name__ == "__main__":
    main()
