"""What Spark itself lists as its SQL settings, internal ones too, which no session shows.

    python -m tests.spark.definitions.listed_settings    # those that Mooring neither states nor leaves alone

To be run with every new version of Spark. What it prints goes into
mooring/spark/definitions/result_settings.py.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from mooring.spark.definitions.result_settings import LEFT_ALONE, PREFIX, STATED


def listed_settings() -> dict[str, tuple[str | None, str]]:
    """Setting -> its default and what Spark says of it."""
    builder: Any = SparkSession.builder
    session = builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        internal = session._jvm.org.apache.spark.sql.internal
        entries = getattr(getattr(internal, "SQLConf$"), "MODULE$").getConfigEntries().iterator()
        conf, found = session._jsparkSession.conf(), {}
        while entries.hasNext():
            entry = entries.next()
            default = conf.getOption(entry.key())
            found[entry.key()] = (default.get() if default.isDefined() else None, entry.doc())
        return found
    finally:
        session.stop()


def main() -> None:
    found = listed_settings()
    for name, (default, doc) in sorted(found.items()):
        if name in STATED:
            stated = STATED[name]
            if stated != default and name != f"{PREFIX}session.timeZone":
                print(f"{name}: {stated!r} is stated, Spark's default is {default!r}")  # noqa: T201
        elif name.startswith(PREFIX) and not LEFT_ALONE.match(name):
            print(f"{name} (default {default!r}) is neither stated nor left alone: {doc}")  # noqa: T201
    for name in STATED.keys() - found.keys():
        print(f"{name} is stated, and Spark has no such setting")  # noqa: T201
    print(f"{len(found)} settings, {len(STATED)} stated")  # noqa: T201


if __name__ == "__main__":
    main()
