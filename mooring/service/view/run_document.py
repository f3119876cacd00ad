"""The one document that the page draws: a run at a glance, made from its status, its problem and its journal.

Everything that takes arithmetic is done here, so that the page only draws and the frozen report needs no
server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from mooring.arrays import Floats, Ints
from mooring.controller.journal import Record
from mooring.controller.known_model import known_model_in
from mooring.controller.run_headroom import RunHeadroom
from mooring.model.load.build import build_load_model
from mooring.model.load.feasible.headroom import headroom
from mooring.model.load.feasible.slice import ideal_line, slice_through
from mooring.model.load.model import LoadModel
from mooring.model.placement.placement import FragmentSites
from mooring.model.problem.problem import Problem
from mooring.service.view.run_events import happenings

VERSION = 1
Document = dict[str, Any]


class RunPicture:
    """Of one problem; asked again with every status."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._model = build_load_model(problem)

    # What does not change while the problem stays

    @cached_property
    def edges(self) -> list[tuple[str, str]]:
        """Fragment -> fragment that reads it, each once. By the graph: a query may have a fragment's name."""
        problem = self.problem
        home = {
            j: name
            for name, members in zip(problem.fragment_names, problem.fragments, strict=True)
            for j in members
        }
        streams = len(problem.streams)
        found = {
            (home[node - streams], home[j])
            for j, ports in enumerate(problem.graph.ports)
            for port in ports
            for node in port
            if node >= streams and home[node - streams] != home[j]
        }
        return sorted(found)

    @cached_property
    def layers(self) -> dict[str, int]:
        """Fragment -> its column: one more than that of what it reads."""
        reads: dict[str, list[str]] = {name: [] for name in self.problem.fragment_names}
        for writer, reader in self.edges:
            reads[reader].append(writer)
        layers: dict[str, int] = {}
        for _ in reads:  # each round settles at least one more; fragments form no circles
            for name, writers in reads.items():
                layers[name] = 1 + max((layers.get(writer, 0) for writer in writers), default=-1)
        return layers

    # The document

    def document(
        self,
        status: Mapping[str, Any],
        records: Sequence[Record] = (),
        proposal: Mapping[str, Any] | None = None,
        *,
        runs: bool = True,
    ) -> Document:
        """`proposal`: that of the status with what each move does, where somebody worked it out."""
        adapting = status.get("adapting") or {}
        return {
            "version": VERSION,
            "pipeline": status.get("pipeline", ""),
            "policy": status.get("policy", ""),
            "runs": runs,
            "at_s": status["at_s"],
            "since_start_s": status["since_start_s"],
            "look_took_s": status.get("look_took_s"),
            "trigger_s": status.get("trigger_s"),
            "adapting": {key: adapting.get(key) for key in ("decider", "act", "why", "statistics")},
            "headroom": self._headroom(status),
            "streams": self._streams(status),
            "sites": self._sites(status),
            "fragments": self._fragments(status),
            "channels": self._channels(status),
            "queries": self._queries(status),
            "views": status.get("views") or {},
            "troubles": (troubles := _troubles(status)),
            "trouble_list": _listed(status, troubles),
            "left_sites": status.get("left_sites") or {},
            "under_way": status.get("list"),
            "proposal": proposal,
            "update": status.get("update"),
            "happenings": happenings(records, adapting.get("ledger") or [], status.get("incidents") or []),
        }

    def slice(self, status: Mapping[str, Any], first: str, second: str) -> Document:
        """The feasible rates of two streams, the others at what was measured last."""
        index, rates = self.problem.stream_index, self._rates(status)
        model = self._model_now(status)
        cut = slice_through(model, self._where(status), rates, index[first], index[second])
        ideal = ideal_line(model, rates, index[first], index[second])
        names: dict[int | None, str | None] = dict(enumerate(site.name for site in self.problem.sites))
        return {
            "version": VERSION,
            "first": first,
            "second": second,
            "rates": [float(rates[index[first]]), float(rates[index[second]])],
            "edges": [
                {"site": names.get(edge.site), "points": [[float(x), float(y)] for x, y in edge.points]}
                for edge in cut.edges
            ],
            "ideal": None if ideal is None else ideal.tolist(),
            "overloaded": names.get(cut.overloaded),
            "beyond": names.get(self._fullest_beyond(status)),
        }

    def _fullest_beyond(self, status: Mapping[str, Any]) -> int | None:
        """The site that the present rates overload most; None where they are within the feasible set."""
        model = self._model_now(status)
        too_much = model.site_loads(self._where(status), self._rates(status)) - model.capacity_cores
        return int(np.argmax(too_much)) if too_much.max() > 0.0 else None

    def first_slice(self, status: Mapping[str, Any]) -> tuple[str, str] | None:
        """The two streams that are nearest to the edge, in the problem's order; None where there are not two.
        Where a site is full whatever a stream does, that stream is not what fills it.
        """
        if len(self.problem.streams) < 2:
            return None
        growths = headroom(self._model_now(status), self._where(status), self._rates(status)).streams
        order = np.argsort([growth.factor or np.inf for growth in growths], kind="stable")[:2]
        first, second = (self.problem.streams[int(k)].name for k in np.sort(order))
        return first, second

    # Its parts

    def _model_now(self, status: Mapping[str, Any]) -> LoadModel:
        """With the costs and capacities that the run goes by: what is shown agrees with what it decides."""
        return build_load_model(known_model_in(status).problem(self.problem))

    def _rates(self, status: Mapping[str, Any]) -> Floats:
        """As the run knows them, or as the problem states them where that is missing."""
        measured = known_model_in(status).stream_rates
        stated = self._model.present[: self._model.stream_count]
        return np.array([float(measured.get(s.name, stated[k])) for k, s in enumerate(self.problem.streams)])

    def _where(self, status: Mapping[str, Any]) -> Ints:
        """Site of every fragment: where it runs, or where it was last placed."""
        running = {name: each["site"] for name, each in status["fragments"].items()}
        placed = status.get("placement") or {}
        operators = self.problem.operators
        found = [
            running.get(name) or placed.get(operators[members[0]].name) or self.problem.sites[0].name
            for name, members in zip(self.problem.fragment_names, self.problem.fragments, strict=True)
        ]
        index = self.problem.site_index
        return np.array([index.get(site, 0) for site in found], dtype=np.int64)

    def _headroom(self, status: Mapping[str, Any]) -> Document:
        """The one that the run worked out at its last look."""
        return dict(status.get("headroom") or RunHeadroom().as_json())

    def _streams(self, status: Mapping[str, Any]) -> list[Document]:
        measured = status.get("stream_rates") or {}
        return [
            {"name": s.name, "site": s.site, "rate": measured.get(s.name), "stated": float(stated)}
            for s, stated in zip(self.problem.streams, self._model.present, strict=False)
        ]

    def _sites(self, status: Mapping[str, Any]) -> list[Document]:
        rates, where, model = self._rates(status), self._where(status), self._model_now(status)
        predicted = model.site_loads(where, rates)
        rooms = self._headroom(status)["sites"]
        seen, found = status["sites"], []
        for k, site in enumerate(self.problem.sites):
            each = seen.get(site.name) or {}
            known = each.get("capacity_cores")
            capacity = site.capacity if known is None else float(known)
            load = each.get("load_cores")
            found.append(
                {
                    "name": site.name,
                    "load_cores": load,
                    "expected_cores": float(predicted[k]),
                    "capacity_cores": capacity,
                    "left_cores": each.get("left_cores"),
                    "share": None if load is None or capacity <= 0 else load / capacity,
                    "headroom": (rooms.get(site.name) or {}).get("factor"),
                    "estimated": bool(each.get("estimated")),
                    "resident_mb": each.get("resident_mb"),
                    "executors": each.get("executors"),
                    "driver_cores": each.get("driver_cores"),
                }
            )
        return found

    def _fragments(self, status: Mapping[str, Any]) -> list[Document]:
        running, where = status["fragments"], self._where(status)
        kept = (
            "rows_in_per_s",
            "rows_out_per_s",
            "rows_in",
            "rows_out",
            "state_bytes",
            "files_waiting",
            "rows_waiting",
            "rows_behind",
            "batches",
            "batch_s",
        )
        restarts = status.get("restarts") or {}
        return [
            {
                "name": name,
                "site": self.problem.sites[where[f]].name,
                "runs": name in running,
                "layer": self.layers[name],
                "pinned": bool(self._model.pinned_site[f] >= 0),
                **{key: running.get(name, {}).get(key) for key in kept},
                "restarts": restarts.get(name, 0),
            }
            for f, name in enumerate(self.problem.fragment_names)
        ]

    def _channels(self, status: Mapping[str, Any]) -> list[Document]:
        """Between fragments; what a stream brings and a query gets is told of those."""
        seen = status.get("channels") or {}
        where = dict(zip(self.problem.fragment_names, self._where(status).tolist(), strict=True))
        return [
            {
                "from": writer,
                "to": reader,
                "latency_ms": self._latency_ms(where[writer], where[reader]),
                "bytes_per_s": (seen.get(writer) or {}).get("bytes_per_s"),
                "files_behind": ((seen.get(writer) or {}).get("lag") or {}).get(reader),
            }
            for writer, reader in self.edges
        ]

    def _latency_ms(self, writer_site: int, reader_site: int) -> float | None:
        """Of the network between two sites, and what a channel adds; None where it is not known."""
        network = self.problem.network
        if network.latency_ms is None:
            return None
        return float(network.latency_ms[writer_site, reader_site]) + network.channel_ms

    def _queries(self, status: Mapping[str, Any]) -> list[Document]:
        seen = status.get("queries") or {}
        return [
            {
                "name": query.name,
                "site": query.site,
                "limit_s": None if query.max_latency_ms is None else query.max_latency_ms / 1000.0,
                **{
                    key: (seen.get(query.name) or {}).get(key)
                    for key in ("latency_s", "rows", "rows_per_s", "files_behind")
                },
            }
            for query in self.problem.queries
        ]


def _troubles(status: Mapping[str, Any]) -> dict[str, str]:
    """By name; a site that was left on purpose may be down, since nothing runs there."""
    left, found = status.get("left_sites") or {}, status.get("troubles") or {}
    return {name: why for name, why in found.items() if name not in {f"site {site}" for site in left}}


def _listed(status: Mapping[str, Any], troubles: Mapping[str, str]) -> list[Document]:
    """Those of the last look that last, and those that began since, of which less is known."""
    known = {each["name"]: each for each in status.get("trouble_list") or []}
    new: list[Document] = [
        {
            "name": name,
            "kind": "new",
            "what": name,
            "site": None,
            "since_s": None,
            "why": why,
            "affects": [],
            "remedy": "",
        }
        for name, why in troubles.items()
        if name not in known
    ]
    return [*new, *(each for name, each in known.items() if name in troubles)]


def sites_of(status: Mapping[str, Any]) -> FragmentSites:
    """Where everything runs, by a status."""
    return FragmentSites({name: each["site"] for name, each in status["fragments"].items()})
