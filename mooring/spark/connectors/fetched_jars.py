"""Jars fetched once into the user's cache: downloads by address, packages by Spark's own resolver.

What was fetched before is used without asking the network again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark

from mooring.atomic_files import write_whole
from mooring.disk import DISK
from mooring.errors import EngineError, InputError
from mooring.spark.connectors.wanted_jars import WantedJars, jar_name
from mooring.spark.sites.java import Java, argument_file
from mooring.spark.sites.user_cache import kept_folder

_RESOLVER = Path(__file__).parent / "classes" / "ResolvePackages.java"
_COMPILER = "org.codehaus.janino.SimpleCompiler"
_SILENCE_S = 60.0
"""A server that sends nothing for so long is given up."""
_RESOLVING_S = 900.0
_MISSING = re.compile(r"([\w.-]+)#([\w.-]+);([\w.-]+): not found")
_UNREACHED = re.compile(r"Host \S+ not found|UnknownHost|[Cc]onnection (?:refused|timed out)")
OFFLINE = (
    "run once with network; or copy the jars here by hand and list their paths under `jars` in mooring.yml"
)


def jars_folder() -> Path:
    return kept_folder() / "jars"


def fetched_jars(wanted: WantedJars, java: Java, folder: Path | None = None) -> tuple[Path, ...]:
    """All wanted jars as files on this machine, each once. `folder` is the cache."""
    if not wanted:
        return ()
    folder = folder or jars_folder()
    found = [*wanted.files, *(_download(address, folder) for address in wanted.downloads)]
    if wanted.packages:
        found += _resolved(wanted, java, folder)
    for path in found:
        if os.pathsep in str(path):
            raise InputError(
                f"has a {os.pathsep!r} in its name, which divides a class path",
                file=path,
                remedy="give the jar another name or place",
            )
    return tuple(dict.fromkeys(found))


def _download(address: str, folder: Path) -> Path:
    plain, _, expected = address.partition("#sha256=")
    home = folder / "downloads" / hashlib.sha256(address.encode()).hexdigest()[:16]
    jar = home / (jar_name(plain) or "download.jar")
    if _is_whole(jar):
        return jar
    try:
        with urllib.request.urlopen(plain, timeout=_SILENCE_S) as answer:
            content = answer.read()
    except (urllib.error.URLError, OSError) as failure:
        raise EngineError(f"the jar {plain} cannot be fetched: {failure}", remedy=OFFLINE) from failure
    digest = hashlib.sha256(content).hexdigest()
    if expected and digest != expected.lower():
        raise EngineError(
            f"the jar {plain} has another checksum than mooring.yml states: SHA-256 {digest}, expected "
            f"{expected}",
            remedy="correct the checksum in mooring.yml, or replace the jar",
        )
    home.mkdir(parents=True, exist_ok=True)
    write_whole(jar, content, on_disk=True)
    return jar


def _is_whole(jar: Path) -> bool:
    """It is there, and no power cut left it empty."""
    return jar.is_file() and jar.stat().st_size > 0


def _resolved(wanted: WantedJars, java: Java, folder: Path) -> list[Path]:
    """The jars of the packages and of what these need."""
    asked = [
        *(wanted.packages, wanted.repositories, wanted.excludes),
        *(wanted.ivy_folder, wanted.ivy_settings, pyspark.__version__),
    ]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:16]
    note = folder / f"packages-{key}.json"
    if (known := _noted(note)) is not None:
        return known
    folder.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(folder):
        if (known := _noted(note)) is None:
            known = _resolve(wanted, java, folder)
            DISK.sync(known)
            write_whole(note, json.dumps([str(path) for path in known]), on_disk=True)
    return known


def _noted(note: Path) -> list[Path] | None:
    """The jars as they were found before; None where one of them is gone."""
    with contextlib.suppress(OSError, ValueError):
        found = [Path(text) for text in json.loads(note.read_text())]
        return found if all(map(_is_whole, found)) else None
    return None


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two resolvers would write the same files."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _resolve(wanted: WantedJars, java: Java, folder: Path) -> list[Path]:
    classes = Path(pyspark.__file__).parent / "jars" / "*"
    order = [
        *(",".join(wanted.packages), ",".join(wanted.repositories), ",".join(wanted.excludes)),
        *(wanted.ivy_folder or str(folder / "ivy"), wanted.ivy_settings),
    ]
    flags = ["-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-cp", str(classes)]
    # By a file of our own: the address of a repository may hold a password.
    with tempfile.NamedTemporaryFile("w", prefix="mooring-packages-") as asked:
        asked.write(argument_file([*flags, _COMPILER, str(_RESOLVER), "mooring.ResolvePackages", *order]))
        asked.flush()
        return _asked([str(java.path), f"@{asked.name}"], wanted)


def _asked(command: list[str], wanted: WantedJars) -> list[Path]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVING_S, check=True)
    except subprocess.CalledProcessError as failure:
        raise _unresolved(wanted, failure.stdout + failure.stderr) from failure
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise EngineError(f"the packages cannot be resolved: {failure}", remedy=OFFLINE) from failure
    return [Path(line) for line in done.stdout.splitlines() if line.endswith(".jar")]


def _unresolved(wanted: WantedJars, told: str) -> EngineError:
    names = dict.fromkeys(":".join(parts) for parts in _MISSING.findall(told))
    what = f"not found: {', '.join(names)}" if names else told.strip().splitlines()[-1]
    why = " (a repository could not be reached)" if _UNREACHED.search(told) else ""
    return EngineError(
        f"the packages {', '.join(wanted.packages)} cannot be resolved; {what}{why}", remedy=OFFLINE
    )
