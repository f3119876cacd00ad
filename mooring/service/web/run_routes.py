"""The interface over a run: what runs, what it measures, what it proposes, and requests for changes."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mooring.algorithms.catalogue import make_policy
from mooring.errors import InputError
from mooring.model.placement.placement import FragmentSites, Placement
from mooring.model.problem.write import problem_to_data
from mooring.planning import plan
from mooring.service.view.change_requests import RequestsMade
from mooring.service.view.errors import BusyError, NotYetError
from mooring.service.view.run_document import sites_of
from mooring.service.view.run_view import RunView
from mooring.service.web.answers import answering, given, whole_number
from mooring.service.web.desk_routes import all_policies
from mooring.spark.runs.mailbox import this_asker

MOST_RECORDS = 1000
MOST_LINES = 2000


class Chosen(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly this list of moves."""

    id: str


class Leaving(msgspec.Struct, forbid_unknown_fields=True):
    force: bool = False


class Stopping(msgspec.Struct, forbid_unknown_fields=True):
    """The pipeline that is meant, so that nothing else is stopped."""

    pipeline: str


class WantedSites(msgspec.Struct, forbid_unknown_fields=True):
    """Fragment -> the site where it is wanted."""

    sites: dict[str, str]


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Planning(msgspec.Struct, forbid_unknown_fields=True):
    policy: str = "rod"
    settings: dict[str, str] = {}
    seed: int = 0


