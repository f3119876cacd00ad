"""Deciding at the sites of a run: agents host the machines, the run session carries out what they propose.

What the mover has answered is on disk in the work folder, with a checksum, before anything is sent, so that a
runner that comes back says the same, and says how what it had accepted has ended: by what runs where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from mooring.agents.runner_endpoint import RunnerPost
from mooring.algorithms.catalogue import briefing_of
from mooring.contracts.decider import Decider
from mooring.contracts.site_machine import Data
from mooring.coordination.mover import MoverMemory
from mooring.coordination.site_decider import ProtocolDecider
from mooring.disk import DISK
from mooring.errors import InputError
from mooring.model.problem.problem import Problem

MEMORY_FILE_NAME = "mover.json"


class AgentPeers:
    """The machines of one protocol, by the numbers of their sites."""

    def __init__(self, post: RunnerPost, sites: Sequence[str], protocol: str) -> None:
        self._post, self._protocol, self._sites = post, protocol, tuple(sites)
        self._numbers = {site: number for number, site in enumerate(sites)}

    def poll(self) -> Sequence[tuple[int, Data]]:
        return [
            (self._numbers[letter.site], letter.content)
            for letter in self._post.poll()
            if letter.protocol == self._protocol
        ]

    def send(self, site: int, message: Data) -> None:
        self._post.send(self._sites[site], self._protocol, message)

    def ask(self, site: int, request: Data) -> None:
        self._post.ask(self._sites[site], self._protocol, request)

    def out_of_reach(self) -> Sequence[int]:
        reached = set(self._post.reached)
        return [number for site, number in self._numbers.items() if site not in reached]


def decided_at_sites(
    protocol: str,
    stand_in: Decider,
    problem: Problem,
    post: RunnerPost,
    folder: Path,
    *,
    states_latency: bool = False,
) -> ProtocolDecider:
    """`stand_in`: the decider that would do it in one place; `folder`: where the mover keeps its memory;
    `states_latency`: the problem's latencies count, whatever agents measure.
    """
    sites = [site.name for site in problem.sites]
    file = folder / MEMORY_FILE_NAME

    return ProtocolDecider(
        protocol,
        problem,
        AgentPeers(post, sites, protocol),
        briefing_of(protocol, stand_in, states_latency=states_latency),
        partial(keep_memory, file),
        kept_memory(file),
    )


class _KeptMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    memory: msgspec.Raw
    sum: str


def _sum(raw: bytes | msgspec.Raw) -> str:
    return hashlib.sha256(bytes(raw)).hexdigest()[:16]


def keep_memory(file: Path, memory: MoverMemory) -> None:
    raw = msgspec.json.encode(memory)
    DISK.replace(file, msgspec.json.encode(_KeptMemory(msgspec.Raw(raw), _sum(raw))))


def kept_memory(file: Path) -> MoverMemory | None:
    try:
        raw = DISK.read(file).data
        if b'"sum"' in raw[-40:]:  # earlier versions kept the memory alone
            kept = msgspec.json.decode(raw, type=_KeptMemory)
            if kept.sum != _sum(kept.memory):
                raise ValueError("its checksum does not match")
            raw = bytes(kept.memory)
        return msgspec.json.decode(raw, type=MoverMemory)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}",
            file=file,
            remedy="remove it when no agent has an open proposal",
        ) from None
