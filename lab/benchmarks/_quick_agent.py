"""An agent that surveys every 100 ms, until its input ends: `_quick_agent FOLDER SITE HOST:PORT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mooring.agents.agent import Agent, AgentSettings
from mooring.agents.project_members import read_project_members
from mooring.agents.survey_agents import hosted_survey
from mooring.agents.transport.members import AgentAddress
from mooring.coordination.gossip import GossipParams
from mooring.coordination.survey import SurveyParams

PERIOD_MS = 100.0
QUICK = SurveyParams(PERIOD_MS, rounds_per_publication=20, gossip=GossipParams(2 * PERIOD_MS))


async def serve(folder: Path, site: str, listen: AgentAddress) -> None:
    found = read_project_members(folder)
    settings = AgentSettings(site, found.members, found.certificates, listen)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stop.set)
    await Agent(settings, [hosted_survey(QUICK)], sys.stderr).run(stop)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], AgentAddress.read(sys.argv[3], "address")))
