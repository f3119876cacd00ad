"""The jars of a Kafka broker and of Spark's connectors (Kafka, Avro), from Maven Central, kept elsewhere.

    python -m tests.spark.connectors.kafka_jars        # fetches what is missing, about 55 MB

`kafka_jars.lock` pins every jar by its SHA-256. The connector's own packages name parts that were never
published, so they are listed one by one rather than resolved.
"""

from __future__ import annotations

import hashlib
import os
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mooring.atomic_files import write_whole

CENTRAL = "https://repo1.maven.org/maven2"
LOCK = Path(__file__).with_suffix(".lock")
_SILENCE_S = 20.0

Part = Literal["broker", "connector"]


@dataclass(frozen=True)
class Jar:
    part: Part
    group: str
    name: str
    version: str
    sha256: str

    @property
    def address(self) -> str:
        return f"{CENTRAL}/{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file.name}"

    @property
    def file(self) -> Path:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "mooring-tests" / self.part / f"{self.name}-{self.version}.jar"

    def fetch(self) -> None:
        """Unless it is here; an OSError says why it cannot be had."""
        if self.file.is_file():
            return
        with urllib.request.urlopen(self.address, timeout=_SILENCE_S) as answer:
            content = answer.read()
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise OSError(f"{self.address} has the SHA-256 {found}, not the pinned {self.sha256}")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.file, content)


def pinned_jars() -> list[Jar]:
    jars = []
    for line in LOCK.read_text().splitlines():
        part, coordinates, sha256 = line.split()
        assert part in ("broker", "connector")
        group, name, version = coordinates.split(":")
        jars.append(Jar("broker" if part == "broker" else "connector", group, name, version, sha256))
    return jars


def fetch_all() -> dict[Part, list[Path]]:
    """Every pinned jar as a file on this machine."""
    jars = pinned_jars()
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(Jar.fetch, jars))
    return {part: [jar.file for jar in jars if jar.part == part] for part in ("broker", "connector")}


if __name__ == "__main__":
    try:
        fetch_all()
    except OSError as failure:
        sys.exit(f"Kafka's jars cannot be had, so tests over a real broker will be skipped: {failure}")
