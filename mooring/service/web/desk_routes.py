"""The interface over a problem file: try rates, pins and policies."""

from __future__ import annotations

from dataclasses import asdict

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from mooring.algorithms.catalogue import POLICIES
from mooring.algorithms.description import describe_policy
from mooring.errors import InputError
from mooring.model.problem.write import problem_to_data
from mooring.service.view.planning_desk import PlanningDesk, Trial
from mooring.service.web.answers import answering, given


class Cut(msgspec.Struct, forbid_unknown_fields=True):
    """A slice of a trial's feasible set."""

    first: str
    second: str
    trial: Trial = msgspec.field(default_factory=Trial)


class SideBySide(msgspec.Struct, forbid_unknown_fields=True):
    policies: list[str]
    trial: Trial = msgspec.field(default_factory=Trial)


def all_policies() -> dict[str, object]:
    """Read before any thread asks: they are parsed, and Python 3.11 may fail where two threads parse at
    once.
    """
    return {name: asdict(describe_policy(name)) for name in POLICIES}


class DeskRoutes:
    def __init__(self, desk: PlanningDesk) -> None:
        self.desk = desk
        self._policies = all_policies()

    def routes(self) -> list[Route]:
        reads = {
            "problem": self.problem,
            "example": self.example,
            "policies": self.policies,
            "picture": self.picture,
        }
        tries = {
            "desk/plan": self.plan,
            "desk/document": self.document,
            "desk/slice": self.slice,
            "desk/compare": self.compare,
        }
        return [
            *(Route(f"/api/v1/{path}", answering(make), methods=["GET"]) for path, make in reads.items()),
            *(Route(f"/api/v1/{path}", answering(make), methods=["POST"]) for path, make in tries.items()),
        ]

    def problem(self, request: Request) -> object:
        return problem_to_data(self.desk.problem)

    def example(self, request: Request) -> object:
        return problem_to_data(self.desk.example)

    def policies(self, request: Request) -> object:
        return {"version": 1, "policies": self._policies}

    def picture(self, request: Request) -> object:
        return self.desk.plan(Trial())["picture"]

    def plan(self, request: Request) -> object:
        return self.desk.plan(given(request, Trial))

    def document(self, request: Request) -> object:
        return self.desk.document(given(request, Trial))

    def slice(self, request: Request) -> object:
        cut = given(request, Cut)
        return self.desk.slice(cut.trial, cut.first, cut.second)

    def compare(self, request: Request) -> object:
        wanted = given(request, SideBySide)
        for name in wanted.policies:
            if name not in POLICIES:
                raise InputError(
                    f"found {name[:80]!r}, expected one of {', '.join(POLICIES)}", field="policies"
                )
        return self.desk.compare(wanted.trial, list(dict.fromkeys(wanted.policies)))
