"""The jars that a project brings along: those of `mooring.yml` and those of the pipeline spec's settings.

`spark-submit` reads `spark.jars` and its kin before it starts a server. Embedded sites are started without
it, so what it would do with them is done here.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mooring.errors import InputError

LAUNCH_SETTINGS = frozenset(
    {
        "spark.jars",
        "spark.jars.packages",
        "spark.jars.repositories",
        "spark.jars.excludes",
        "spark.jars.ivy",
        "spark.jars.ivySettings",
    }
)
"""Read before a server starts; a session of a running one cannot take them."""


@dataclass(frozen=True)
class WantedJars:
    files: tuple[Path, ...] = ()
    downloads: tuple[str, ...] = ()
    """Addresses, perhaps with `#sha256=...` behind."""
    packages: tuple[str, ...] = ()
    """Maven coordinates, `group:artifact:version`; what they need comes along."""
    repositories: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    """Coordinates, `group:artifact`, that are not to come along."""
    ivy_folder: str = ""
    ivy_settings: str = ""

    def __bool__(self) -> bool:
        return bool(self.files or self.downloads or self.packages)

    @property
    def names(self) -> list[str]:
        """As a message lists them."""
        return [path.name for path in self.files] + [*map(jar_name, self.downloads), *self.packages]


def wanted_jars(
    configuration: Mapping[str, str],
    jars: Iterable[str],
    packages: Iterable[str],
    *,
    folder: Path,
    spec_file: Path,
    settings_file: Path,
) -> WantedJars:
    """`jars` and `packages` are those of `mooring.yml`, relative to the project; `configuration` is the
    spec's, relative to where the command runs, as under `spark-pipelines`.
    """
    files: dict[Path, None] = {}
    downloads: dict[str, None] = {}
    stated: list[tuple[str, tuple[Path, ...], Path, str]]
    stated = [(text, (folder,), settings_file, "jars") for text in jars]
    for text in _listed(configuration, "spark.jars"):
        stated.append((text, (Path.cwd(), folder), spec_file, "configuration.spark.jars"))
    for text, bases, file, field in stated:
        if urlsplit(text).scheme in ("http", "https"):
            downloads[text] = None
        else:
            files.update(dict.fromkeys(_local(text, bases, file, field)))
    coordinates = dict.fromkeys(_coordinates(packages, settings_file, "packages"))
    field = "configuration.spark.jars.packages"
    named = _listed(configuration, "spark.jars.packages")
    coordinates.update(dict.fromkeys(_coordinates(named, spec_file, field)))
    return WantedJars(
        files=tuple(files),
        downloads=tuple(downloads),
        packages=tuple(coordinates),
        repositories=tuple(_listed(configuration, "spark.jars.repositories")),
        excludes=tuple(_listed(configuration, "spark.jars.excludes")),
        ivy_folder=configuration.get("spark.jars.ivy", ""),
        ivy_settings=configuration.get("spark.jars.ivySettings", ""),
    )


def jar_name(address: str) -> str:
    """The file name at the end of an address.

    >>> jar_name("https://example.com/a/b-1.jar#sha256=00")
    'b-1.jar'
    """
    return urlsplit(address).path.rsplit("/", 1)[-1]


def _listed(configuration: Mapping[str, str], key: str) -> list[str]:
    return [part.strip() for part in configuration.get(key, "").split(",") if part.strip()]


def _local(text: str, bases: tuple[Path, ...], file: Path, field: str) -> list[Path]:
    """The files that a path, or a pattern such as `lib/*.jar`, stands for."""
    scheme, path = urlsplit(text).scheme, text
    if scheme in ("file", "local"):
        path = urlsplit(text).path
    elif scheme:
        raise InputError(
            f"found {text!r}, expected a jar on this machine or one that HTTP can fetch",
            file=file,
            field=field,
            remedy="copy it to this machine and give its path",
        )
    for base in bases:
        found = sorted(Path(name) for name in glob.glob(str(base / path)) if Path(name).is_file())
        if found:
            return found
    raise InputError(
        f"found no jar {text!r} in {' or '.join(str(base) for base in dict.fromkeys(bases))}",
        file=file,
        field=field,
        remedy="correct the path, or name the package it belongs to under `packages`",
    )


def _coordinates(packages: Iterable[str], file: Path, field: str) -> list[str]:
    for text in packages:
        parts = text.replace("/", ":").split(":")
        if len(parts) != 3 or not all(parts):
            raise InputError(
                f"found {text!r}, expected group:artifact:version",
                file=file,
                field=field,
                remedy="for example org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0",
            )
    return list(packages)
