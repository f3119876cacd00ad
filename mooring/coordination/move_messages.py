"""The contract between protocols and the mover.

Machines never stop, start or transfer a fragment. They propose, and the mover, which lives where journal,
fence and guards are, answers:

    machine -> mover    Proposed(id, plan, lease, promise)
    mover -> machine    Refused(id, reason)                 nothing happens
                        Accepted(id)                        guards allow the whole plan; it is being made
                        Done(id, places)                    every fragment is where the plan wants it
                        Failed(id, reason, places)          not all of them are
    any site -> mover   Inquiry(id)                         what has become of it? answered as above
                        LookUp(known)                       where is everything? answered with `Whereabouts`
    mover -> sites      Whereabouts(places)                 after every start of a fragment, where it matters

The mover is a peer like any other, with the number that follows the last site's (`mover_of`). Messages to and
from it may be lost, doubled and overtaken, and it may crash, so:

- **Ids.** A site numbers its proposals upwards: (site, incarnation, number). It has one open at a time, keeps
  it in its durable state before it sends it, and repeats it until it is answered for good (`Proposer` does
  that). The mover answers an id the same way for ever; of each site it remembers the newest id. Older ones
  are `Over`.
- **Leases.** What a plan depends on (room at the target, queries that no other plan may change) is held by
  sites under the proposal's id. Once the proposal is sent, nothing that is held for it expires by itself. It
  ends with the mover's answer. The mover sends its answers to all holders named in the lease; a holder that
  receives none for a while sends an `Inquiry`. A proposal that the mover has never received is refused then,
  and stays refused if it arrives after all. So nothing is given up while it may still be carried out, and
  nothing leaks, even if the proposer is gone for good.
- **Epochs.** The fence's epoch of a fragment, a new one at every start of it, is the only epoch. A plan has
  the epoch of every fragment that it moves, and may name others that it was made from; if one of them was
  started again since then, for any reason, the plan is refused.
- **Whereabouts.** Recovery, moves by hand, rollbacks and plans of others reach machines in this way alone. Of
  two places of one fragment the one with the higher epoch is newer (`StartedAt.newer_than`). An answer to a
  `LookUp` names the state that it brings its receiver to. The next one names that state in turn, and gets
  what has changed since. A protocol may say which fragments concern which site (`mover.py`).
- **Promises** are in the currency of guards and ledger: tuples under way (decision 0041).
"""

from __future__ import annotations

import msgspec

ProposalId = tuple[int, int, int]
"""Site, its incarnation, a running number there. Of two ids of one site, the larger one is newer."""


def mover_of(sites: int) -> int:
    """The mover's number as a peer, beside so many sites."""
    return sites


NOWHERE = -1
NO_STATE = -1


class StartedAt(msgspec.Struct, frozen=True):
    """A fragment (by its number in the problem) was started at a site, under an epoch of the fence."""

    fragment: int
    site: int
    """`NOWHERE`: what was started under this epoch was ended, and the next start is yet to come."""
    epoch: int

    def newer_than(self, other: StartedAt | None) -> bool:
        """Of two places of one fragment."""
        if other is None or self.epoch != other.epoch:
            return other is None or self.epoch > other.epoch
        return self.site == NOWHERE != other.site


class FragmentMove(msgspec.Struct, frozen=True):
    fragment: int
    from_site: int
    to_site: int
    epoch: int
    """Under which it runs at `from_site`, as far as the proposer knows."""


class MovePlan(msgspec.Struct, frozen=True):
    """Moves that are judged as a whole, and made in their order or not at all."""

    moves: tuple[FragmentMove, ...]
    made_from: tuple[StartedAt, ...] = ()
    """Where other fragments were that it takes into account."""


class Lease(msgspec.Struct, frozen=True):
    """What is held for a plan, under the id of its proposal."""

    holders: tuple[int, ...] = ()
    """Sites that hold something until they hear the answer."""


class Promise(msgspec.Struct, frozen=True):
    """What a plan is good for, as far as its proposer can tell. What it cannot tell is left out."""

    tuples_saved: float
    """Tuples under way (on links and in queues) that there would be fewer of."""
    loads_cores: tuple[tuple[int, float], ...] = ()
    """Sites, and their load once the plan is carried out."""
    latency_ms: tuple[tuple[int, float], ...] = ()
    """Queries (by their number in the problem), and their latency then."""


# To the mover.


class Proposed(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    plan: MovePlan
    lease: Lease
    promise: Promise
    violation: bool = False
    """It mends what is broken, a query's limit or a site that is too full. Guards then ask for fewer looks:
    who proposes it has watched it."""


class Inquiry(msgspec.Struct, frozen=True, tag=True):
    """From a site that holds something for a proposal and has received no answer for a while."""

    id: ProposalId


class LookUp(msgspec.Struct, frozen=True, tag=True):
    """From a machine that has just started, or has heard nothing for a while."""

    known: int = 0
    """The `state` that an answer brought it to since it started; 0: it knows of nothing, `NO_STATE`: of some
    places."""


# From the mover.


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """It is being carried out: everything that is held for it has to stay until one of the others comes."""

    id: ProposalId


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Nothing of it was done, nor will be."""

    id: ProposalId
    reason: str


class Done(msgspec.Struct, frozen=True, tag=True):
    id: ProposalId
    places: tuple[StartedAt, ...]
    """Of the plan's fragments."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It was begun and is not as planned; the places say what it is."""

    id: ProposalId
    reason: str
    places: tuple[StartedAt, ...]


class Over(msgspec.Struct, frozen=True, tag=True):
    """It was answered long ago; how is not known any more. Whereabouts say what is."""

    id: ProposalId


class Whereabouts(msgspec.Struct, frozen=True, tag=True):
    """Where fragments are: those that were started lately or, in answer to a `LookUp`, all that are known."""

    places: tuple[StartedAt, ...]
    whole: bool = False
    """With these, and what was told before, everything is told. Not so while a run begins."""
    state: int = 0
    """In answer to a `LookUp`: what its receiver knows with these, by a name that the mover understands."""
    since: int = 0
    """What its receiver has to know for that; 0: nothing. One that started anew meanwhile may not."""

    def tells_all(self, known: int) -> bool:
        """To a machine with that state."""
        return self.whole and self.since in (0, known)

    def brings_to(self, known: int) -> int:
        """The state of a machine that had that one."""
        return self.state if self.state and self.since in (0, known) else known


class StatedLatencies(msgspec.Struct, frozen=True, tag=True):
    """From the mover: how far this site is from each site, where that is stated and not to be measured."""

    latency_ms: tuple[float, ...]
    """One way; -1 where it is not stated."""


Ending = Refused | Done | Failed | Over
"""Answers after which nothing more comes."""
Answer = Accepted | Ending
ToMover = Proposed | Inquiry | LookUp
FromMover = Answer | Whereabouts
