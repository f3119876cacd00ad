"""Requests for changes through the service: carried out in threads, one at a time, with a state to look
up.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from mooring.errors import InputError, described
from mooring.model.deployment.moves import Move, MoveList
from mooring.service.view.errors import BusyError, ChangedError, NotYetError
from mooring.service.view.run_view import RunView
from mooring.spark.runs.run_client import Step

MOST_KEPT = 100
MOST_AT_ONCE = 4
Told = Callable[[int, Step], None]


class RequestsMade:
    def __init__(self, view: RunView) -> None:
        self._view = view
        self._made: dict[str, dict[str, Any]] = {}
        self._planned: dict[str, MoveList] = {}
        self._lock = threading.Lock()

    def plan(self, wanted: MoveList) -> None:
        """Remember a list that was shown, so that exactly it can be asked for."""
        with self._lock:
            self._planned[wanted.fingerprint] = wanted
            while len(self._planned) > MOST_KEPT:
                self._planned.pop(next(iter(self._planned)))

    def apply(self, fingerprint: str, asked_by: str) -> dict[str, Any]:
        """Have exactly the list of that fingerprint carried out: the run's proposal, or one planned here."""
        proposal = self._view.proposal()
        wanted = proposal if proposal is not None and proposal.fingerprint == fingerprint else None
        wanted = wanted or self._planned.get(fingerprint)
        if wanted is None:
            raise ChangedError(
                f"the list of moves {fingerprint[:40]!r} is outdated",
                remedy="request the current proposal instead",
            )
        asker, chosen = self._view.source.asker(asked_by), wanted
        words = _in_words(chosen.moves)
        return self._begin("apply", fingerprint, words, asked_by, lambda told: asker.ask(chosen, told))

    def dismiss(self, fingerprint: str, asked_by: str) -> dict[str, Any]:
        """Have the run not propose exactly this again for a while."""
        proposal = self._view.proposal()
        if proposal is None or proposal.fingerprint != fingerprint:
            raise ChangedError(
                f"the proposal {fingerprint[:40]!r} is outdated",
                remedy="request the current proposal instead",
            )
        asker, moves = self._view.source.asker(asked_by), proposal.moves
        words = _in_words(moves)
        return self._begin("dismiss", fingerprint, words, asked_by, lambda told: asker.dismiss(moves))

    def abort(self, asked_by: str) -> dict[str, Any]:
        asker = self._view.source.asker(asked_by)
        return self._begin("abort", "", "what is under way", asked_by, asker.abort)

    def leave(self, site: str, asked_by: str, *, force: bool) -> dict[str, Any]:
        asker = self._view.source.asker(asked_by)
        self._check_site(site)
        return self._begin("leave", site, site, asked_by, lambda told: asker.leave(site, told, force=force))

    def come_back(self, site: str, asked_by: str) -> dict[str, Any]:
        asker = self._view.source.asker(asked_by)
        self._check_site(site)
        return self._begin("return", site, site, asked_by, lambda told: asker.come_back(site, told))

    def stop(self, pipeline: str, asked_by: str) -> dict[str, Any]:
        """End the run, if it is that pipeline's."""
        running = str(self._view.status.get("pipeline"))
        if pipeline != running:
            raise ChangedError(
                f"found the pipeline {pipeline[:80]!r}, and {running!r} runs",
                remedy="give the name of what runs",
            )

        def end(told: Told) -> dict[str, Any]:
            ended = self._view.source.stop(asked_by)
            return {"state": "done", "why": "" if ended else "it had ended already"}

        return self._begin("stop", pipeline, pipeline, asked_by, end)

    def all(self) -> list[dict[str, Any]]:
        """The newest first."""
        with self._lock:
            return [dict(each) for each in reversed(self._made.values())]

    def one(self, name: str) -> dict[str, Any]:
        with self._lock:
            if name not in self._made:
                raise NotYetError(
                    f"found no request {name[:40]!r}", remedy="/api/v1/moves lists those made here"
                )
            return dict(self._made[name])

    def _check_site(self, site: str) -> None:
        if site not in self._view.problem.site_index:
            known = ", ".join(self._view.problem.site_index)
            raise InputError(f"found no site {site[:80]!r}, expected one of {known}", field="site")

    def _begin(
        self, kind: str, what: str, words: str, asked_by: str, ask: Callable[[Told], dict[str, Any]]
    ) -> dict[str, Any]:
        """`what` is meant for programs, `words` for people."""
        if not self._view.source.runs:
            raise ChangedError("the project does not run", remedy="start it with `mooring run`")
        name = uuid.uuid4().hex[:16]
        made: dict[str, Any] = {
            "request": name,
            "kind": kind,
            "what": what,
            "words": words,
            "at_s": self._view.source.clock.now_s(),
            "asked_by": asked_by,
            "state": "running",
            "why": "",
            "steps": [],
        }
        with self._lock:
            if sum(each["state"] == "running" for each in self._made.values()) >= MOST_AT_ONCE:
                raise BusyError(
                    "the limit of requests under way is reached", remedy="repeat the request later"
                )
            self._made[name] = made
            while len(self._made) > MOST_KEPT:
                self._made.pop(next(iter(self._made)))
        threading.Thread(target=self._follow, args=(made, ask), daemon=True).start()
        return dict(made)

    def _follow(self, made: dict[str, Any], ask: Callable[[Told], dict[str, Any]]) -> None:
        def told(at: int, step: Step) -> None:
            with self._lock:
                made["steps"] = [*made["steps"][:at], dict(step)]

        try:
            answer = ask(told)
            state, why = str(answer["state"]), str(answer.get("why", ""))
        except Exception as failure:  # or it would be under way for good, and take one of the places
            state, why = "failed", described(failure)
        with self._lock:
            made.update(state=state, why=why)


def _in_words(moves: Sequence[Move]) -> str:
    return ", ".join(f"{move.fragment} {move.from_site} → {move.to_site}" for move in moves)
