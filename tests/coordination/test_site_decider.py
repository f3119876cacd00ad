"""What sites propose goes through the guards, and every proposer hears what became of it."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace as replace_struct

from mooring.agents.agent_peers import keep_memory, kept_memory
from mooring.algorithms.relaxation.briefing import OptimiserBriefing
from mooring.algorithms.relaxation.machines.messages import (
    AskFragments,
    KnownFragments,
    MeasuredCapacity,
    MeasuredFlows,
)
from mooring.contracts.decider import Observation, Proposal
from mooring.contracts.engine import FragmentReport, Measurement
from mooring.contracts.picture import Picture, picture_of
from mooring.contracts.site_machine import Data
from mooring.controller.guards import GuardOptions, Guards
from mooring.coordination.briefing import NO_GAIN
from mooring.coordination.move_messages import (
    Accepted,
    Answer,
    Done,
    Failed,
    FragmentMove,
    Lease,
    MovePlan,
    Promise,
    Proposed,
    Refused,
    StatedLatencies,
)
from mooring.coordination.mover import MoverMemory
from mooring.coordination.site_decider import NOTHING_PROPOSED, ProtocolDecider
from mooring.errors import InputError
from mooring.model.deployment.move_times import MoveTimes
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.problem import Problem

PROBLEM = Problem.from_dict(
    {
        "sites": {"a": {"capacity": 1}, "b": {"capacity": 1}, "c": {"capacity": 1}},
        "latency_ms": {"a": {"b": 150, "c": 100}, "b": {"c": 100}},
        "streams": {
            "x": {"site": "a", "rate": 100, "bytes": 10},
            "y": {"site": "b", "rate": 100, "bytes": 10},
        },
        "operators": {
            "f": {"inputs": ["x"], "cost_us": 1000, "selectivity": 0.1},
            "g": {"inputs": ["y"], "cost_us": 1000, "selectivity": 0.1},
        },
        "queries": {"p": {"reads": "f", "site": "a"}, "q": {"reads": "g", "site": "b"}},
    }
)
AT_C = {"f": "c", "g": "c"}


class TestPeers:
    __test__ = False

    def __init__(self) -> None:
        self.coming: list[tuple[int, Data]] = []
        self.sent: list[tuple[int, Data]] = []
        self.gone: list[int] = []

    def poll(self) -> Sequence[tuple[int, Data]]:
        coming, self.coming = self.coming, []
        return coming

    def send(self, site: int, message: Data) -> None:
        self.sent.append((site, message))

    def ask(self, site: int, request: Data) -> None:
        self.sent.append((site, request))

    def out_of_reach(self) -> Sequence[int]:
        return self.gone

    def answers(self, site: int) -> list[Data]:
        return [message for to, message in self.sent if to == site and isinstance(message, Answer)]


def observed(sites: Mapping[str, str], epochs: Mapping[str, int]) -> Observation:
    fragments = {
        name: FragmentReport(site, True, 100.0, 10.0, 0.1, epoch=epochs[name]) for name, site in sites.items()
    }
    return Observation(0.0, FragmentSites(sites), Measurement(0.0, 5.0, fragments=fragments))


def picture(sites: Mapping[str, str]) -> Picture:
    return picture_of(PROBLEM, Placement.from_dict(PROBLEM, dict(sites)))


def proposal(fragment: int, to_site: int, number: int = 1, proposer: int = 2) -> Proposed:
    plan = MovePlan((FragmentMove(fragment, 2, to_site, 4),))
    return Proposed((proposer, 0, number), plan, Lease((to_site,)), Promise(10.0 - fragment))


def deciding(
    *coming: tuple[int, Data], kept: list[MoverMemory] | None = None
) -> tuple[ProtocolDecider, TestPeers, Proposal]:
    """One look with everything at c, under epoch 4."""
    peers = TestPeers()
    decider = ProtocolDecider(
        "relaxation",
        PROBLEM,
        peers,
        OptimiserBriefing,
        (kept if kept is not None else list[MoverMemory]()).append,
    )
    peers.coming = list(coming)
    decider.observe(observed(AT_C, {"f": 4, "g": 4}), busy=False)
    return decider, peers, decider.decide(picture(AT_C))


def test_sites_are_told_what_flows_and_what_they_can_use() -> None:
    _, peers, made = deciding()
    told = [message for site, message in peers.sent if site == 2]
    assert MeasuredCapacity(1.0) in told
    assert MeasuredFlows(0, (1000.0, 100.0), 0.1) in told
    assert (made.moves, made.reason) == ((), NOTHING_PROPOSED)


def test_where_nothing_is_proposed_agents_that_cannot_be_reached_are_named() -> None:
    decider, peers, _ = deciding()
    found = []
    for gone in ([1], [0, 2]):
        peers.gone = gone
        found.append(decider.decide(picture(AT_C)).reason)
    assert found == [
        f"{NOTHING_PROPOSED}; the agent of b cannot be reached",
        f"{NOTHING_PROPOSED}; agents of a, c cannot be reached",
    ]


def test_what_is_accepted_is_kept_before_it_is_ordered_and_its_end_is_told() -> None:
    kept: list[MoverMemory] = []
    decider, peers, made = deciding((2, proposal(0, 0)), kept=kept)
    assert [each.move.to_site for each in made.moves] == ["a"]
    ordered = decider.accepted(made)
    assert ordered == made
    assert [going.id for going in kept[-1].accepted] == [(2, 0, 1)]
    assert peers.answers(2) == [Accepted((2, 0, 1))]
    decider.observe(observed({"f": "a", "g": "c"}, {"f": 5, "g": 4}), busy=True)
    assert len(peers.answers(2)) == 1
    decider.observe(observed({"f": "a", "g": "c"}, {"f": 5, "g": 4}), busy=False)
    assert isinstance(peers.answers(2)[-1], Done)
    assert isinstance(peers.answers(0)[-1], Done)


def test_a_runner_that_comes_back_says_how_it_ended() -> None:
    kept: list[MoverMemory] = []
    decider, _, made = deciding((2, proposal(0, 0)), kept=kept)
    decider.accepted(made)
    peers = TestPeers()
    again = ProtocolDecider("relaxation", PROBLEM, peers, OptimiserBriefing, kept=kept[-1])
    again.observe(observed(AT_C, {"f": 6, "g": 4}), busy=False)
    assert isinstance(peers.answers(2)[-1], Failed)


def test_an_answer_that_cannot_be_kept_is_not_given_and_comes_once_it_can() -> None:
    full, kept = [True], list[MoverMemory]()

    def keep(memory: MoverMemory) -> None:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        kept.append(memory)

    peers = TestPeers()
    decider = ProtocolDecider("relaxation", PROBLEM, peers, OptimiserBriefing, keep)

    def look() -> Proposal:
        peers.coming = [(2, proposal(0, 0))]
        decider.observe(observed(AT_C, {"f": 4, "g": 4}), busy=False)
        return decider.decide(picture(AT_C))

    assert decider.accepted(look()) is None
    assert peers.answers(2) == []
    decider.observe(observed(AT_C, {"f": 4, "g": 4}), busy=False)
    assert "No space left" in decider.decide(picture(AT_C)).reason
    assert not decider.mover.memory.accepted
    full[0] = False
    made = look()
    assert decider.accepted(made) == made
    assert peers.answers(2) == [Accepted((2, 0, 1))]


def test_what_was_answered_is_kept_with_a_checksum(tmp_path: Path) -> None:
    memory = MoverMemory(answers=(Refused((2, 0, 1), "no"),))
    file = tmp_path / "mover.json"
    keep_memory(file, memory)
    assert kept_memory(file) == memory
    file.write_bytes(file.read_bytes().replace(b'"no"', b'"on"'))
    with pytest.raises(InputError, match="checksum"):
        kept_memory(file)
    file.write_bytes(msgspec.json.encode(memory))  # as earlier versions wrote it
    assert kept_memory(file) == memory


def test_refusals_carry_the_reason_of_the_guards() -> None:
    decider, peers, _ = deciding((2, proposal(0, 0)))
    decider.refused("12 moves within the last hour, limit 12")
    assert peers.answers(2) == [Refused((2, 0, 1), "12 moves within the last hour, limit 12")]


def test_what_could_not_be_ordered_has_failed() -> None:
    decider, peers, made = deciding((2, proposal(0, 0)))
    decider.accepted(made)
    decider.not_begun("the site is lost")
    assert isinstance(peers.answers(2)[-1], Failed)


def test_what_is_no_gain_by_the_measured_rates_is_refused() -> None:
    decider, peers, made = deciding((2, proposal(0, 1)))
    assert made.moves == ()
    decider.refused(made.reason)
    assert peers.answers(2) == [Refused((2, 0, 1), NO_GAIN)]


def test_what_goes_to_a_lost_site_is_refused_by_its_name() -> None:
    decider, peers, _ = deciding((2, proposal(0, 0)))
    made = decider.decide(replace(picture(AT_C), lost=np.array([True, False, False])))
    assert made.moves == ()
    decider.refused(made.reason)
    assert peers.answers(2) == [Refused((2, 0, 1), "the site a is lost or kept empty")]


BOTH = MovePlan((FragmentMove(0, 2, 0, 4), FragmentMove(1, 2, 1, 4)))


def guarded(proposed: Proposed) -> tuple[Answer, Sequence[str]]:
    """What it is answered after one look with guards that let half of a site's load go; what is ordered."""
    decider, peers, made = deciding((2, proposed))
    verdict = Guards(GuardOptions(looks=1)).judge(made, picture(AT_C), 0.0, MoveTimes())
    ordered = None if verdict.accepted is None else decider.accepted(verdict.accepted)
    if ordered is None:
        decider.refused(verdict.why)
    (answer,) = peers.answers(2)
    assert isinstance(answer, Answer)
    return answer, [] if ordered is None else [each.move.fragment for each in ordered.moves]


