"""The mover answers every proposal once and for good, and as its table says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.faults.checkers import Crashed, Step, WorldView
from lab.faults.optimiser_invariants import (
    chain_homes,
    chain_layout,
    optimiser_scenarios,
    some_refused,
)
from lab.faults.runner_model import RunSubject
from mooring.algorithms.relaxation.machines.optimiser import optimiser_machines
from mooring.algorithms.relaxation.machines.params import OptimiserParams
from mooring.algorithms.relaxation.migration import MigrationParams
from mooring.contracts.site_machine import (
    Asked,
    Data,
    Effect,
    Output,
    Persist,
    Received,
    Send,
    Started,
    TimerDue,
)
from mooring.coordination.move_messages import (
    NO_STATE,
    NOWHERE,
    Accepted,
    Done,
    Failed,
    FragmentMove,
    Inquiry,
    Lease,
    LookUp,
    MovePlan,
    Over,
    Promise,
    ProposalId,
    Proposed,
    Refused,
    StartedAt,
    Whereabouts,
)
from mooring.coordination.mover import (
    BUSY,
    MOST_UNHEARD,
    TRANSITIONS,
    CarriedOut,
    CarryOut,
    MoverMachine,
    Seen,
    Verdicts,
    never_heard,
)

AT = (StartedAt(7, 1, 4), StartedAt(8, 0, 1), StartedAt(9, 2, 0))


def mover() -> MoverMachine:
    made = MoverMachine(3)
    made.handle(Asked(Whereabouts(AT)), 0.0)
    return made


def proposal(number: int = 1, site: int = 1, fragment: int = 7, saved: float = 1.0) -> Proposed:
    here = next(place for place in AT if place.fragment == fragment)
    move = FragmentMove(fragment, here.site, (here.site + 1) % 3, here.epoch)
    holder = (here.site + 1) % 3
    return Proposed((site, 0, number), MovePlan((move,)), Lease((holder,)), Promise(saved))


def hear(mover: MoverMachine, message: Data, sender: int = 1) -> Sequence[Effect]:
    return mover.handle(Received(sender, message), 0.0)


def judged(mover: MoverMachine, reason: str | None = None) -> Sequence[Effect]:
    """All that wait, alike."""
    return mover.handle(Asked(Verdicts(tuple((each.id, reason) for each in mover.by_promise()))), 0.0)


def sent(effects: Sequence[Effect]) -> list[tuple[int, Data]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def test_what_is_accepted_is_kept_told_to_all_concerned_and_then_carried_out() -> None:
    one = mover()
    assert hear(one, proposal()) == ()
    effects = judged(one)
    assert isinstance(effects[0], Persist)
    assert sent(effects) == [(1, Accepted((1, 0, 1))), (2, Accepted((1, 0, 1)))]
    assert effects[-1] == Output(CarryOut((proposal(),)))
    one.handle(Asked(Whereabouts((StartedAt(7, 2, 5),))), 0.0)
    done = Done((1, 0, 1), (StartedAt(7, 2, 5),))
    assert sent(one.handle(Asked(CarriedOut()), 0.0)) == [(1, done), (2, done)]
    assert sent(hear(one, Inquiry((1, 0, 1)), sender=2)) == [(2, done)]


def test_what_is_not_where_it_was_to_go_has_failed_and_the_places_say_where_it_is() -> None:
    one = mover()
    hear(one, proposal())
    judged(one)
    one.handle(Asked(Whereabouts((StartedAt(7, 0, 6),))), 0.0)
    ending = one.handle(Asked(CarriedOut("the site is lost")), 0.0)
    assert sent(ending)[0] == (1, Failed((1, 0, 1), "the site is lost", (StartedAt(7, 0, 6),)))


def test_after_a_crash_what_was_accepted_goes_on_and_what_waited_is_heard_again() -> None:
    one = mover()
    hear(one, proposal())
    judged(one)
    again = mover()
    assert again.handle(Started(1, one.memory), 0.0) == (Output(CarryOut((proposal(),))),)
    assert sent(hear(again, proposal())) == [(1, Accepted((1, 0, 1)))]
    assert again.seen((2, 0, 1)) is Seen.UNKNOWN


@pytest.mark.parametrize(
    ("news", "known"),
    [
        (StartedAt(7, 1, 5), "under epoch 5"),
        (StartedAt(7, 2, 5), "at site 2"),
        (StartedAt(7, NOWHERE, 4), "at site -1"),
    ],
)
def test_a_plan_made_from_what_is_no_longer_so_is_refused(news: StartedAt, known: str) -> None:
    late, early = mover(), mover()
    late.handle(Asked(Whereabouts((news,))), 0.0)
    effects = hear(late, proposal())
    hear(early, proposal())
    early.handle(Asked(Whereabouts((news,))), 0.0)
    for answer in (sent(effects)[0][1], sent(judged(early))[0][1]):
        assert isinstance(answer, Refused)
        assert known in answer.reason


def test_neighbours_that_a_plan_was_made_from_count_too() -> None:
    one, other = mover(), proposal()
    made_from = MovePlan(other.plan.moves, (StartedAt(8, 0, 0),))
    answer = sent(hear(one, Proposed(other.id, made_from, other.lease, other.promise)))[0][1]
    assert isinstance(answer, Refused)


def test_what_nobody_heard_of_is_refused_and_stays_refused() -> None:
    one = mover()
    refused = Refused((1, 0, 1), never_heard(2))
    assert sent(hear(one, Inquiry((1, 0, 1)), sender=2)) == [(2, refused)]
    assert sent(hear(one, proposal())) == [(1, refused)]
    assert judged(one) == []


def test_asking_about_an_id_says_nothing_of_other_ids() -> None:
    one = mover()
    for ahead in range(3 * MOST_UNHEARD):
        hear(one, Inquiry((1, 2**62, 2**62 - ahead)), sender=2)
    assert len(one.memory.unheard) == MOST_UNHEARD
    assert sent(hear(one, proposal())) == []
    judged(one)
    assert [going.id for going in one.memory.accepted] == [(1, 0, 1)]


def test_what_was_asked_about_too_early_is_forgotten_with_the_ids_before_it() -> None:
    one = mover()
    hear(one, Inquiry((1, 0, 1)), sender=2)
    hear(one, proposal(number=2))
    judged(one)
    assert one.memory.unheard == ()
    assert sent(hear(one, Inquiry((1, 0, 1)), sender=2)) == [(2, Over((1, 0, 1)))]


def test_the_largest_promise_is_judged_first_and_what_meets_it_is_refused() -> None:
    one = mover()
    hear(one, proposal(site=1, fragment=7, saved=1.0), sender=1)
    hear(one, proposal(site=0, fragment=7, saved=2.0), sender=0)
    hear(one, proposal(site=2, fragment=9, saved=0.5), sender=2)
    judged(one)
    assert [going.id[0] for going in one.memory.accepted] == [0, 2]
    assert isinstance(one.memory.answers[1], Refused)
    hear(one, proposal(number=2, site=1, fragment=8), sender=1)
    busy = sent(judged(one))[0][1]
    assert isinstance(busy, Refused)
    assert busy.reason == BUSY


def test_what_a_verdict_says_nothing_of_goes_on_waiting() -> None:
    one = mover()
    hear(one, proposal(site=1, fragment=7), sender=1)
    hear(one, proposal(site=0, fragment=8), sender=0)
    effects = one.handle(Asked(Verdicts((((1, 0, 1), "no"), ((2, 0, 1), None)))), 0.0)
    assert sent(effects)[0] == (1, Refused((1, 0, 1), "no"))
    assert one.seen((0, 0, 1)) is Seen.WAITING
    assert one.memory.accepted == ()


def test_old_proposals_are_over_and_those_of_others_are_not_listened_to() -> None:
    one = mover()
    hear(one, proposal(number=5))
    judged(one, "no")
    assert sent(hear(one, Inquiry((1, 0, 3)))) == [(1, Over((1, 0, 3)))]
    assert hear(one, proposal(number=9), sender=2) == ()
    assert one.waiting == {}


def test_whereabouts_are_told_to_all_and_again_to_who_asks() -> None:
    one = mover()
    told = sent(one.handle(Asked(Whereabouts((StartedAt(7, 2, 5), StartedAt(8, 0, 1)))), 0.0))
    assert told == [(site, Whereabouts((StartedAt(7, 2, 5),))) for site in range(3)]
    known = answer(one, 0)
    assert (known.places, known.whole) == ((StartedAt(7, 2, 5), *AT[1:]), False)


def test_what_is_known_counts_as_the_whole_once_the_host_says_so() -> None:
    one = mover()
    one.handle(Asked(Whereabouts((StartedAt(10, 0, 0),), whole=True)), 0.0)
    known = answer(one, 0)
    assert (known.places, known.whole) == ((*AT, StartedAt(10, 0, 0)), True)


def answer(one: MoverMachine, known: int, sender: int = 2) -> Whereabouts:
    (_, told), *_ = sent(hear(one, LookUp(known), sender=sender))
    assert isinstance(told, Whereabouts)
    return told


def test_who_names_a_state_is_told_what_has_changed_since() -> None:
    one = mover()
    first = answer(one, 0)
    assert answer(one, first.state) == Whereabouts((), state=first.state, since=first.state)
    news = StartedAt(7, 2, 5), StartedAt(9, 0, 1)
    for place in news:
        one.handle(Asked(Whereabouts((place,))), 0.0)
    later = answer(one, first.state)
    assert (later.places, later.since) == (news, first.state)
    assert answer(one, later.state).places == ()


@pytest.mark.parametrize("known", [NO_STATE, 12345], ids=["without a state", "with one of another run"])
def test_who_names_no_state_of_this_run_is_told_everything(known: int) -> None:
    """Of what has left it too, which it may still take to be there."""
    one = MoverMachine(3, {7: (8,), 8: (7,)})
    one.handle(Asked(Whereabouts(AT)), 0.0)
    told = answer(one, known)
    assert (told.places, told.since) == (AT, 0)


def test_an_answer_to_one_that_has_forgotten_is_not_taken_for_the_whole() -> None:
    """It started anew meanwhile; the answer is for what it knew before."""
    told = Whereabouts((), whole=True, state=9, since=4)
    assert told.tells_all(4)
    assert not told.tells_all(0)
    assert (told.brings_to(4), told.brings_to(0)) == (9, 0)


def test_sites_are_told_of_what_belongs_to_what_they_run() -> None:
    """7 and 8 belong together, and 9 to neither."""
    one = MoverMachine(4, {7: (8,), 8: (7,), 9: ()})
    one.handle(Asked(Whereabouts((StartedAt(7, 0, 0), StartedAt(8, 1, 0), StartedAt(9, 2, 0)))), 0.0)
    assert answer(one, 0, sender=1).places == (StartedAt(7, 0, 0), StartedAt(8, 1, 0))
    assert answer(one, 0, sender=2).places == (StartedAt(9, 2, 0),)
    assert answer(one, 0, sender=3).places == ()
    moved = StartedAt(8, 3, 1)
    told = dict(sent(one.handle(Asked(Whereabouts((moved,))), 0.0)))
    assert told == {
        0: Whereabouts((moved,)),  # runs what belongs to it
        1: Whereabouts((moved,)),  # it left
        3: Whereabouts((StartedAt(7, 0, 0), moved)),  # it came, and with it what belongs to it
    }


class AsTheTableSays:
    """Of every proposal that an event names or that waits: what the event made of it is in the table."""

    name = "proposals change as the table says"

    def __init__(self, seen: set[tuple[Seen, type, Seen]]) -> None:
        self._seen, self._before = seen, dict[ProposalId, Seen]()

    def after_step(self, step: Step, world: WorldView) -> str | None:
        if step.site != world.sites - 1 or isinstance(step.event, Crashed):
            return None
        node = world.machine(step.site)
        if node is None:
            return None
        found: MoverMachine = node.mover
        message = step.event.message if isinstance(step.event, Received) else None
        if isinstance(message, Proposed | Inquiry):
            self._before.setdefault(message.id, Seen.UNKNOWN)
        event: type = type(message) if isinstance(message, Proposed | Inquiry) else type(step.event)
        event = Verdicts if event is TimerDue else event  # which is when the runner judges
        for id, before in self._before.items():
            after = found.seen(id)
            self._before[id] = after
            kind = CarriedOut if before is Seen.ACCEPTED and after is Seen.ENDED else event
            if before is not after:
                self._seen.add((before, kind, after))
                if after not in TRANSITIONS.get((before, kind), ()):
                    return f"{kind.__name__} made {id} {after} from {before}"
        return None

    def at_end(self, world: WorldView) -> str | None:
        return None


def test_random_faults_change_proposals_as_the_table_says() -> None:
    seen = set[tuple[Seen, type, Seen]]()
    migration = MigrationParams(displacement_ms=1.0, least_saving=0.05, look_again=4)
    params = OptimiserParams(period_ms=40.0, rounds_per_review=8, patience=2, migration=migration)
    subject = RunSubject(
        optimiser_machines(chain_layout, params),
        lambda: (AsTheTableSays(seen),),
        homes=chain_homes,
        judge=some_refused,
    )
    for seed in range(8):
        violation = subject.run(optimiser_scenarios()(seed)).violation
        assert violation is None, f"seed {seed}: {violation}"
    changing = {(a, kind, b) for (a, kind), after in TRANSITIONS.items() for b in after if a is not b}
    assert changing - seen <= {(Seen.WAITING, Started, Seen.UNKNOWN), (Seen.UNKNOWN, Inquiry, Seen.ENDED)}
