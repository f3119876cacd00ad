"""One scenario run in several ways, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.model.problem.changes.change import change_to_data, in_words
from mooring.progress import Report, silent
from mooring.simulator.runs.adapted_run import Circumstances, Way, run_adapted
from mooring.simulator.runs.timeline import CourseReport


@dataclass(frozen=True)
class Comparison:
    scenario: Circumstances
    courses: dict[str, CourseReport]
    """By the name of the way, in the order in which they were asked for."""

    def as_json(self) -> dict[str, object]:
        return {
            "seconds": self.scenario.seconds,
            "changes": [
                {**change_to_data(change), "what": in_words(change)} for change in self.scenario.changes
            ],
            "ways": {name: course.as_json() for name, course in self.courses.items()},
        }


def compare_ways(scenario: Circumstances, ways: Sequence[Way], progress: Report = silent) -> Comparison:
    """The same tuples arrive whichever way it is run."""
    courses: dict[str, CourseReport] = {}
    for done, way in enumerate(ways):

        def told(share: float, what: str, done: int = done) -> None:
            progress((done + share) / len(ways), what)

        courses[way.name] = run_adapted(scenario, way, told)
    return Comparison(scenario, courses)