def test_guards_accept_a_plan_as_a_whole_or_say_why_they_refuse_it() -> None:
    answer, ordered = guarded(Proposed((2, 0, 1), BOTH, Lease(), Promise(1.0)))
    assert (answer, ordered) == (
        Refused((2, 0, 1), "it changes 100% of the load of c, limit 50%"),
        [],
    )
    answer, ordered = guarded(Proposed((2, 0, 1), BOTH, Lease(), Promise(1.0), violation=True))
    assert (answer, ordered) == (Accepted((2, 0, 1)), ["f", "g"])


def test_what_mends_a_violation_does_not_wait_for_what_only_improves() -> None:
    mending = replace_struct(proposal(1, 1, proposer=1), violation=True)
    decider, peers, made = deciding((2, proposal(0, 0)), (1, mending))
    assert made.violation
    assert [each.move.fragment for each in made.moves] == ["g"]
    assert decider.accepted(made) is not None
    assert peers.answers(1) == [Accepted((1, 0, 1))]
    assert isinstance(peers.answers(2)[-1], Refused)


def test_plans_of_several_sites_go_together_as_far_as_the_guards_allow() -> None:
    decider, peers, made = deciding((2, proposal(0, 0)), (1, proposal(1, 1, proposer=1)))
    assert len(made.moves) == 2
    ordered = decider.accepted(made.first(1))
    assert ordered is not None
    assert [each.move.fragment for each in ordered.moves] == ["f"]
    assert isinstance(peers.answers(1)[-1], Refused)


