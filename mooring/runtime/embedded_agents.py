"""Agents as children of a run: one beside every embedded site, gone when the run is, whatever ended it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from mooring.runtime.hosted_by_name import HOSTED
from mooring.runtime.hosted_protocol import HostedProtocol
from mooring.runtime.project_members import ProjectMembers
from mooring.runtime.runner_post import RunnerPost
from mooring.runtime.transport.certificates import make_certificates

_GRACE_S = 10.0


@contextlib.contextmanager
def agents_of_run(
    project: Path, found: ProjectMembers, embedded: Sequence[str], protocols: Sequence[HostedProtocol]
) -> Iterator[RunnerPost]:
    """The agents of embedded sites and the runner's end, for the time of the block."""
    with (
        embedded_agents(project, found, embedded, [each.name for each in protocols if each.name in HOSTED]),
        RunnerPost(found, protocols) as post,
    ):
        yield post


@contextlib.contextmanager
def embedded_agents(
    project: Path, found: ProjectMembers, sites: Sequence[str], hosts: Sequence[str] = ()
) -> Iterator[None]:
    """For the time of the block. An agent that ends by itself is not missed: the others go on without it,
    and its log says why. Certificates that are missing are made.
    """
    make_certificates(found.certificates, found.members.names)
    children = [_start(project, found, site, hosts) for site in sites]
    try:
        yield
    finally:
        for child in children:
            assert child.stdin is not None
            child.stdin.close()  # tells it to end
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_S)
            child.kill()
            child.wait()


def _start(project: Path, found: ProjectMembers, site: str, hosts: Sequence[str]) -> subprocess.Popen[bytes]:
    folder = found.members.own_folder(site)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["agent", str(project), "--site", site, "--embedded"]
    words += [word for name in hosts for word in ("--hosts", name)]
    with (folder / "agent.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "mooring", *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )
