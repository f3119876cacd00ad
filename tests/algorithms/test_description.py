"""A policy's description, read from its source, is that of the class itself."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from mooring.algorithms.catalogue import POLICIES, policy_class
from mooring.algorithms.description import describe_policy


@pytest.mark.parametrize("name", POLICIES)
def test_every_parameter_is_there_as_the_class_has_it_and_says_what_it_does(name: str) -> None:
    kind = policy_class(name)
    described = describe_policy(name)
    fields = [(field.name, field.type, field.default) for field in dataclasses.fields(kind)]
    assert [(each.name, each.type, each.default) for each in described.parameters] == fields
    assert all(each.meaning for each in described.parameters)


@pytest.mark.parametrize("name", POLICIES)
def test_the_summary_is_the_first_paragraph_of_the_module(name: str) -> None:
    documentation = inspect.getdoc(inspect.getmodule(policy_class(name)))
    assert documentation is not None
    assert describe_policy(name).summary.split() == documentation.split("\n\n")[0].split()
