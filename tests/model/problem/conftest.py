"""Strategies for whole problems as plain data, of every kind that a problem file can hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

Data = dict[str, Any]

# Names that a careless writer or reader would turn into something else.
TRICKY = [
    "no",
    "yes",
    "null",
    "true",
    "1e6",
    "007",
    "0x10",
    "~",
    "<<",
    "a: b",
    "- x",
    "é ü",
    '"q"',
    "{",
    "2024-01-01",
]
names = st.one_of(
    st.text("abcxyz_-", min_size=1, max_size=6),
    st.sampled_from(TRICKY),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
        lambda text: text.isprintable() and text == text.strip() and "#" not in text
    ),
)
figures = st.one_of(st.integers(0, 1000), st.floats(0, 1e12), st.sampled_from([0.1, 1e-7, 1e300]))
above_zero = st.floats(1e-6, 1e9)


def optional(draw: st.DrawFn, **fields: st.SearchStrategy[Any]) -> Data:
    return {name: draw(strategy) for name, strategy in fields.items() if draw(st.booleans())}


@st.composite
def stream(draw: st.DrawFn, sites: list[str]) -> Data:
    rate = draw(figures)
    return {"rate": rate} | optional(
        draw,
        site=st.sampled_from(sites),
        min_rate=st.just(rate / 2),
        max_rate=st.just(rate * 2),
        bytes=figures,
    )


@st.composite
def shares(draw: st.DrawFn) -> Data:
    count = draw(st.integers(2, 5))
    if draw(st.booleans()):
        return {"instances": count}
    weights = [draw(st.integers(1, 100)) for _ in range(count)]
    return {"instances": count, "shares": [weight / sum(weights) for weight in weights]}


@st.composite
def step(draw: st.DrawFn, sources: list[str], sites: list[str]) -> Data:
    inputs = draw(st.lists(st.sampled_from(sources), min_size=1, max_size=3, unique=True))
    data: Data = {"inputs": inputs, "cost_us": draw(figures)}
    if len(inputs) == 2 and draw(st.booleans()):
        data |= {"kind": "join", "window_s": draw(above_zero)}
    else:
        data |= optional(
            draw,
            kind=st.sampled_from(["map", "filter", "union", "split"]),
            per_input=st.fixed_dictionaries(
                {inputs[0]: st.fixed_dictionaries({}, optional={"cost_us": figures, "selectivity": figures})}
            ),
        )
    if draw(st.integers(0, 3)) == 0:
        data |= draw(shares())
    return data | optional(
        draw,
        selectivity=figures,
        variable=st.booleans(),
        site=st.sampled_from(sites),
        bytes=figures,
        memory_mb=figures.filter(lambda figure: figure < 1e100),
        state_bytes=figures.filter(lambda figure: figure < 1e100),
        movable=st.booleans(),
        fixed_cores=figures,
        reuse=st.one_of(st.just(False), names),
        error=figures,
    )


@st.composite
def network(draw: st.DrawFn, sites: list[str]) -> Data:
    data: Data = {}
    pairs = [(a, b) for i, a in enumerate(sites) for b in sites[i + 1 :]]
    if draw(st.booleans()):
        latency_ms: Data = {a: {} for a in sites}
        for a, b in pairs:
            latency_ms[a][b] = draw(figures)
            if draw(st.booleans()):
                latency_ms[b][a] = draw(figures)
        data["latency_ms"] = latency_ms
    section = optional(draw, channel_ms=figures, comm_us=figures, bandwidth=above_zero)
    if len(pairs) > 0 and draw(st.booleans()):
        a, b = draw(st.sampled_from(pairs))
        section["routes"] = {a: {b: draw(st.lists(st.sampled_from(sites), max_size=2))}}
        section["bandwidth"] = {b: {a: draw(figures)}}
    return data | ({"network": section} if section else {})


@st.composite
def problems(draw: st.DrawFn) -> Data:
    sites = draw(st.lists(names, min_size=1, max_size=4, unique=True))
    words = draw(st.lists(names, min_size=3, max_size=8, unique=True))
    streams, steps = words[:2], words[2:]
    operators: Data = {}
    sources = list(streams)
    for name in steps:
        if draw(st.integers(0, 5)) == 0:
            operators[name] = {"load": {draw(st.sampled_from(streams)): draw(figures)}}
        else:
            operators[name] = draw(step(sources, sites))
            operators[name] |= optional(draw, fragment=st.just(f"fragment of {name}"))
            sources.append(name)
    data: Data = {
        "sites": {
            site: {"capacity": draw(above_zero), **optional(draw, memory_mb=above_zero)} for site in sites
        },
        **draw(network(sites)),
        "streams": {name: draw(stream(sites)) for name in streams},
        "operators": operators,
    }
    readable = [name for name in sources if name not in streams]
    if len(readable) > 0 and draw(st.booleans()):
        data["queries"] = {
            draw(names): {
                "reads": draw(st.sampled_from(readable)),
                "site": draw(st.sampled_from(sites)),
                **optional(draw, max_latency_ms=above_zero),
            }
        }
    return data


@pytest.fixture(scope="session")
def problem_data() -> st.SearchStrategy[Data]:
    """Valid problems as plain data; draw from it with `st.data()`."""
    return problems()
