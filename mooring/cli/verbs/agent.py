"""`mooring agent`: host a site's part of decentralised protocols, or make the certificates it needs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import time

import msgspec
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from mooring.agents.agent import Agent, AgentSettings, AgentStatus
from mooring.agents.measured_latencies import MeasuredLatencies, measured_latencies
from mooring.agents.project_members import ProjectMembers, read_project_members
from mooring.agents.survey_agents import hosted_survey
from mooring.agents.transport.certificates import MEMBER_DAYS, make_certificates
from mooring.agents.transport.endpoint import LOOPBACK
from mooring.agents.transport.members import AgentAddress
from mooring.algorithms.catalogue import HOSTED, hosted_protocol
from mooring.cli.input.parsing import Parser, add_project, positive_count
from mooring.cli.output.terminal import Terminal
from mooring.errors import InputError
from mooring.model.problem.reading.fields import refuse_reference
from mooring.quantity import milliseconds

DESCRIPTION = (
    "Runs the agent of a site, which hosts the site's part of the decentralised protocols. Without "
    "--site, shows the project's agents and the latencies that they measured."
)


def add_options(parser: Parser) -> None:
    add_project(parser)
    parser.add_argument("--site", metavar="NAME", help="run the agent of this site until SIGTERM or Ctrl-C")
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="with --site: address to listen at (default: `agents` in mooring.yml, else loopback)",
    )
    parser.add_argument(
        "--hosts",
        choices=list(HOSTED),
        action="append",
        default=[],
        help="with --site: host this decider's machine too, which `mooring run --adapt` of that name needs",
    )
    parser.add_argument(
        "--embedded",
        action="store_true",
        help="with --site: end when standard input closes",
    )
    parser.add_argument(
        "--make-certificates",
        action="store_true",
        help="make the missing certificates of the sites and the runner",
    )
    parser.add_argument(
        "--days",
        type=positive_count,
        default=MEMBER_DAYS,
        help=f"with --make-certificates: validity in days (default {MEMBER_DAYS})",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    found = read_project_members(args.project)
    if args.make_certificates:
        return _make(args, found, terminal)
    if args.site is None:
        if args.listen is not None or args.embedded:
            option = "--embedded" if args.listen is None else "--listen"
            raise InputError(f"found {option} without --site", field=option, remedy="add --site NAME")
        return _show(found, terminal)
    return _be(args, found, terminal)


def _make(args: argparse.Namespace, found: ProjectMembers, terminal: Terminal) -> int:
    made = make_certificates(found.certificates, found.members.names, args.days)
    folder = str(found.certificates.folder)
    terminal.document({"version": 1, "made": made, "folder": folder})
    terminal.print(escape(f"made {', '.join(made) or 'none, all exist'} in {folder}"))
    return 0


def _be(args: argparse.Namespace, found: ProjectMembers, terminal: Terminal) -> int:
    members = found.members
    if args.site not in members.sites:
        refuse_reference(args.site, members.sites, "--site", "a site of mooring.yml")
    for warning in found.certificates.ending([args.site], time.time()):
        terminal.note(warning)
    listen = members.stated.get(args.site, LOOPBACK)
    if args.listen is not None:
        listen = AgentAddress.read(args.listen, "--listen")
    agent = Agent(
        AgentSettings(args.site, members, found.certificates, listen, args.seed),
        [hosted_survey(), *(hosted_protocol(name) for name in dict.fromkeys(args.hosts))],
        sys.stderr,
    )
    address = asyncio.run(_until_told(agent, args.embedded, terminal))
    terminal.document({"version": 1, "site": args.site, "listened": address})
    return 0


async def _until_told(agent: Agent, embedded: bool, terminal: Terminal) -> str:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if embedded:
        loop.add_reader(sys.stdin.fileno(), stop.set)
    async with agent.running() as address:
        terminal.print(f"listens on {address}")
        sys.stdout.flush()
        await stop.wait()
    return str(address)


def _show(found: ProjectMembers, terminal: Terminal) -> int:
    statuses: list[AgentStatus] = []
    for site in found.members.sites:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            raw = (found.members.own_folder(site) / "agent.json").read_bytes()
            statuses.append(msgspec.json.decode(raw, type=AgentStatus))
    latencies = measured_latencies(found.members)
    ending = found.certificates.ending(found.members.names, time.time())
    terminal.document(
        {
            "version": 1,
            "agents": [{**msgspec.to_builtins(status), "runs": _runs(found, status)} for status in statuses],
            "latency_ms": latencies.latency_ms,
            "notes": [*latencies.notes, *ending],
        }
    )
    terminal.print(_agents(found, statuses))
    _print_latencies(latencies, terminal)
    for warning in ending:
        terminal.note(warning)
    return 0


def _runs(found: ProjectMembers, status: AgentStatus) -> bool:
    """As far as this machine can tell: an agent that ends takes its address away, unless it was killed."""
    return found.members.find(status.site) is not None


def _agents(found: ProjectMembers, statuses: list[AgentStatus]) -> Table:
    shown = Table(box=SIMPLE_HEAD, header_style="bold")
    for name in ("site", "listens", "reaches", "dropped or refused"):
        shown.add_column(name, overflow="fold")
    for status in statuses:
        wrong = sum(n for what, n in status.counts.items() if not what.startswith("frames"))
        listens = status.listens if _runs(found, status) else "ended"
        shown.add_row(escape(status.site), listens, escape(", ".join(status.reached)), str(wrong))
    return shown


def _print_latencies(latencies: MeasuredLatencies, terminal: Terminal) -> None:
    for a, row in (latencies.latency_ms or {}).items():
        for b, ms in row.items():
            terminal.print(escape(f"{a} - {b}: {milliseconds(ms)}"))
    for note in latencies.notes:
        terminal.print(escape(note))
