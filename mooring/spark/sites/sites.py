"""The sites of a run: embedded ones started side by side, existing ones reached by their address."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from mooring.errors import EngineError, InputError
from mooring.model.problem.site import Connection, Site
from mooring.spark.sites.class_archive import usable_archive
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint, close_session, open_session
from mooring.spark.sites.file_name import file_name
from mooring.spark.sites.java import Java, find_java
from mooring.spark.sites.neighbours import Contention
from mooring.spark.sites.process_tree import TreeUsage, listening_pid
from mooring.spark.sites.site_calls import FIRST_PATIENCE_S, SiteCalls
from mooring.spark.sites.spark_ui import Cluster

_NOWHERE_YET = Endpoint("sc://localhost:1")
"""Of an embedded site that has not been started: it gets its own when it is up, and is lost until then."""


@dataclass(frozen=True)
class SiteHandle:
    """One site, ready to take sessions."""

    name: str
    capacity: float
    endpoint: Endpoint
    embedded: EmbeddedSite | None
    cluster: Cluster = field(default_factory=Cluster)
    """What is stated of its executors, where they are not ours."""

    @property
    def note(self) -> str:
        """How the site is run, for the report."""
        if self.embedded is not None:
            return self.embedded.note
        seen = "load estimated" if self.cluster.ui is None else f"executors seen at {self.cluster.ui.shown}"
        return f"existing endpoint; {seen}"

    @property
    def durable(self) -> bool:
        """Whether what Spark commits there survives a power cut by itself. Elsewhere its files have to be
        synced before anything goes that they were made from.
        """
        return self.embedded is not None and self.embedded.durable

    def usage(self) -> TreeUsage | None:
        """None where the site's processes cannot be seen; its load is then an estimate."""
        return None if self.embedded is None else self.embedded.usage()

    def server_pid(self) -> int | None:
        """Of an existing endpoint on this machine, which serves others too; None where it cannot be seen."""
        address = self.endpoint.connection.address
        return listening_pid(address.port) if self.embedded is None and address.is_loopback else None

    @property
    def capacity_now(self) -> float:
        """Cores it may use, as its control group says; as stated where nothing can be seen of it."""
        limit = None if self.embedded is None else self.embedded.limit_cores()
        return self.capacity if limit is None else limit

    def held_back_s(self) -> float | None:
        """How long its control group has held it back so far; None where nothing can be seen of it."""
        return None if self.embedded is None else self.embedded.held_back_s()

    @property
    def slots(self) -> int:
        """Tasks that it has cores for at a time."""
        return max(1, math.ceil(self.capacity)) if self.embedded is None else self.embedded.cores

    def contention(self, usage: TreeUsage) -> Contention | None:
        """How long its threads waited for a CPU so far; None where nothing can be seen of it."""
        return None if self.embedded is None else self.embedded.contention(usage)

    def hold_to_capacity(self) -> None:
        """From now on an embedded site gets no more CPU than its capacity, where the machine allows it."""
        if self.embedded is not None:
            self.embedded.hold_to_capacity()

    def is_alive(self) -> bool:
        return self.embedded is None or self.embedded.is_alive()


class SiteHandles(Mapping[str, SiteHandle]):
    """The sites of a run by name. A site that came back has another endpoint, so its handle is replaced."""

    def __init__(self, handles: Iterable[SiteHandle]) -> None:
        self._handles = {handle.name: handle for handle in handles}

    def __getitem__(self, name: str) -> SiteHandle:
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def of(self, name: str) -> SiteHandle:
        """The site of that name; `EngineError` if there is none."""
        if name not in self._handles:
            raise EngineError(f"no site {name!r}; there are {', '.join(self._handles)}")
        return self._handles[name]

    def replace(self, handle: SiteHandle) -> None:
        self._handles[handle.name] = handle

    def pulse(self, name: str) -> None:
        """Returns once the site has answered something that takes no slot; raises where it does not."""
        _try_out(self.of(name).endpoint)

    def hold_to_capacity(self) -> None:
        for handle in self._handles.values():
            handle.hold_to_capacity()


@contextlib.contextmanager
def running_sites(
    sites: Sequence[Site],
    folder: Path,
    options: EmbeddedOptions | None = None,
    clusters: Mapping[str, Cluster] = MappingProxyType({}),
) -> Iterator[SiteHandles]:
    """All sites, up and answering; embedded ones end with the block, however it ends."""
    existing = {site.name: _endpoint(site.name, site.connect) for site in sites if site.connect is not None}
    with contextlib.ExitStack() as stack:
        embedded: dict[str, EmbeddedSite] = {}
        if any(site.connect is None for site in sites):
            java = find_java()
            chosen = options or EmbeddedOptions(class_archive=usable_archive(java))
            for site in sites:
                if site.connect is None:
                    made = _embedded(site, folder, java, chosen)
                    stack.callback(made.stop)
                    made.start()
                    embedded[site.name] = made
        made_ready = []
        calls = SiteCalls(FIRST_PATIENCE_S)
        stack.callback(calls.close)
        for site in sites:
            if (own := embedded.get(site.name)) is not None:
                endpoint = own.wait_ready()
            else:
                endpoint = existing[site.name]
                try:
                    calls.ask(site.name, partial(_try_out, endpoint))
                except EngineError as failure:
                    message = f"site {site.name!r}: {failure.message}"
                    raise EngineError(message, remedy=failure.remedy) from failure
            cluster = clusters.get(site.name, Cluster())
            made_ready.append(SiteHandle(site.name, site.capacity, endpoint, own, cluster))
        handles = SiteHandles(made_ready)
        stack.callback(lambda: _stop_all(each for each in handles.values() if each.name not in embedded))
        yield handles


def _try_out(endpoint: Endpoint) -> None:
    close_session(open_session(endpoint))


def joining_site(
    site: Site, folder: Path, options: EmbeddedOptions | None, cluster: Cluster | None = None
) -> SiteHandle:
    """A site that is not up yet: whoever brings lost sites back starts it, or asks until it answers."""
    if site.connect is not None:
        endpoint = _endpoint(site.name, site.connect)
        return SiteHandle(site.name, site.capacity, endpoint, None, cluster or Cluster())
    java = find_java()
    chosen = options or EmbeddedOptions(class_archive=usable_archive(java))
    return SiteHandle(site.name, site.capacity, _NOWHERE_YET, _embedded(site, folder, java, chosen))


def _embedded(site: Site, folder: Path, java: Java, options: EmbeddedOptions) -> EmbeddedSite:
    return EmbeddedSite(
        site.name,
        folder / file_name(site.name),
        java,
        capacity=site.capacity,
        memory_mb=site.memory_mb,
        options=options,
    )


def _stop_all(handles: Iterable[SiteHandle]) -> None:
    for handle in handles:
        if handle.embedded is not None:
            handle.embedded.stop()


def _endpoint(site: str, connection: Connection) -> Endpoint:
    """With a token that can be had: seen before anything is started."""
    endpoint = Endpoint(connection)
    try:
        endpoint.check_token()
    except InputError as error:
        error.field = f"sites.{site}.{error.field}"
        raise
    return endpoint
