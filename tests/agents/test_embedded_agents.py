"""Agents of a run: there as long as it is, whatever happens to one of them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec

from mooring.agents.agent import AgentStatus
from mooring.agents.embedded_agents import StartingAgain, embedded_agents
from mooring.agents.project_members import ProjectMembers, read_project_members

PATIENCE_S = 60.0
"""Never waited for unless something is wrong."""


def pid_of(found: ProjectMembers, site: str, other_than: int = -1) -> int:
    """Of a site's agent, once it has said how it is."""
    deadline, file = time.monotonic() + PATIENCE_S, found.members.own_folder(site) / "agent.json"
    while True:
        if file.exists():
            pid = msgspec.json.decode(file.read_bytes(), type=AgentStatus).pid
            if pid != other_than:
                return pid
        assert time.monotonic() < deadline, f"waited too long for the agent of {site}"
        time.sleep(0.05)


def test_an_agent_that_was_killed_is_started_again_and_none_outlives_the_run(tmp_path: Path) -> None:
    (tmp_path / "mooring.yml").write_text("sites: {oslo: {capacity: 1}, rome: {capacity: 1}}\n")
    found = read_project_members(tmp_path)
    quick = StartingAgain(first_pause_s=0.05)
    with embedded_agents(tmp_path, found, ["oslo", "rome"], again=quick):
        killed, other = pid_of(found, "oslo"), pid_of(found, "rome")
        os.kill(killed, signal.SIGKILL)
        again = pid_of(found, "oslo", other_than=killed)
        assert pid_of(found, "rome") == other
    for pid in (killed, again, other):
        assert not Path(f"/proc/{pid}").exists()
