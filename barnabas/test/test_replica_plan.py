"""Plans: only the wanted brokers, evenly, with as few copies as possible."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.errors import UserError
from barnabas.replica_plan import Place, copies, evacuate, plan

NO_RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4))


def test_even_partitions_stay_where_they_are() -> None:
    """Nothing to do is an empty plan."""
    there = {("logs", 0): (1, 2), ("logs", 1): (2, 3), ("logs", 2): (3, 1)}

    assert plan(there, dict.fromkeys((1, 2, 3))) == {}


def test_broker_that_goes_is_replaced_and_nothing_else_moves() -> None:
    """As many copies as it had replicas."""
    there = {("logs", 0): (1, 2), ("logs", 1): (2, 3), ("logs", 2): (3, 1)}

    found = plan(there, dict.fromkeys((1, 2, 4)))

    assert copies(there, found) == 2
    assert all(3 not in replicas for replicas in found.values())


def test_new_broker_gets_its_share() -> None:
    """A quarter of the replicas, and a quarter of the leaderships."""
    there = {("logs", index): (1 + index % 3, 1 + (index + 1) % 3) for index in range(12)}

    found = plan(there, NO_RACKS)

    assert copies(there, found) == 6
    now = {**there, **found}
    assert Counter(one for replicas in now.values() for one in replicas) == dict.fromkeys(NO_RACKS, 6)
    assert Counter(replicas[0] for replicas in now.values()) == dict.fromkeys(NO_RACKS, 3)


def test_replicas_stay_in_different_racks() -> None:
    """The broker that goes is replaced by one of a rack that the partition is not in yet."""
    there = {("logs", 0): (1, 3)}

    assert plan(there, {1: "a", 2: "a", 4: "b"}) == {("logs", 0): (1, 4)}


def test_replication_factor_can_be_changed() -> None:
    """More: copies; fewer: the last ones go."""
    there = {("logs", 0): (1, 2)}

    assert plan(there, NO_RACKS, 3)[("logs", 0)][:2] == (1, 2)
    assert plan(there, NO_RACKS, 1) == {("logs", 0): (1,)}


def test_too_few_brokers_are_refused() -> None:
    """In a sentence for a person."""
    with pytest.raises(UserError, match="3 replicas need as many brokers, and only 2"):
        plan({("logs", 0): (1, 2, 3)}, {1: None, 2: None})


def test_evacuated_broker_has_nothing_left_and_nothing_else_moves() -> None:
    """The one with the fewest replicas takes over; who has the records becomes the preferred leader."""
    there = {("logs", 0): (1, 2), ("logs", 1): (2, 3), ("logs", 2): (2, 3)}

    assert evacuate(there, dict.fromkeys((2, 3, 4))) == {("logs", 0): (2, 4)}
    with pytest.raises(UserError, match="2 replicas need as many brokers"):
        evacuate(there, {2: None})


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_plan_is_even_and_complete(data: st.DataObject) -> None:
    """Only brokers that may, no broker twice, as many replicas as before; without racks nobody has two more than
    another, leaders included where one is wanted by several.
    """
    brokers = data.draw(st.sets(st.integers(1, 8), min_size=3, max_size=8))
    replicas = st.lists(st.integers(1, 10), min_size=1, max_size=3, unique=True)
    there: dict[Place, tuple[int, ...]] = {
        ("logs", index): tuple(data.draw(replicas)) for index in range(data.draw(st.integers(0, 12)))
    }

    found = plan(there, dict.fromkeys(brokers))

    now = {**there, **found}
    load = Counter(dict.fromkeys(brokers, 0))
    for place, new in now.items():
        assert len(set(new)) == len(new) == len(there[place])
        assert set(new) <= brokers
        load.update(new)
    assert max(load.values()) - min(load.values()) <= 1
    assert plan(now, dict.fromkeys(brokers)) == {}
