"""A Spark Connect endpoint that no run starts or ends, in a network namespace of its own if one can be had.

It sees the same disk as everybody, so cut off from the network it goes on reading and writing there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks._agent_places import AgentPlace
from mooring.model.problem.site import Connection
from mooring.spark.sites.class_archive import usable_archive
from mooring.spark.sites.embedded_site import EmbeddedOptions, EmbeddedSite
from mooring.spark.sites.endpoint import Endpoint
from mooring.spark.sites.java import find_java


@dataclass(frozen=True)
class FarSite:
    place: AgentPlace
    url: str
    """With its token."""
    log: Path

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(Connection(url=self.url, plain_text=True))

    def failures(self) -> int:
        """Queries that have ended with an error there so far."""
        return self.log.read_text(errors="replace").count("terminated with error")


@contextmanager
def far_site(
    place: AgentPlace, folder: Path, jars: Sequence[Path], environment: Mapping[str, str]
) -> Iterator[FarSite]:
    """`jars`: connectors that its server starts with."""
    words = [place.host, str(folder), *map(str, jars)]
    process = subprocess.Popen(
        [*place.before, sys.executable, "-m", "lab.benchmarks._far_site", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"the endpoint at {place.host} does not start; see {folder}")
        port, token = json.loads(said)
        yield FarSite(place, f"sc://{place.host}:{port}/;token={token}", folder / "server.log")
    finally:
        process.stdin.close()
        process.wait(60)


def main(host: str, folder: Path, jars: Sequence[Path]) -> None:
    """The server itself, for as long as standard input is open."""
    java = find_java()
    options = EmbeddedOptions(
        class_archive=usable_archive(java),
        settings={"spark.connect.grpc.binding.address": host},
        jars=tuple(jars),
    )
    site = EmbeddedSite("far", folder, java, options=options)
    site.start()
    try:
        address = site.wait_ready().connection.address
        print(json.dumps([address.port, address.token]), flush=True)
        sys.stdin.read()
    finally:
        site.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [Path(word) for word in sys.argv[3:]])
