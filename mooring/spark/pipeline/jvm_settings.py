"""`heap_mb` and `jvm_options` of a site in `mooring.yml`.

Options are on a command line, which all users of the machine can read, so one that carries a secret is
refused. So is one that would open the site to others, or that has a place of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mooring.model.problem.reading.fields import Check, fail, names, positive, read_fields
from mooring.spark.definitions.session_settings import is_hidden
from mooring.spark.sites.site_jvm import LEAST_HEAP_MB, SiteJvm

_ALLOWED = re.compile(r"-XX:[+-]?\w+(=.*)?|-X(log|mn|ms|ss|int|comp|mixed|share)\S*|-D[\w.]+=.*")
_REMEDIES = {
    r"-Xmx|-XX:(MaxHeapSize|MaxRAM\w*|InitialRAMPercentage)=": "state heap_mb instead",
    r"-Dspark\.": "state it under `configuration` of the pipeline spec",
    r"-D(com\.sun\.management|java\.rmi|jdk\.)": "remove it: it lets others into the site",
    r"-D(java\.io\.tmpdir|log4j)": "remove it: Mooring sets it by itself",
    r"-XX:(Flags|VMOptionsFile)=": "state the options of that file themselves",
}
_EXPECTED = "an option -XX:..., -Xlog:..., -Xms..., -Xmn..., -Xss... or -Dname=value"


def read_jvm(raw: Mapping[str, object], path: str) -> SiteJvm:
    """From the keys `heap_mb` and `jvm_options` of a site."""
    fields = read_fields(raw, JVM_FIELDS, path)
    heap_mb, options = fields.get("heap_mb"), fields.get("jvm_options", ())
    assert isinstance(options, tuple)
    return SiteJvm(None if heap_mb is None else int(str(heap_mb)), options)


def _heap_mb(value: object, path: str) -> int:
    heap_mb = round(positive(value, path))
    if heap_mb < LEAST_HEAP_MB:
        fail(path, f"at least {LEAST_HEAP_MB}, since Spark starts with no smaller heap", value)
    return heap_mb


def _options(value: object, path: str) -> tuple[str, ...]:
    options = names(value, path)
    for option in options:
        for refused, remedy in _REMEDIES.items():
            if re.match(refused, option):
                fail(path, _EXPECTED, option, remedy=remedy)
        if not _ALLOWED.fullmatch(option):
            fail(path, _EXPECTED, option)
        if is_hidden(option):
            fail(
                path,
                "options without secrets",
                option.partition("=")[0],
                remedy="state it under `configuration` of the pipeline spec: all users of a machine can read "
                "command lines",
            )
    return options


JVM_FIELDS: dict[str, Check] = {"heap_mb": _heap_mb, "jvm_options": _options}