def told_to(peers: TestPeers, site: int) -> list[Data]:
    return [message for to, message in peers.sent if to == site]


def test_a_machine_that_begins_is_told_all_that_the_problem_states() -> None:
    """Or nobody would have room before the run has measured something, and the network would be whatever the
    agents have between them, which is one machine's loopback where sites are embedded.
    """
    peers = TestPeers()
    decider = ProtocolDecider("relaxation", PROBLEM, peers, partial(OptimiserBriefing, states_latency=True))
    peers.coming = [(2, AskFragments())]
    decider.observe(observed(AT_C, {"f": 4, "g": 4}), busy=False)
    told = told_to(peers, 2)
    assert MeasuredCapacity(1.0) in told
    assert StatedLatencies((100.0, 100.0, 0.0)) in told
    assert isinstance(told[-1], KnownFragments)
    peers.sent.clear()
    decider.decide(picture(AT_C))
    assert not any(isinstance(message, StatedLatencies | MeasuredCapacity) for message in told_to(peers, 2))


def test_sites_that_measure_their_network_are_told_no_latencies() -> None:
    _, peers, _ = deciding((2, AskFragments()))
    assert not any(isinstance(message, StatedLatencies) for _, message in peers.sent)


def test_a_site_that_is_lost_or_kept_empty_is_told_that_it_has_no_room() -> None:
    decider, peers, _ = deciding()
    peers.sent.clear()
    decider.decide(replace(picture(AT_C), lost=np.array([True, False, False])))
    assert told_to(peers, 0) == [MeasuredCapacity(0.0)]
    decider.decide(picture(AT_C))
    assert told_to(peers, 0) == [MeasuredCapacity(0.0), MeasuredCapacity(1.0)]
