"""The survey of the network as agents host it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.agents.measured_latencies import keep_survey
from mooring.agents.transport.members import Members
from mooring.contracts.hosted_protocol import HostedProtocol
from mooring.contracts.site_machine import Data
from mooring.coordination.claims import survey_claims
from mooring.coordination.gossip import Entries, Entry, KnownVersions, Reply
from mooring.coordination.survey import (
    EchoAsked,
    Echoed,
    NetworkFigures,
    SiteFigures,
    SurveyParams,
    survey_machines,
)

Keep = Callable[[Members, str, Data], None]
"""What is done with a protocol's output where it was put out, besides sending it to the runner, and once more
where the runner is; takes the members, who keeps it, and the output."""


def _keep(members: Members, keeper: str, output: Data) -> None:
    if isinstance(output, NetworkFigures):
        keep_survey(members, keeper, output)


KEPT_OUTPUTS: Mapping[str, Keep] = {"survey": _keep}
"""By protocol."""


def hosted_survey(params: SurveyParams | None = None) -> HostedProtocol:
    return HostedProtocol(
        name="survey",
        make=survey_machines(params),
        messages=EchoAsked | Echoed | KnownVersions | Reply[SiteFigures] | Entries[SiteFigures],
        claims=survey_claims((params or SurveyParams()).vivaldi.dimensions),
        durable=Entry[SiteFigures],
        outputs=NetworkFigures,
    )
