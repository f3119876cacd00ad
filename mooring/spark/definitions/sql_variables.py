"""`${name}` in SQL files: settings of the spec, and what `SET` said before in the same file.

Spark replaces them in a query by itself, from the session; here they are replaced in whole statements, since
the name of a dataset may be one too. What is not known stays as it is, as in Spark.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}")
_OWN = {None, "spark", "sparkconf", "hivevar", "hiveconf"}


def substituted(text: str, variables: Mapping[str, str]) -> str:
    """
    >>> substituted("FROM ${db}.x WHERE a > ${hiveconf:low} AND ${b}", {"db": "sales", "low": "3"})
    'FROM sales.x WHERE a > 3 AND ${b}'
    """

    def value(match: re.Match[str]) -> str:
        prefix, name = match.groups()
        if prefix == "env":
            return os.environ.get(name, match[0])
        return variables.get(name, match[0]) if prefix in _OWN else match[0]

    return _REFERENCE.sub(value, text)
