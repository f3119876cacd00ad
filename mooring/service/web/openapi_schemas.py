"""The schemas of the interface's documents."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
NUMBER: Schema = {"type": ["number", "null"]}
TEXT: Schema = {"type": "string"}
TEXT_OR_NONE: Schema = {"type": ["string", "null"]}
ANY: Schema = {"type": "object"}
VERSION: Schema = {"type": "integer", "const": 1}


def an_object(required: dict[str, Schema], **others: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": {**required, **others}}


def closed(required: dict[str, Schema], **others: Schema) -> Schema:
    return {**an_object(required, **others), "additionalProperties": False}


def a_list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def a_map(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


def _numbers(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, NUMBER)


ERROR = an_object({"error": an_object({"kind": TEXT, "message": TEXT, "remedy": TEXT_OR_NONE})})
_MOVE = an_object(
    {
        "fragment": TEXT,
        "from": TEXT,
        "to": TEXT,
        "after": ANY,
        **_numbers("state_bytes", "pause_s", "pause_low_s", "pause_high_s"),
    }
)
MOVES = an_object({"id": TEXT, "from": a_map(TEXT), "to": a_map(TEXT), "before": ANY, "moves": a_list(_MOVE)})
ASKED = an_object(
    {
        "request": TEXT,
        "kind": {"type": "string", "enum": ["apply", "dismiss", "abort", "leave", "return", "stop"]},
        "what": TEXT,
        "words": TEXT,
        "at_s": {"type": "number"},
        "asked_by": TEXT,
        "why": TEXT,
        "state": {"type": "string", "enum": ["running", "done", "refused", "failed", "aborted"]},
        "steps": a_list(ANY),
    },
    version=VERSION,
)
GROWTH = an_object({"factor": NUMBER, "site": TEXT_OR_NONE})
ROOM = an_object(
    {"words": TEXT, "limit": TEXT_OR_NONE, "fragment": TEXT_OR_NONE, **_numbers("factor", "low", "high")}
)
HEADROOM = an_object(
    {
        **ROOM["properties"],
        "site": TEXT_OR_NONE,
        "missing": TEXT,
        "sites": a_map(an_object({**ROOM["properties"], "model_load_cores": a_map(NUMBER)})),
        "streams": a_map(GROWTH),
        "idle_streams": a_list(TEXT),
    }
)
_POINT: Schema = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
SLICE = an_object(
    {
        "version": VERSION,
        "first": TEXT,
        "second": TEXT,
        "rates": _POINT,
        "edges": a_list(an_object({"site": TEXT_OR_NONE, "points": a_list(_POINT)})),
        "ideal": {"anyOf": [{"type": "null"}, a_list(_POINT)]},
        "overloaded": TEXT_OR_NONE,
        "beyond": TEXT_OR_NONE,
    }
)
_SITE = an_object(
    {
        "name": TEXT,
        **_numbers(
            "load_cores", "expected_cores", "capacity_cores", "share", "headroom", "left_cores", "resident_mb"
        ),
        **_numbers("executors", "driver_cores"),
        "estimated": {"type": "boolean"},
    }
)
_FRAGMENT = an_object(
    {
        "name": TEXT,
        "site": TEXT,
        "runs": {"type": "boolean"},
        "layer": {"type": "integer", "minimum": 0},
        "pinned": {"type": "boolean"},
        **_numbers("rows_in_per_s", "rows_out_per_s", "rows_in", "rows_out", "state_bytes"),
        **_numbers("files_waiting", "rows_waiting", "rows_behind", "batches", "batch_s"),
        "restarts": {"type": "integer", "minimum": 0},
    }
)
_CHANNEL = an_object(
    {"from": TEXT, "to": TEXT, **_numbers("latency_ms", "bytes_per_s", "files_behind")},
)
_QUERY = an_object(
    {"name": TEXT, "site": TEXT_OR_NONE, **_numbers("limit_s", "latency_s", "rows", "rows_per_s")},
)
_TROUBLE = an_object(
    {
        **dict.fromkeys(("name", "kind", "what", "why", "remedy"), TEXT),
        "site": TEXT_OR_NONE,
        "since_s": NUMBER,
        "affects": a_list(TEXT),
    }
)
_HAPPENING = an_object(
    {"at_s": {"type": "number"}, "kind": TEXT, "what": TEXT, "asked_by": TEXT, "state": TEXT},
    promised=ANY,
    before=ANY,
    measured={"type": ["object", "null"]},
    verdict=TEXT_OR_NONE,
    **_numbers("pause_s"),
)
PICTURE = an_object(
    {"version": VERSION, "runs": {"type": "boolean"}},
    waiting=TEXT,
    pipeline=TEXT,
    policy=TEXT_OR_NONE,
    **_numbers("at_s", "since_start_s", "look_took_s", "trigger_s"),
    headroom=HEADROOM,
    streams=a_list(an_object({"name": TEXT, "site": TEXT_OR_NONE, "rate": NUMBER, "stated": NUMBER})),
    sites=a_list(_SITE),
    fragments=a_list(_FRAGMENT),
    channels=a_list(_CHANNEL),
    queries=a_list(_QUERY),
    troubles=a_map(TEXT),
    trouble_list=a_list(_TROUBLE),
    views=a_map(ANY),
    proposal={"anyOf": [{"type": "null"}, MOVES]},
    under_way={"type": ["object", "null"]},
    happenings=a_list(_HAPPENING),
)
MOMENT = an_object(
    {
        "at_s": {"type": "number"},
        "since_start_s": {"type": "number"},
        "headroom": NUMBER,
        "rates": a_map(NUMBER),
        "shares": a_map(NUMBER),
        "latencies_s": a_map(NUMBER),
    },
    rows_waiting=NUMBER,
)
LOG = an_object(
    {
        "name": TEXT,
        "kind": {"type": "string", "enum": ["run", "standby", "site", "agent"]},
        "site": TEXT_OR_NONE,
        "path": TEXT,
        "bytes": {"type": "integer"},
        "changed_s": {"type": "number"},
    }
)
TRIAL = closed(
    {},
    policy={**TEXT, "default": "rod"},
    settings=a_map(TEXT),
    rates=a_map({"type": "number", "minimum": 0, "maximum": 1e12}),
    pins=a_map(TEXT),
    seed={"type": "integer", "minimum": 0, "maximum": 2**32 - 1, "default": 0},
    example={"type": "boolean", "default": False},
)
PLANNING = closed({}, **{name: TRIAL["properties"][name] for name in ("policy", "settings", "seed")})
