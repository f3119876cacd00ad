"""An agent of a test as a process of its own: `python -m tests.agents.gossip_process FOLDER SITE`.

Every line of standard input is a value to publish; the process ends with its input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mooring.agents.agent import Agent, AgentSettings
from mooring.agents.project_members import read_project_members
from mooring.agents.transport.members import Members
from tests.agents.scene import EAGER, hosted_gossip


async def serve(folder: Path, site: str) -> None:
    found = read_project_members(folder)
    # Peers are dialled where `mooring.yml` says; this one listens wherever there is room, and says where.
    members = Members(found.members.folder, found.members.sites, found.members.stated)
    settings = AgentSettings(site, members, found.certificates, back_off=EAGER, on_disk=False)
    agent = Agent(settings, [hosted_gossip()], sys.stderr)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with agent.running():
        while line := await lines.readline():
            agent.ask("gossip", line.decode().strip())


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))
