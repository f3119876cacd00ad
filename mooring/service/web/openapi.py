"""The interface described for tools: an OpenAPI document, written down path by path."""

from __future__ import annotations

from typing import Any

from mooring import __version__

Schema = dict[str, Any]
_NUMBER: Schema = {"type": ["number", "null"]}
_TEXT: Schema = {"type": "string"}


def _object(required: dict[str, Schema], **others: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": {**required, **others}}


def _list(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _map(of: Schema) -> Schema:
    return {"type": "object", "additionalProperties": of}


_VERSION: Schema = {"type": "integer", "const": 1}
_ANY: Schema = {"type": "object"}
_ERROR = _object(
    {"error": _object({"kind": _TEXT, "message": _TEXT, "remedy": {"type": ["string", "null"]}})},
)
_MOVE = _object(
    {"fragment": _TEXT, "from": _TEXT, "to": _TEXT, "state_bytes": _NUMBER, "pause_s": _NUMBER, "after": _ANY}
)
_MOVES = _object({"id": _TEXT, "from": _map(_TEXT), "to": _map(_TEXT), "before": _ANY, "moves": _list(_MOVE)})
_ASKED = _object(
    {
        "request": _TEXT,
        "kind": _TEXT,
        "what": _TEXT,
        "words": _TEXT,
        "at_s": {"type": "number"},
        "asked_by": _TEXT,
        "why": _TEXT,
        "state": {"type": "string", "enum": ["running", "done", "refused", "failed", "aborted"]},
        "steps": _list(_ANY),
    },
    version=_VERSION,
)
_GROWTH = _object({"factor": _NUMBER, "site": {"type": ["string", "null"]}})
_SLICE = _object(
    {
        "version": _VERSION,
        "first": _TEXT,
        "second": _TEXT,
        "rates": _list({"type": "number"}),
        "edges": _list(
            _object({"site": {"type": ["string", "null"]}, "points": _list(_list({"type": "number"}))})
        ),
        "overloaded": {"type": ["string", "null"]},
        "beyond": {"type": ["string", "null"]},
    }
)
_PICTURE = _object({"version": _VERSION, "runs": {"type": "boolean"}})
_TRIAL: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "policy": {**_TEXT, "default": "rod"},
        "settings": _map(_TEXT),
        "rates": _map({"type": "number", "minimum": 0, "maximum": 1e12}),
        "pins": _map(_TEXT),
        "seed": {"type": "integer", "minimum": 0, "maximum": 2**32 - 1, "default": 0},
        "example": {"type": "boolean", "default": False},
    },
}
_PLANNING: Schema = {
    **_TRIAL,
    "properties": {k: v for k, v in _TRIAL["properties"].items() if k not in ("rates", "pins", "example")},
}


def _closed(required: dict[str, Schema], **others: Schema) -> Schema:
    return {**_object(required, **others), "additionalProperties": False}


def _query(name: str, schema: Schema, meaning: str) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": meaning}


