"""Agents on one machine: how well coordinates predict round trips, and what an agent costs.

    python -m lab.benchmarks agents               # or agents:coordinates, agents:cost

Coordinates: five agents, each a process with a folder of its own, in network namespaces of their own where
the machine allows it and on loopback otherwise. A proxy between every two of them delays what passes by the
latency between two regions of AWS. The agents measure every 100 ms instead of every 2 s, so that a minute
shows what twenty would. Then the round trips that the coordinates predict, as one agent knows them of all,
are held against the delays; beside them what was measured of each pair.

Cost: CPU time and resident memory of each of three agents at default settings over a minute, after their
start.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from lab.benchmarks._agent_places import AgentPlaces, agent_places
from lab.benchmarks._record import Measurement, carry_out, chosen_parts, prose_of
from lab.faults.slow_link import SlowLink
from mooring.agents.measured_latencies import KeptSurvey
from mooring.agents.project_members import read_project_members
from mooring.agents.transport.certificates import CertificateFolder, make_certificates
from mooring.agents.transport.members import RUNNER, AgentAddress
from mooring.cli.output.result_table import ResultTable, Value
from mooring.model.network.shipped import aws_regions

REGIONS = ("us-east-1", "us-west-2", "eu-central-1", "ap-northeast-1", "sa-east-1")
PORT = 7601
SECONDS = 60.0
COST_SITES = ("a", "b", "c")


def measure(words: Sequence[str]) -> Iterator[ResultTable | str]:
    parts = {"coordinates": coordinates, "cost": cost}
    for part in chosen_parts(words, parts):
        yield from parts[part]()


def project(folder: Path, sites: Sequence[str], certificates: CertificateFolder, agents: str = "{}") -> Path:
    """What an agent needs, as on a machine of its own."""
    shutil.copytree(certificates.folder, folder / ".mooring" / "agents" / "certificates")
    listed = ", ".join(f"{site}: {{capacity: 1}}" for site in sites)
    (folder / "mooring.yml").write_text(f"sites: {{{listed}}}\nagents: {agents}\n")
    return folder


@contextmanager
def agents_running(commands: Sequence[Sequence[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for command in commands
    ]
    try:
        yield children
    finally:
        for child in children:
            assert child.stdin is not None
            child.stdin.close()
            child.wait(30)


def coordinates() -> Iterator[ResultTable | str]:
    known = aws_regions()
    one_way_ms = known.one_way_ms()
    at = {name: known.names.index(name) for name in REGIONS}
    delay_ms = {(a, b): float(one_way_ms[at[a], at[b]]) for a, b in itertools.permutations(REGIONS, 2)}
    with tempfile.TemporaryDirectory() as folder, agent_places(len(REGIONS)) as places:
        kept = asyncio.run(_surveyed(Path(folder), places, delay_ms))
    figures = {kept.sites[number]: one for number, one in kept.figures.sites}
    rows: list[dict[str, Value]] = []
    for a, b in itertools.combinations(REGIONS, 2):
        true_ms = delay_ms[a, b] + delay_ms[b, a]
        predicted_ms = 2.0 * figures[a].coordinate.latency_ms(figures[b].coordinate)
        measured_ms = 2.0 * dict(figures[a].latency_ms)[kept.sites.index(b)]
        error = abs(predicted_ms / true_ms - 1.0)
        rows.append(
            {
                "pair": f"{a} - {b}",
                "true_ms": true_ms,
                "measured_ms": measured_ms,
                "predicted_ms": predicted_ms,
                "error": error,
            }
        )
    median = statistics.median(float(row["error"]) for row in rows if isinstance(row["error"], float))
    yield ResultTable.of(f"Round trips between five agents {places.what}, after {SECONDS:.0f} s", rows)
    yield ResultTable.of("All pairs", [{"median_error": median, "limit": 0.12}])


async def _surveyed(folder: Path, places: AgentPlaces, delay_ms: dict[tuple[str, str], float]) -> KeptSurvey:
    """What the first agent knows of all after the time."""
    certificates = CertificateFolder(folder / "certificates")
    make_certificates(certificates, [*REGIONS, RUNNER])
    listens = {
        site: AgentAddress(place.host, PORT + number)
        for number, (site, place) in enumerate(zip(REGIONS, places.places, strict=True))
    }
    async with AsyncExitStack() as stack:
        commands = []
        for site, place in zip(REGIONS, places.places, strict=True):
            ways = []
            for peer in REGIONS:
                if peer != site:
                    link = SlowLink(partial(listens.get, peer), delay_ms[site, peer])
                    ways.append(f"{peer}: '{await stack.enter_async_context(link.open(places.middle))}'")
            own = project(folder / site, REGIONS, certificates, f"{{{', '.join(ways)}}}")
            words = (sys.executable, "-m", "lab.benchmarks._quick_agent", str(own), site, str(listens[site]))
            commands.append((*place.before, *words))
        with agents_running(commands):
            await asyncio.sleep(SECONDS)
    first = read_project_members(folder / REGIONS[0]).members.own_folder(REGIONS[0])
    return msgspec.json.decode((first / "survey.json").read_bytes(), type=KeptSurvey)


def cost() -> Iterator[ResultTable | str]:
    rows: list[dict[str, Value]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        certificates = CertificateFolder(Path(folder) / "certificates")
        make_certificates(certificates, [*COST_SITES, RUNNER])
        own = project(Path(folder) / "project", COST_SITES, certificates)
        words = (sys.executable, "-m", "mooring", "agent", str(own), "--embedded", "--site")
        children = stack.enter_context(agents_running([(*words, site) for site in COST_SITES]))
        members = read_project_members(own).members
        while not all(members.find(site) for site in COST_SITES):
            time.sleep(0.1)
        time.sleep(10.0)  # links are up, and every machine has made its first rounds
        before = [cpu_s(child.pid) for child in children]
        time.sleep(SECONDS)
        for site, child, used_s in zip(COST_SITES, children, before, strict=True):
            share = (cpu_s(child.pid) - used_s) / SECONDS
            row: dict[str, Value] = {"agent": site, "cores": share, "resident_mb": resident_mb(child.pid)}
            rows.append({**row, "limit_cores": 0.01, "limit_mb": 80})
    yield ResultTable.of(f"Three agents at default settings, over {SECONDS:.0f} s", rows)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024.0


AGENTS = Measurement("agents", "Agents: coordinates and cost", prose_of(__doc__), measure)

if __name__ == "__main__":
    carry_out(AGENTS, sys.argv[1:])
