"""What tests of agents share: names, waiting for something, and a protocol with values of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.agents.transport.peer_link import BackOff
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.coordination.gossip import Entries, Entry, GossipParams, KnownVersions, Reply, gossip_machines

SITES = ("athens", "berlin", "cairo", "delhi", "essen")
PATIENCE_S = 300.0
"""Never waited for unless something is wrong."""
EAGER = BackOff(first_s=0.02, largest_s=0.1)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


def hosted_gossip(period_ms: float = 20.0) -> HostedProtocol:
    return HostedProtocol(
        name="gossip",
        make=gossip_machines(GossipParams(period_ms)),
        messages=KnownVersions | Reply[str] | Entries[str],
        durable=Entry[str],
        requests=str,
    )
