"""The spec's `configuration` in a session: set where that can be done, or as the site was started with it.

Settings that Spark fixes when it starts are given to embedded sites on their way; an endpoint that runs
already has them as it has them, and is asked. What rows depend on beyond that is set too, so that a row means
the same at every site.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.pipelines.cli import PipelineSpec
from pyspark.sql import SparkSession

from mooring.errors import Gathered, InputError
from mooring.spark.connectors.wanted_jars import LAUNCH_SETTINGS
from mooring.spark.definitions.result_settings import settle_results, wanted_results

_LEFT_TO_MOORING = (
    *("spark.master", "spark.remote", "spark.api.mode", "spark.app.name", "spark.local.dir"),
    *("spark.sql.catalogImplementation", "spark.driver.host", "spark.driver.bindAddress"),
    *("spark.connect.", "spark.submit."),
)
"""What says where a site runs and how it is reached; of a whole family where it ends in a dot."""

_GUARDS = (
    *("spark.authenticate", "spark.authenticate.", "spark.connect.authenticate."),
    *("spark.connect.grpc.binding.", "spark.connect.grpc.interceptor."),
)
"""What keeps others away from an embedded site. Not even a spec that means well can change it."""
_HIDDEN = re.compile(r"(?i)secret|password|token|credential|access[.]?key|account[.]?key|sas\b")
"""Names whose values nobody is shown; Spark's own `spark.redaction.regex` is the first half of them."""


def shown_value(name: str, value: str) -> str:
    """
    >>> shown_value("spark.hadoop.fs.s3a.secret.key", "x"), shown_value("spark.sql.shuffle.partitions", "2")
    ('a hidden value', "'2'")
    """
    return "a hidden value" if is_hidden(name) else repr(value)


def is_hidden(name: str) -> bool:
    """Whether what goes by that name may be a secret."""
    return _HIDDEN.search(name) is not None


def is_left_to_mooring(name: str) -> bool:
    return _is_one_of(name, _LEFT_TO_MOORING)


def _is_one_of(name: str, names: Sequence[str]) -> bool:
    return any(name == own or (own.endswith(".") and name.startswith(own)) for own in names)


def launch_settings(spec: PipelineSpec, spec_file: Path) -> dict[str, str]:
    """What embedded sites are started with; `InputError` for what guards them."""
    gather = Gathered()
    for name in spec.configuration:
        if _is_one_of(name, _GUARDS):
            gather.note(
                InputError(
                    "found a setting for access control of a site, which Mooring sets by itself",
                    file=spec_file,
                    field=f"configuration.{name}",
                    remedy="remove it; an existing endpoint keeps the settings that it was started with",
                )
            )
    gather.raise_any()
    return {
        name: value
        for name, value in spec.configuration.items()
        if name.startswith("spark.") and name not in LAUNCH_SETTINGS and not is_left_to_mooring(name)
    }


def use_settings(session: SparkSession, spec: PipelineSpec, spec_file: Path, site: str) -> None:
    """Set what the spec says for this session, and what rows depend on; `InputError` for what the site cannot
    take any more.
    """
    gather = Gathered()
    wanted = wanted_results(spec.configuration)
    for name, has in refused_settings(session, spec.configuration).items():
        shown = "does not set" if has is None else f"sets to {shown_value(name, has)}"
        gather.note(
            InputError(
                f"found {shown_value(name, spec.configuration[name])}, which the site {site!r} {shown}: "
                "Spark reads it at its start only",
                file=spec_file,
                field=f"configuration.{name}",
                remedy="start that endpoint with it, remove it, or let Mooring start the site (no `connect`)",
            )
        )
    for name, (value, why) in settle_results(session, wanted).items():
        if name not in spec.configuration:
            gather.note(
                InputError(
                    f"the site {site!r} has {value!r} and does not take {wanted[name]!r}, which rows depend "
                    f"on: {why}",
                    file=spec_file,
                    field=f"configuration.{name}",
                    remedy=f"start that endpoint without {name}, or state one value for all sites here",
                )
            )
    gather.raise_any()


def refused_settings(session: SparkSession, wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Setting -> what the site has instead, of those it can neither take nor already has so."""
    refused = {}
    for name, value in wanted.items():
        if name in LAUNCH_SETTINGS or is_left_to_mooring(name):
            continue
        try:
            session.conf.set(name, value)
        except PySparkException:
            has = session.conf.get(name, None)
            if has != value:
                refused[name] = has
    return refused


def setting_notes(spec: PipelineSpec) -> list[str]:
    """Which settings of the spec are not followed."""
    left = [name for name in spec.configuration if is_left_to_mooring(name)]
    return [f"{', '.join(left)} of the pipeline spec is ignored: every site has its own"] if left else []