class RunRoutes:
    def __init__(self, view: RunView) -> None:
        self.view = view
        self.made = RequestsMade(view)
        self._policies = all_policies()
        self._planning = threading.Lock()

    def routes(self) -> list[Route]:
        reads = {
            "status": self.status,
            "picture": self.picture,
            "history": self.history,
            "headroom": self.headroom,
            "slice": self.slice,
            "problem": self.problem,
            "placement": self.placement,
            "proposal": self.proposal,
            "moves": self.moves,
            "moves/{request}": self.move,
            "journal": self.journal,
            "policies": self.policies,
            "logs": self.logs,
            "logs/{log}": self.log,
        }
        changes = {
            "plan": (self.plan, 200),
            "moves": (self.apply, 202),
            "moves/preview": (self.preview, 200),
            "proposal/dismiss": (self.dismiss, 202),
            "moves/abort": (self.abort, 202),
            "sites/{site}/leave": (self.leave, 202),
            "sites/{site}/return": (self.come_back, 202),
            "stop": (self.stop, 202),
        }
        return [
            *(
                Route(f"/api/v1/{path}", answering(make, code), methods=["POST"])
                for path, (make, code) in changes.items()
            ),
            *(Route(f"/api/v1/{path}", answering(make), methods=["GET"]) for path, make in reads.items()),
        ]

    # Reading

    def status(self, request: Request) -> object:
        return {"version": 1, "running": self.view.source.runs, "last": self.view.source.status}

    def picture(self, request: Request) -> object:
        return self.view.document

    def history(self, request: Request) -> object:
        newest = whole_number(request, "newest", 600, 1, 600)
        return {"version": 1, "points": self.view.history.points[-newest:]}

    def headroom(self, request: Request) -> object:
        self.view.status  # noqa: B018 - says that there is none yet
        return {"version": 1, "headroom": self.view.document["headroom"]}

    def slice(self, request: Request) -> object:
        return self.view.slice(request.query_params.get("first"), request.query_params.get("second"))

    def problem(self, request: Request) -> object:
        return problem_to_data(self.view.problem)

    def placement(self, request: Request) -> object:
        placed = Placement.from_fragments(self.view.problem, self._current())
        return {"version": 1, "policy": self.view.status.get("policy"), "placement": placed.as_dict()}

    def proposal(self, request: Request) -> object:
        document = self.view.document
        return {"version": 1, "proposal": document.get("proposal"), "adapting": document.get("adapting")}

    def moves(self, request: Request) -> object:
        return {"version": 1, "under_way": self.view.document.get("under_way"), "requests": self.made.all()}

    def move(self, request: Request) -> object:
        return {"version": 1, **self.made.one(request.path_params["request"])}

    def journal(self, request: Request) -> object:
        newest = whole_number(request, "newest", 100, 1, MOST_RECORDS)
        return {"version": 1, "records": self.view.source.records[-newest:]}

    def policies(self, request: Request) -> object:
        return {"version": 1, "policies": self._policies}

    def logs(self, request: Request) -> object:
        return {"version": 1, "logs": [log.as_json() for log in self.view.source.logs()]}

    def log(self, request: Request) -> object:
        newest, name = whole_number(request, "newest", 200, 1, MOST_LINES), request.path_params["log"]
        for log in self.view.source.logs():
            if log.name == name:
                return {"version": 1, **log.as_json(), "lines": log.tail(newest)}
        raise NotYetError(f"found no log {name[:80]!r}", remedy="/api/v1/logs lists those that there are")

    # Asking for changes

    def preview(self, request: Request) -> object:
        """The moves that put fragments where they are wanted, which can be asked for by their `id`."""
        wanted, start = given(request, WantedSites).sites, self._current()
        for name in wanted:
            if name not in start:
                raise InputError(f"found no fragment {name[:80]!r}", field="sites")
        goal = Placement.from_fragments(self.view.problem, FragmentSites({**start, **wanted}))
        moves = self.view.source.asker("").to(goal, start)
        self.made.plan(moves)
        return {"version": 1, **moves.as_json()}

    def plan(self, request: Request) -> object:
        """A dry run: where a policy would have everything at the measured rates, and the moves that lead
        there, which can be asked for by their `id`.
        """
        wish = given(request, Planning)
        if not 0 <= wish.seed < 2**32:
            raise InputError(f"found {wish.seed}, expected 0 to {2**32 - 1}", field="seed")
        asker, start = self.view.source.asker(""), self._current()
        if not self._planning.acquire(blocking=False):
            raise BusyError("one plan is being made already", remedy="repeat the request when it is done")
        try:
            clock = self.view.source.clock
            began_s = clock.monotonic_s()
            made = plan(asker.at_measured_rates(), make_policy(wish.policy, wish.settings), seed=wish.seed)
            plan_seconds = clock.monotonic_s() - began_s
            wanted = asker.to(made.placement, start)
        finally:
            self._planning.release()
        self.made.plan(wanted)
        return {**made.document(plan_seconds), **wanted.as_json()}

    def apply(self, request: Request) -> object:
        return {"version": 1, **self.made.apply(given(request, Chosen).id, _asker(request))}

    def dismiss(self, request: Request) -> object:
        return {"version": 1, **self.made.dismiss(given(request, Chosen).id, _asker(request))}

    def abort(self, request: Request) -> object:
        given(request, Nothing)
        return {"version": 1, **self.made.abort(_asker(request))}

    def leave(self, request: Request) -> object:
        force = given(request, Leaving).force
        return {"version": 1, **self.made.leave(request.path_params["site"], _asker(request), force=force)}

    def come_back(self, request: Request) -> object:
        given(request, Nothing)
        return {"version": 1, **self.made.come_back(request.path_params["site"], _asker(request))}

    def stop(self, request: Request) -> object:
        return {"version": 1, **self.made.stop(given(request, Stopping).pipeline, _asker(request))}

    def _current(self) -> Any:
        where = sites_of(self.view.status)
        if down := [name for name in self.view.problem.fragment_names if name not in where]:
            raise NotYetError(
                f"{', '.join(down[:5])} does not run at the moment", remedy="the status shows its trouble"
            )
        return where


def _asker(request: Request) -> str:
    """Who asks, for the journal: the service's user, and where the request came from."""
    client = "somewhere" if request.client is None else request.client.host
    kind = "page" if request.headers.get("x-mooring-page") else "REST"
    return this_asker(f"{kind}, from {client}")
