"""Promises of the nodes that members of our own groups write."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_schema.consumer_nodes import Plan, PlanMember, PlanTopic, Registration
from zk_schema.group_nodes import PROTOCOL, REGISTRY, GroupKind
from zk_schema.nodes import BadNode

names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan whose members name subscriptions that are there."""
    subscriptions = draw(st.lists(st.lists(names, max_size=3).map(tuple), min_size=1, max_size=3))
    index = st.integers(0, len(subscriptions) - 1)
    members = draw(st.lists(st.builds(PlanMember, names, index, st.integers(1, 4)), max_size=4))
    topics = st.dictionaries(names, st.builds(PlanTopic, st.binary(min_size=16, max_size=16), st.integers(0, 99)))
    return Plan(
        "g",
        draw(st.integers(0, 10**9)),
        tuple(members),
        tuple(subscriptions),
        draw(topics),
        draw(st.sampled_from(["range", "sticky"])),
        draw(st.dictionaries(names, st.lists(st.integers(-1, 9)).map(tuple))),
    )


@given(plans())
def test_plan_encoded_and_decoded_is_the_same(plan: Plan) -> None:
    """Every member reads what the scribe wrote."""
    assert Plan.decode("g", plan.encode()) == plan


@given(plans())
def test_plan_of_ours_says_so_to_the_other_kind(plan: Plan) -> None:
    """A coordinator that reads the plan sees whose group it is (B5)."""
    assert GroupKind.decode("g", plan.encode()).kind == REGISTRY


def test_plan_of_the_other_kind_has_no_members() -> None:
    """An empty protocol group may become ours."""
    assert Plan.decode("g", GroupKind("g", PROTOCOL).encode()) == Plan("g", 0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":2}',
        b'{"version":1,"members":[["C",0]]}',
        b'{"version":1,"members":[[]]}',
        b'{"version":1,"topics":{"t":["short",1]}}',
    ],
)
def test_plan_unreadable_names_its_path(data: bytes) -> None:
    """Nobody guesses at a plan."""
    with pytest.raises(BadNode, match="/consumers/g/plan"):
        Plan.decode("g", data)


@given(st.lists(names, unique=True).map(lambda topics: tuple(sorted(topics))), st.integers(1, 5))
def test_registration_static_encoded_and_decoded_is_the_same(topics: tuple[str, ...], streams: int) -> None:
    """What a member registers the scribe reads."""
    node = Registration(topics, None, "sticky", streams if topics else 1, 17, "me", "here")
    assert Registration.decode("/p", node.encode()) == node


def test_registration_is_what_tools_of_the_zookeeper_age_read() -> None:
    """Version 1 of Kafka 0.8, its timestamp as text."""
    fields = json.loads(Registration(("a", "b"), None, "range", 2, 5).encode())
    assert {name: fields[name] for name in ("version", "subscription", "pattern", "timestamp")} == {
        "version": 1,
        "subscription": {"a": 2, "b": 2},
        "pattern": "static",
        "timestamp": "5",
    }


def test_registration_with_pattern_keeps_it() -> None:
    """A pattern is resolved by the scribe, so it is registered as it is."""
    node = Registration((), "logs-.*", "range", 1, 5)
    assert Registration.decode("/p", node.encode()) == node


def test_registration_of_a_consumer_of_that_age_means_range() -> None:
    """A member that names no strategy has the paper's."""
    data = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'
    assert Registration.decode("/p", data) == Registration(("t",), None, "range", 1, 1)


@pytest.mark.parametrize(
    "data", [b"?", b'{"version":1}', b'{"version":1,"subscription":{"a":1},"pattern":"black_list"}']
)
def test_registration_unreadable_names_its_path(data: bytes) -> None:
    """A member that cannot be understood is left out by name."""
    with pytest.raises(BadNode, match="/consumers/g/ids/C"):
        Registration.decode("/consumers/g/ids/C", data)