def _inside(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _answer(meaning: str, schema: Schema, kind: str = "application/json") -> Schema:
    return {"description": meaning, "content": {kind: {"schema": schema}}}


def _get(meaning: str, schema: Schema, *parameters: Schema, errors: tuple[int, ...] = ()) -> Schema:
    return {
        "get": {
            "summary": meaning,
            "parameters": list(parameters),
            "responses": {"200": _answer(meaning, schema), **_errors((400, *errors))},
        }
    }


def _post(
    meaning: str,
    body: Schema,
    schema: Schema,
    *parameters: Schema,
    code: int = 202,
    errors: tuple[int, ...] = (),
) -> Schema:
    return {
        "post": {
            "summary": meaning,
            "parameters": list(parameters),
            "security": [{"token": []}],
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {
                str(code): _answer(meaning, schema),
                **_errors((400, 401, 404, 409, 413, 415, 429, *errors)),
            },
        }
    }


def _errors(codes: tuple[int, ...]) -> Schema:
    return {str(code): _answer("refused, with the reason and what to do", _ERROR) for code in codes}


_NEWEST = {"type": "integer", "minimum": 1, "maximum": 600}
_RUN_PATHS: Schema = {
    "/api/v1/status": _get(
        "whether it runs, and its status as `mooring status --json` has it under `last`",
        _object({"version": _VERSION, "running": {"type": "boolean"}, "last": {"type": ["object", "null"]}}),
    ),
    "/api/v1/picture": _get("all that the page draws", _PICTURE),
    "/api/v1/history": _get(
        "rates, site shares, latencies and headroom over time",
        _object({"version": _VERSION, "points": _list(_ANY)}),
        _query("newest", _NEWEST, "how many points"),
    ),
    "/api/v1/headroom": _get(
        "how far rates can grow",
        _object(
            {"version": _VERSION, "headroom": _object({"streams": _map(_GROWTH), **_GROWTH["properties"]})}
        ),
        errors=(404,),
    ),
    "/api/v1/slice": _get(
        "the feasible rates of two streams, the others at what was measured",
        _SLICE,
        _query("first", _TEXT, "the stream along the first axis"),
        _query("second", _TEXT, "the stream along the second axis"),
        errors=(404,),
    ),
    "/api/v1/problem": _get("the problem as the run understands it", _ANY, errors=(404,)),
    "/api/v1/placement": _get(
        "where everything runs", _object({"version": _VERSION, "placement": _map(_TEXT)}), errors=(404,)
    ),
    "/api/v1/proposal": _get(
        "what the run proposes, with its fingerprint under `id`; null if nothing",
        _object({"version": _VERSION, "proposal": {"anyOf": [{"type": "null"}, _MOVES]}}),
    ),
    "/api/v1/journal": _get(
        "what was done, the newest last",
        _object({"version": _VERSION, "records": _list(_ANY)}),
        _query("newest", {"type": "integer", "minimum": 1, "maximum": 1000}, "how many records"),
    ),
    "/api/v1/plan": _post(
        "a dry run of a policy at the measured rates, with the moves that lead there",
        _PLANNING,
        _MOVES,
        code=200,
    ),
    "/api/v1/moves": {
        **_get(
            "what was asked for through the service, and what is under way",
            _object({"version": _VERSION, "requests": _list(_ASKED)}),
        ),
        **_post("carry out exactly the list with this fingerprint", _closed({"id": _TEXT}), _ASKED),
    },
    "/api/v1/proposal/dismiss": _post(
        "do not propose exactly this again for an hour", _closed({"id": _TEXT}), _ASKED
    ),
    "/api/v1/moves/abort": _post("take back the list that is under way", _closed({}), _ASKED),
    "/api/v1/moves/{request}": _get("how far a request is", _ASKED, _inside("request"), errors=(404,)),
    "/api/v1/sites/{site}/leave": _post(
        "empty a site and keep it empty", _closed({}, force={"type": "boolean"}), _ASKED, _inside("site")
    ),
    "/api/v1/sites/{site}/return": _post("use a site again", _closed({}), _ASKED, _inside("site")),
}
_DESK_PATHS: Schema = {
    "/api/v1/problem": _get("the problem", _ANY),
    "/api/v1/example": _get("the example problem, which `example` tries instead", _ANY),
    "/api/v1/picture": _get("all that the page draws, as `rod` places it", _PICTURE, errors=(409,)),
    "/api/v1/policies": _get("the policies and their parameters", _object({"policies": _map(_ANY)})),
    "/api/v1/desk/plan": _post(
        "place the problem at other rates, with pins, by any policy",
        _TRIAL,
        _object({"version": _VERSION, "placement": _map(_TEXT), "metrics": _ANY, "picture": _PICTURE}),
        code=200,
    ),
    "/api/v1/desk/document": _post(
        "such a plan as `mooring plan --json` prints it",
        _TRIAL,
        _object({"version": _VERSION, "problem": _TEXT, "placement": _map(_TEXT), "metrics": _ANY}),
        code=200,
    ),
    "/api/v1/desk/slice": _post(
        "a slice of such a placement's feasible set",
        _closed({"first": _TEXT, "second": _TEXT}, trial=_TRIAL),
        _SLICE,
        code=200,
    ),
    "/api/v1/desk/compare": _post(
        "the same by several policies",
        _closed({"policies": _list(_TEXT)}, trial=_TRIAL),
        _object({"version": _VERSION, "policies": _map(_ANY)}),
        code=200,
    ),
}


def openapi_document(kind: str) -> Schema:
    """`kind`: "run" or "desk"."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mooring", "version": __version__},
        "paths": _RUN_PATHS if kind == "run" else _DESK_PATHS,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
