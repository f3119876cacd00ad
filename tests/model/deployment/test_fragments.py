"""Fragments are cut where they must be and nowhere else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.model.deployment.fragments import CutNode, Fragment, cut


def test_a_chain_runs_together() -> None:
    nodes = [CutNode("a"), CutNode("b", ("a",)), CutNode("c", ("b",))]
    assert cut(nodes) == [Fragment("c", ("a", "b", "c"))]


def test_fan_out_pins_user_cuts_and_a_second_state_cut() -> None:
    assert len(cut([CutNode("a"), CutNode("b", ("a",)), CutNode("c", ("a",))])) == 3
    assert len(cut([CutNode("a", site="x"), CutNode("b", ("a",))])) == 2
    assert len(cut([CutNode("a", site="x"), CutNode("b", ("a",), site="x")])) == 1
    assert len(cut([CutNode("a", channel_after=True), CutNode("b", ("a",))])) == 2
    assert len(cut([CutNode("a", stateful=True), CutNode("b", ("a",), stateful=True)])) == 2
    assert len(cut([CutNode("a"), CutNode("b", ("a",), stateful=True), CutNode("c", ("b",))])) == 1


@st.composite
def graphs(draw: st.DrawFn) -> list[CutNode]:
    nodes: list[CutNode] = []
    for i in range(draw(st.integers(1, 12))):
        inputs = draw(st.sets(st.sampled_from(nodes), max_size=3)) if nodes else set()
        nodes.append(
            CutNode(
                f"o{i}",
                tuple(sorted(node.name for node in inputs)),
                draw(st.sampled_from([None, None, "x", "y"])),
                draw(st.booleans()),
                draw(st.booleans()),
            )
        )
    return nodes


@given(graphs())
def test_every_fragment_has_one_way_out_one_site_and_one_state(nodes: list[CutNode]) -> None:
    fragments = cut(nodes)
    by_name = {node.name: node for node in nodes}
    assert sorted(name for fragment in fragments for name in fragment.operators) == sorted(by_name)
    for fragment in fragments:
        inside = [by_name[name] for name in fragment.operators]
        assert len({node.site for node in inside}) == 1
        assert sum(node.stateful for node in inside) <= 1
        for node in inside[:-1]:
            assert not node.channel_after
            readers = [other.name for other in nodes if node.name in other.inputs]
            assert len(readers) == 1
            assert readers[0] in fragment.operators
        assert fragment.name == fragment.operators[-1]


def test_operators_of_different_settings_stay_apart() -> None:
    set_otherwise = frozenset({("spark.sql.ansi.enabled", "false")})
    nodes = [CutNode("a"), CutNode("b", ("a",)), CutNode("c", ("b",), settings=set_otherwise)]
    assert [fragment.operators for fragment in cut(nodes)] == [("a", "b"), ("c",)]
