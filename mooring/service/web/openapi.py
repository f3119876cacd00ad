"""The interface described for tools: an OpenAPI document, written down path by path."""

from __future__ import annotations

import re

from mooring import __version__
from mooring.service.web.openapi_schemas import (
    ANY,
    ASKED,
    ERROR,
    HEADROOM,
    LOG,
    MOMENT,
    MOVES,
    PICTURE,
    PLANNING,
    SLICE,
    TEXT,
    TRIAL,
    VERSION,
    Schema,
    a_list,
    a_map,
    an_object,
    closed,
)


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
            "responses": {"200": _answer(meaning, schema), **_errors((400, 401, 403, 421, *errors))},
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
                **_errors((400, 401, 403, 404, 408, 409, 413, 415, 421, 429, *errors)),
            },
        }
    }


def _errors(codes: tuple[int, ...]) -> Schema:
    return {str(code): _answer("refused, with reason and remedy", ERROR) for code in codes}


def _plain(meaning: str, kind: str, schema: Schema = TEXT, **others: Schema) -> Schema:
    return {"get": {"summary": meaning, "responses": {"200": _answer(meaning, schema, kind), **others}}}


_UP = an_object({"state": {"type": "string", "enum": ["up", "ready", "waiting"]}})
_EVERYWHERE: Schema = {
    "/healthz": _plain("the service is up", "application/json", _UP),
    "/api/v1/openapi.json": _plain("this document", "application/json", ANY),
}
_POLICIES = _get("the policies and their parameters", an_object({"policies": a_map(ANY)}))
_NEWEST = {"type": "integer", "minimum": 1, "maximum": 600}
_RUN_PATHS: Schema = {
    **_EVERYWHERE,
    "/readyz": _plain(
        "the service has the figures of a running project",
        "application/json",
        _UP,
        **{"503": _answer("no figures yet, or the run has ended", _UP)},
    ),
    "/metrics": _plain("for Prometheus", "text/plain", **_errors((401, 403, 421))),
    "/api/v1/events": _plain(
        "the picture as server-sent events: one immediately, then one per change",
        "text/event-stream",
        **_errors((401, 403, 421, 429)),
    ),
    "/api/v1/status": _get(
        "whether the project runs, and its status, as `last` of `mooring status --json`",
        an_object({"version": VERSION, "running": {"type": "boolean"}, "last": {"type": ["object", "null"]}}),
    ),
    "/api/v1/picture": _get("all that the page draws", PICTURE),
    "/api/v1/history": _get(
        "rates, site shares, latencies and headroom over time",
        an_object({"version": VERSION, "points": a_list(MOMENT)}),
        _query("newest", _NEWEST, "number of points"),
    ),
    "/api/v1/headroom": _get(
        "the headroom of all rates and of each stream",
        an_object({"version": VERSION, "headroom": HEADROOM}),
        errors=(404,),
    ),
    "/api/v1/slice": _get(
        "the feasible rates of two streams, with the others at their measured rates",
        SLICE,
        _query("first", TEXT, "the stream along the first axis"),
        _query("second", TEXT, "the stream along the second axis"),
        errors=(404,),
    ),
    "/api/v1/problem": _get("the problem of the run", ANY, errors=(404,)),
    "/api/v1/placement": _get(
        "the site of each fragment", an_object({"version": VERSION, "placement": a_map(TEXT)}), errors=(404,)
    ),
    "/api/v1/proposal": _get(
        "the moves that the run proposes, with their fingerprint under `id`; null if none",
        an_object({"version": VERSION, "proposal": {"anyOf": [{"type": "null"}, MOVES]}}),
    ),
    "/api/v1/journal": _get(
        "the records of the journal, the newest last",
        an_object({"version": VERSION, "records": a_list(ANY)}),
        _query("newest", {"type": "integer", "minimum": 1, "maximum": 1000}, "number of records"),
    ),
    "/api/v1/policies": _POLICIES,
    "/api/v1/logs": _get(
        "the log files of the run on this machine; needs the token always",
        an_object({"version": VERSION, "logs": a_list(LOG)}),
    ),
    "/api/v1/logs/{log}": _get(
        "the last lines of a log; needs the token always",
        an_object({"version": VERSION, **LOG["properties"], "lines": a_list(TEXT)}),
        _inside("log"),
        _query("newest", {"type": "integer", "minimum": 1, "maximum": 2000}, "number of lines"),
        errors=(404,),
    ),
    "/api/v1/plan": _post(
        "a dry run of a policy at the measured rates, with the moves to its plan",
        PLANNING,
        MOVES,
        code=200,
    ),
    "/api/v1/moves": {
        **_get(
            "the requests made through the service, and the list under way",
            an_object({"version": VERSION, "requests": a_list(ASKED)}),
        ),
        **_post("carry out exactly the list with this fingerprint", closed({"id": TEXT}), ASKED),
    },
    "/api/v1/moves/preview": _post(
        "the moves that put fragments at the given sites, and what they do",
        closed({"sites": a_map(TEXT)}),
        MOVES,
        code=200,
    ),
    "/api/v1/stop": _post("end the run of the pipeline with this name", closed({"pipeline": TEXT}), ASKED),
    "/api/v1/proposal/dismiss": _post(
        "do not propose exactly these moves again for an hour", closed({"id": TEXT}), ASKED
    ),
    "/api/v1/moves/abort": _post("take back the list that is under way", closed({}), ASKED),
    "/api/v1/moves/{request}": _get("the state of a request", ASKED, _inside("request"), errors=(404,)),
    "/api/v1/sites/{site}/leave": _post(
        "empty a site and keep it empty", closed({}, force={"type": "boolean"}), ASKED, _inside("site")
    ),
    "/api/v1/sites/{site}/return": _post("use a site again", closed({}), ASKED, _inside("site")),
}
_DESK_PATHS: Schema = {
    **_EVERYWHERE,
    "/api/v1/problem": _get("the problem", ANY),
    "/api/v1/example": _get("the example problem, which requests with `example` use", ANY),
    "/api/v1/picture": _get("all that the page draws, as `rod` places it", PICTURE, errors=(409,)),
    "/api/v1/policies": _POLICIES,
    "/api/v1/desk/plan": _post(
        "place the problem by any policy, at given rates and pins",
        TRIAL,
        an_object({"version": VERSION, "placement": a_map(TEXT), "metrics": ANY, "picture": PICTURE}),
        code=200,
    ),
    "/api/v1/desk/document": _post(
        "the same plan as a document of `mooring plan --json`",
        TRIAL,
        an_object({"version": VERSION, "problem": TEXT, "placement": a_map(TEXT), "metrics": ANY}),
        code=200,
    ),
    "/api/v1/desk/slice": _post(
        "a slice of such a placement's feasible set",
        closed({"first": TEXT, "second": TEXT}, trial=TRIAL),
        SLICE,
        code=200,
    ),
    "/api/v1/desk/compare": _post(
        "the same by several policies",
        closed({"policies": a_list(TEXT)}, trial=TRIAL),
        an_object({"version": VERSION, "policies": a_map(ANY)}),
        code=200,
    ),
}


def openapi_document(kind: str) -> Schema:
    """`kind`: "run" or "desk"."""
    paths = _RUN_PATHS if kind == "run" else _DESK_PATHS
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mooring", "version": __version__},
        "paths": {path: _named(path, operations) for path, operations in paths.items()},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _named(path: str, operations: Schema) -> Schema:
    """With a name for each operation, by which generated clients call it.

    >>> _named("/api/v1/moves/{request}", {"get": {}})
    {'get': {'operationId': 'get_moves_request'}}
    """
    words = re.sub(r"\W+", "_", path.removeprefix("/api/v1")).strip("_")
    return {
        method: {"operationId": f"{method}_{words}", **operation} for method, operation in operations.items()
    }
