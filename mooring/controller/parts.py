"""The parts of a run, each of which fails by itself.

The *data plane* keeps fragments running: recovery, fences, moves, trimming. *Advice* says what could be moved
(deciders, the surveyor, the ledger), *measurement* says how fragments and sites are doing, *publishing* shows
it (the status file, the report, the page). Only the data plane is needed for rows to arrive, so nothing that
the others raise may end or delay it. A part of the data plane that raises is tried again with the next turn;
the others are tried again after a pause that doubles. Each failure is reported once, with its reason, and
again at most at intervals that double, so no log grows without bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from mooring.contracts.decider import STALLS
from mooring.errors import OvertakenError, described

T = TypeVar("T")
Kind = Literal["data plane", "advice", "measurement", "publishing"]
ASIDE: tuple[Kind, ...] = ("advice", "measurement", "publishing")
"""Rows arrive without them."""
FIRST_PAUSE_S = 5.0
"""Before a part outside the data plane is tried again; it doubles up to ..."""
LONGEST_PAUSE_S = 300.0
QUIET_S = 10.0
"""A part that fails, works and fails again is reported once in this long; it doubles up to ..."""
LONGEST_QUIET_S = 3600.0


@dataclass
class _Part:
    failures: int = 0
    """In a row; none while it works."""
    since_s: float = 0.0
    said: str = ""
    """What was last reported of it; empty once it was reported to work again."""
    quiet_until_s: float = float("-inf")
    quiet_s: float = QUIET_S
    next_s: float = float("-inf")
    trouble: str = ""


def is_aside(trouble: str) -> bool:
    """Whether a trouble, by its name, concerns only what rows arrive without.

    >>> is_aside("stalled: totals")
    True
    >>> is_aside("advice: deciding"), is_aside("data plane: trimming the channels"), is_aside("site a")
    (True, False, False)
    """
    return trouble.split(": ")[0] in (*ASIDE, *STALLS)


class Parts:
    """One per run. `check` is called after every failure and raises `OvertakenError` where the run has lost
    its storage: then nothing works, and that is all there is to say.
    """

    def __init__(
        self,
        tell: Callable[[str], None] = lambda what: None,
        now_s: Callable[[], float] = lambda: 0.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._tell, self._now_s, self._check = tell, now_s, check
        self._parts: dict[tuple[Kind, str], _Part] = {}

    def do(self, kind: Kind, what: str, work: Callable[[], T]) -> T | None:
        """What `work` returns; None if it failed, or is not due yet after a failure."""
        if not self._is_due(kind, what):
            return None
        try:
            result = work()
        except OvertakenError:
            raise
        except Exception as failure:
            self.failed(kind, what, failure)
            return None
        self.works(kind, what)
        return result

    def through(
        self, kind: Kind, what: str, work: Callable[[], Iterable[T] | None], *, always: bool = False
    ) -> Iterator[T]:
        """What `work` yields, until it fails; nothing where it is not due yet after a failure, unless it is
        to be done `always`.
        """
        if not always and not self._is_due(kind, what):
            return
        try:
            yield from work() or ()
        except OvertakenError:
            raise
        except Exception as failure:
            self.failed(kind, what, failure)
        else:
            self.works(kind, what)

    def _is_due(self, kind: Kind, what: str) -> bool:
        part = self._parts.get((kind, what))
        return part is None or not part.failures or self._now_s() >= part.next_s

    def failed(self, kind: Kind, what: str, failure: BaseException | str) -> None:
        """Report a failure that was met elsewhere, such as in a thread."""
        self.refuse_overtaken()
        now_s, part = self._now_s(), self._parts.setdefault((kind, what), _Part())
        part.failures += 1
        if part.failures == 1:
            part.since_s = now_s
        if kind != "data plane":
            part.next_s = now_s + min(FIRST_PAUSE_S * 2.0 ** min(part.failures - 1, 60), LONGEST_PAUSE_S)
        part.trouble = failure if isinstance(failure, str) else described(failure)
        if part.trouble != part.said and now_s >= part.quiet_until_s:
            self._report(part, part.trouble, f"{what} failed: {part.trouble}", now_s)

    def refuse_overtaken(self) -> None:
        """`OvertakenError` if the run has lost its storage, as far as that can be looked up."""
        try:
            self._check()
        except OvertakenError:
            raise
        except Exception:
            pass

    def works(self, kind: Kind, what: str) -> None:
        """It works again, if it had failed."""
        part = self._parts.get((kind, what))
        if part is None or not part.failures:
            return
        failures, part.failures, part.trouble = part.failures, 0, ""
        if part.said:
            part.said = ""
            self._tell(f"{what} works again after {failures} {'failure' if failures == 1 else 'failures'}")

    def troubles(self) -> dict[str, str]:
        """Parts that fail now, and why."""
        return {
            f"{kind}: {what}": part.trouble for (kind, what), part in self._parts.items() if part.failures
        }

    def _report(self, part: _Part, said: str, line: str, now_s: float) -> None:
        rested_s = now_s - part.quiet_until_s
        part.quiet_s = QUIET_S if rested_s > LONGEST_QUIET_S else min(2.0 * part.quiet_s, LONGEST_QUIET_S)
        part.said, part.quiet_until_s = said, now_s + part.quiet_s
        self._tell(line)
