"""Where agents of a benchmark run: network namespaces of their own, or loopback where that is not allowed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class AgentPlace:
    host: str
    """Its address, as everybody else sees it."""
    before: tuple[str, ...] = ()
    """Words before a command that is to run there."""

    @property
    def can_be_cut_off(self) -> bool:
        return bool(self.before)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Nothing reaches it and it reaches nothing, for the length of the block; disks are not concerned."""
        link = ("-n", self.before[-1], "link", "set", "eth0")
        _ip(*link, "down")
        try:
            yield
        finally:
            _ip(*link, "up")


@dataclass(frozen=True)
class AgentPlaces:
    what: str
    middle: str
    """The address at which everybody reaches what is between them."""
    places: tuple[AgentPlace, ...]


@contextmanager
def agent_places(count: int) -> Iterator[AgentPlaces]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(_namespaces(count))
        except (OSError, subprocess.CalledProcessError):
            found = AgentPlaces("on loopback", "127.0.0.1", (AgentPlace("127.0.0.1"),) * count)
        yield found


@contextmanager
def _namespaces(count: int) -> Iterator[AgentPlaces]:
    """A bridge, and a namespace on it for each. Names carry the process, so that two runs do not meet."""
    mark = os.getpid() % 10_000
    bridge, names = f"mb{mark}", [f"moor-{mark}-{number}" for number in range(count)]
    network = f"10.213.{mark % 250}"
    with ExitStack() as stack:
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{network}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            near = f"mv{mark}n{number}"
            _ip("link", "add", near, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", near, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{network}.{number + 1}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", name, "link", "set", device, "up")
        places = tuple(
            AgentPlace(f"{network}.{number + 1}", ("ip", "netns", "exec", name))
            for number, name in enumerate(names)
        )
        yield AgentPlaces("in network namespaces of their own", f"{network}.254", places)


def _ip(*words: str) -> None:
    _run(("ip", *words))


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, capture_output=True)
