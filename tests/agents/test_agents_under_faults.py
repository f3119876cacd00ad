"""Real agents in processes of their own, killed and cut off: the invariants of the harness hold on what they
recorded."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from lab.faults.gossip_invariants import gossip_checkers
from lab.faults.slow_link import SlowLink
from lab.faults.trace_replay import TraceReplay, read_trace
from mooring.agents.project_members import read_project_members
from mooring.agents.transport.certificates import CertificateFolder
from mooring.agents.transport.members import Members
from mooring.contracts.site_machine import Received
from mooring.coordination.gossip import Entry
from tests.agents.scene import PATIENCE_S, hosted_gossip, until

NAMES = ("athens", "berlin", "cairo")
GOSSIP = hosted_gossip()


@dataclass
class World:
    """One folder per site, as on machines of their own, and a slow link for every direction."""

    root: Path
    links: dict[tuple[str, str], SlowLink] = field(default_factory=dict)
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    def members(self, site: str) -> Members:
        return read_project_members(self.root / site).members

    async def start(self, site: str) -> None:
        self.processes[site] = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.agents.gossip_process", str(self.root / site), site),
            stdin=asyncio.subprocess.PIPE,
        )

    async def kill(self, site: str) -> None:
        self.processes[site].kill()
        await self.processes[site].wait()

    def publish(self, site: str, value: str) -> None:
        pipe = self.processes[site].stdin
        assert pipe is not None
        pipe.write(f"{value}\n".encode())

    def durable(self, site: str) -> str | None:
        """What a site has published last, as far as its disk knows."""
        file = self.members(site).own_folder(site) / "durable.json"
        kept = msgspec.json.decode(file.read_bytes())["machines"] if file.is_file() else {}
        return msgspec.convert(kept["gossip"], Entry[str]).value if "gossip" in kept else None

    def replayed(self) -> TraceReplay:
        files = [self.members(site).own_folder(site) / "trace.jsonl" for site in NAMES]
        return TraceReplay(GOSSIP, [read_trace(file, GOSSIP) for file in files])

    async def until_agreed(self, **newest: str) -> None:
        """Traces that are still being written show a moment of no two sites alike: they may look wrong."""
        await until(lambda: all(self.durable(site) == value for site, value in newest.items()))
        while self.replayed().check(gossip_checkers()) is not None:
            await asyncio.sleep(0.2)

    def cut(self, *sites: str) -> None:
        for ends, link in self.links.items():
            if set(ends) & set(sites):
                link.cut()

    def heal(self) -> None:
        for link in self.links.values():
            link.heal()


@asynccontextmanager
async def world(root: Path, certificates: CertificateFolder) -> AsyncIterator[World]:
    made = World(root)
    async with AsyncExitStack() as stack:
        for site in NAMES:
            stated = []
            for peer in NAMES:
                if peer != site:
                    own = Members(root / peer / ".mooring" / "agents", NAMES)
                    link = made.links[site, peer] = SlowLink(partial(own.find, peer), 5.0)
                    stated.append(f"{peer}: '{await stack.enter_async_context(link.open())}'")
            folder = root / site
            shutil.copytree(certificates.folder, folder / ".mooring" / "agents" / "certificates")
            sites = ", ".join(f"{name}: {{capacity: 1}}" for name in NAMES)
            (folder / "mooring.yml").write_text(f"sites: {{{sites}}}\nagents: {{{', '.join(stated)}}}\n")
        for site in NAMES:
            await made.start(site)
        try:
            yield made
        finally:
            for process in made.processes.values():
                if process.returncode is None:
                    process.kill()
                    await process.wait()


def test_killed_and_cut_off_agents_agree_again_and_make_nothing_up(
    tmp_path: Path, certificates: CertificateFolder
) -> None:
    async def play() -> World:
        async with world(tmp_path, certificates) as at:
            at.publish("athens", "a1")
            at.publish("berlin", "b1")
            at.publish("cairo", "c1")
            await at.until_agreed(athens="a1", berlin="b1", cairo="c1")
            at.cut("cairo")
            at.publish("cairo", "c2, unheard")
            await until(lambda: at.durable("cairo") == "c2, unheard")
            await at.kill("athens")
            at.publish("berlin", "b2")
            await at.start("athens")
            at.publish("athens", "a2")
            await at.kill("cairo")
            at.heal()
            await at.start("cairo")
            await at.until_agreed(athens="a2", berlin="b2", cairo="c2, unheard")
            return at

    async def play_in_time() -> World:
        async with asyncio.timeout(3 * PATIENCE_S):
            return await play()

    replay = asyncio.run(play_in_time()).replayed()
    assert replay.check(gossip_checkers()) is None
    assert any(isinstance(line.event, Received) for line, _, _ in replay._lines)
    assert {line.incarnation for line, _, _ in replay._lines if line.site == 0} == {0, 1}
