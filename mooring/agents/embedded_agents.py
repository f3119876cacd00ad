"""Agents as children of a run: one beside every embedded site, gone when the run is, however it ended."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mooring.agents.project_members import ProjectMembers
from mooring.agents.runner_endpoint import RunnerPost
from mooring.agents.transport.certificates import make_certificates
from mooring.algorithms.catalogue import HOSTED
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.errors import described

_GRACE_S = 10.0


@dataclass(frozen=True)
class StartingAgain:
    """When an agent that has ended by itself is started again."""

    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    """The pause doubles up to this, and begins anew once an agent has lasted for so long."""


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
    project: Path,
    found: ProjectMembers,
    sites: Sequence[str],
    hosts: Sequence[str] = (),
    again: StartingAgain | None = None,
) -> Iterator[None]:
    """For the time of the block. An agent that ends by itself is started again; the others go on without it
    meanwhile, and its log says why. Certificates that are missing are made.
    """
    make_certificates(found.certificates, found.members.names)
    for site in sites:
        _log_of(found, site).unlink(missing_ok=True)
    agents = [
        _EmbeddedAgent(partial(_start, project, found, site, hosts), _log_of(found, site)) for site in sites
    ]
    over = threading.Event()
    again = again or StartingAgain()
    watching = threading.Thread(target=_watch, args=(agents, over, again), name="agents", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
        for agent in agents:
            agent.tell_to_end()
        for agent in agents:
            agent.end()


class _EmbeddedAgent:
    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], log_file: Path) -> None:
        self._start, self._child, self._log_file = start, start(), log_file
        self._began_s, self._pause_s = time.monotonic(), 0.0
        self._said = ""

    def keep_up(self, again: StartingAgain) -> None:
        """Start it again if it has ended, not too soon after the last time."""
        lasted_s = time.monotonic() - self._began_s
        if self._child.poll() is None:
            if lasted_s > again.longest_pause_s:
                self._pause_s = 0.0
            return
        if lasted_s < self._pause_s:
            return
        self.tell_to_end()
        self._pause_s = min(max(2.0 * self._pause_s, again.first_pause_s), again.longest_pause_s)
        self._child, self._began_s = self._start(), time.monotonic()

    def failed(self, failure: Exception) -> None:
        """It could not be started again: said once in its log, where there is room for that."""
        if self._said != (said := described(failure)):
            self._said = said
            with contextlib.suppress(OSError), self._log_file.open("a") as log:
                log.write(f"the agent cannot be started again: {said}\n")

    def tell_to_end(self) -> None:
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()

    def end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_GRACE_S)
        self._child.kill()
        self._child.wait()


def _watch(agents: Sequence[_EmbeddedAgent], over: threading.Event, again: StartingAgain) -> None:
    while not over.wait(again.first_pause_s):
        for agent in agents:
            try:
                agent.keep_up(again)
            except Exception as failure:  # no room for another process now, say: tried again after a pause
                agent.failed(failure)


def _start(project: Path, found: ProjectMembers, site: str, hosts: Sequence[str]) -> subprocess.Popen[bytes]:
    log_file = _log_of(found, site)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    words = ["agent", str(project), "--site", site, "--embedded"]
    words += [word for name in hosts for word in ("--hosts", name)]
    with log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "mooring", *words],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
        )


def _log_of(found: ProjectMembers, site: str) -> Path:
    return found.members.own_folder(site) / "agent.log"
