"""The surroundings of operators: sites, streams, and the network between."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mooring.errors import Gathered
from mooring.model.problem.coordinates import CoordinateReader, position
from mooring.model.problem.goals import amounts, share, utilisation
from mooring.model.problem.history import RateHistory, read_history_columns
from mooring.model.problem.matrices import read_network
from mooring.model.problem.network import Network
from mooring.model.problem.reading.address import EXAMPLE
from mooring.model.problem.reading.companion import companion_file
from mooring.model.problem.reading.fields import (
    MOST_PROBLEMS,
    Check,
    boolean,
    child,
    fail,
    name,
    names,
    noted_entries,
    number,
    own_name,
    positive,
    read_fields,
    refuse_reference,
    text,
)
from mooring.model.problem.site import Connection, Site, check_connection
from mooring.model.problem.stream import Stream

CONNECT_FIELDS: dict[str, Check] = {
    "url": text,
    "token_env": name,
    "token_file": name,
    "ca_file": name,
    "plain_text": boolean,
}


def _connection(value: object, path: str) -> Connection:
    """An address alone, or with where its token is and who vouches for it."""
    fields: dict[str, Any]
    if isinstance(value, Mapping):
        fields = read_fields(value, CONNECT_FIELDS, path)
        if "url" not in fields:
            fail(f"{path}.url", f"the address, such as {EXAMPLE}", None)
    else:
        fields = {"url": text(value, path)}
    return check_connection(Connection(**fields), path)


SITE_FIELDS: dict[str, Check] = {
    "capacity": positive,
    "memory_mb": positive,
    "at_ms": position,
    "height_ms": number,
    "labels": names,
    "max_utilisation": utilisation,
    "reserve": share,
    "resources": amounts,
    "price": number,
    "connect": _connection,
}
STREAM_FIELDS: dict[str, Check] = {
    "site": name,
    "rate": number,
    "min_rate": number,
    "max_rate": number,
    "variability": number,
    "bytes": number,
    "rates": name,
}


@dataclass(frozen=True)
class Surroundings:
    sites: tuple[Site, ...]
    streams: tuple[Stream, ...]
    network: Network
    history: RateHistory | None

    @property
    def places(self) -> set[str]:
        """What goals may call sites by."""
        return {*self.site_names, *(label for site in self.sites for label in site.labels)}

    @property
    def site_names(self) -> set[str]:
        return {site.name for site in self.sites}


def read_surroundings(sections: Mapping[str, Any], folder: Path | None) -> Surroundings:
    """From the sections of a file. `folder` is where files it names are looked for; None: nowhere."""
    gather = Gathered(MOST_PROBLEMS)
    section, latency = sections["sites"], sections.get("latency_ms")
    wide = CoordinateReader(latency is not None)
    sites = noted_entries(section, "sites", partial(_read_site, folder=folder, wide=wide), gather)
    known = [
        key for key in section if isinstance(key, str)
    ]  # what is wrong with a site is told of it, not of those who name it
    columns = _HistoryFiles(folder)
    read = partial(_read_stream, sites=set(known), columns=columns)
    streams = tuple(noted_entries(sections.get("streams") or {}, "streams", read, gather))
    with gather.noting():
        network = read_network(latency, sections.get("network"), known, folder)
    gather.raise_any()
    network = replace(network, latency_ms=wide.latencies(network.latency_ms))
    return Surroundings(tuple(sites), streams, network, columns.history(streams))


def entries(section: Any, path: str) -> list[tuple[str, object]]:
    return [(own_name(key, child(path, key)), raw) for key, raw in section.items()]


def _read_site(key: str, raw: object, folder: Path | None, wide: CoordinateReader) -> Site:
    fields: dict[str, Any] = read_fields(raw, SITE_FIELDS, f"sites.{key}")
    if "capacity" not in fields:
        fail(f"sites.{key}.capacity", "the site's capacity in cores", None)
    if folder is not None and "connect" in fields:
        fields["connect"] = _with_whole_paths(fields["connect"], folder)
    wide.take(key, fields.pop("at_ms", None), fields.pop("height_ms", None))
    return Site(name=key, **fields)


def _with_whole_paths(connection: Connection, folder: Path) -> Connection:
    """Files are named as from the folder of the file that names them."""
    whole = {
        field: str(folder.resolve() / named)
        for field in ("token_file", "ca_file")
        if (named := getattr(connection, field)) is not None
    }
    return msgspec.structs.replace(connection, **whole)


def check_site(fields: Mapping[str, object], known: Collection[str], path: str) -> None:
    site = fields.get("site")
    if site is not None and site not in known:
        refuse_reference(str(site), known, f"{path}.site", "a site")


@dataclass
class _HistoryFiles:
    """History files named by streams, each read once, and the samples they hold of each stream."""

    folder: Path | None

    def __post_init__(self) -> None:
        self._files: dict[str, dict[str, Any]] = {}
        self._columns: dict[str, Any] = {}

    def read(self, file: str, stream: str, path: str) -> Any:
        if file not in self._files:
            self._files[file] = read_history_columns(companion_file(self.folder, file, path))
        columns = self._files[file]
        column = columns.get(stream, next(iter(columns.values())) if len(columns) == 1 else None)
        if column is None:
            refuse_reference(stream, columns, path, f"a file with a column named after the stream, in {file}")
        self._columns[stream] = column
        return column

    def history(self, streams: tuple[Stream, ...]) -> RateHistory | None:
        if not self._columns:
            return None
        rows = min(len(column) for column in self._columns.values())
        return RateHistory(
            np.column_stack([self._columns.get(s.name, np.full(rows, s.rate))[:rows] for s in streams])
        )


def _read_stream(key: str, raw: object, sites: Collection[str], columns: _HistoryFiles) -> Stream:
    path = f"streams.{key}"
    fields: dict[str, Any] = read_fields(raw, STREAM_FIELDS, path)
    check_site(fields, sites, path)
    if "rates" in fields:
        mean = float(np.mean(columns.read(fields["rates"], key, f"{path}.rates")))
        fields.setdefault("rate", mean)
    elif "rate" not in fields:
        fail(f"{path}.rate", "the present rate in tuples per second, or `rates` with a history file", None)
    low, high, rate = fields.get("min_rate", 0.0), fields.get("max_rate"), fields["rate"]
    if high is not None and high < low:
        fail(f"{path}.max_rate", f"at least min_rate, {low:g}", high)
    if not low <= rate <= (np.inf if high is None else high):
        fail(f"{path}.rate", "a rate between min_rate and max_rate", rate)
    return Stream(name=key, **fields)
