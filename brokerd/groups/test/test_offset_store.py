"""Committed offsets in ZooKeeper."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred

from brokerd.cluster.asynchronous import spawn
from brokerd.groups.offset_nodes import Committed
from brokerd.groups.offset_store import Stored
from brokerd.groups.test.hosts import Host, code_of, now
from brokerd.handlers.test.fakes import topic_id
from kafka_wire import errors
from zk_schema.group_nodes import OffsetMeta
from zk_schema.operations import Create, Set

ID = topic_id(5)


def _commit(host: Host, group: str, *entries: Committed) -> Deferred[None]:
    coordinator = host.groups.coordinator
    return coordinator.offsets.commit(coordinator.slots.slot_for(group), group, entries)


def _at(index: int, offset: int, epoch: int = -1, text: str = "", number: int = 5) -> Committed:
    return Committed("logs", topic_id(number), index, offset, OffsetMeta(epoch, text))


def _fetch(host: Host, group: str = "g", identity: bytes | None = ID, wanted: Any = None) -> dict[int, Stored]:
    return dict(now(spawn(host.groups.coordinator.offsets.fetch(group, "logs", identity, wanted))))


def _offsets(host: Host, group: str = "g") -> dict[int, int]:
    return {index: one.offset for index, one in _fetch(host, group).items()}


def test_K6_offset_is_decimal_text_where_0_8_had_it() -> None:
    """Burrow and its kin read it there."""
    host = Host()
    now(_commit(host, "g", _at(0, 42), _at(1, 7)))

    assert host.zookeeper.data("/consumers/g/offsets/logs/0") == b"42"
    assert host.zookeeper.below("/consumers/g") == ["offsets", "offsets/logs", "offsets/logs/0", "offsets/logs/1"]


def test_epoch_and_metadata_are_kept_beside_it() -> None:
    """Only where there are any; what is no longer said goes."""
    host = Host()
    now(_commit(host, "g", _at(0, 1, 4, "note"), _at(1, 2)))
    assert _fetch(host)[0].meta == OffsetMeta(4, "note")
    assert host.zookeeper.below("/consumers/g/offset_meta") == ["logs", "logs/0"]

    now(_commit(host, "g", _at(0, 3), _at(1, 4, 5)))

    assert _fetch(host)[0].meta == OffsetMeta()
    assert host.zookeeper.below("/consumers/g/offset_meta") == ["logs", "logs/1"]


def test_unchanged_offsets_are_not_written_but_still_fenced() -> None:
    """Clients commit all partitions every few seconds, most of them unchanged."""
    host = Host()
    now(_commit(host, "g", _at(0, 1, 2), _at(1, 1, 2)))
    now(_commit(host, "g", _at(0, 1, 2), _at(1, 9, 2)))
    assert [type(one).__name__ for one in host.zookeeper.multis[-1]] == ["Check", "Set"]

    now(_commit(host, "g", _at(0, 1, 2)))

    assert [type(one).__name__ for one in host.zookeeper.multis[-1]] == ["Check"]


def test_K6_one_multi_is_in_flight_and_the_rest_goes_with_the_next() -> None:
    """So a thousand commits at once are two round trips."""
    host = Host(slots=1)
    now(_commit(host, "g", _at(0, 0)))
    before = len(host.zookeeper.multis)
    host.zookeeper.holding = True
    waiting = [_commit(host, "g", _at(0, offset)) for offset in range(1, 1001)]
    for _ in range(3):
        host.zookeeper.release()

    assert all(one.called for one in waiting)
    assert len(host.zookeeper.multis) == before + 2
    host.zookeeper.holding = False
    assert _offsets(host) == {0: 1000}


def test_commits_of_several_groups_go_together_with_the_fences_of_their_slots() -> None:
    """One write per round trip and broker."""
    host = Host(slots=50)
    groups = [f"group-{number}" for number in range(20)]
    for group in groups:
        now(_commit(host, group, _at(0, 0)))
    before = len(host.zookeeper.multis)
    host.zookeeper.holding = True
    waiting = [_commit(host, group, _at(0, 5)) for group in groups]
    for _ in range(3):
        host.zookeeper.release()
    host.zookeeper.holding = False

    assert all(one.called for one in waiting)
    assert len(host.zookeeper.multis) == before + 2
    assert all(_offsets(host, group) == {0: 5} for group in groups)


def test_one_odd_group_does_not_fail_the_others() -> None:
    """A tool removed a node under us: that group is read again, the others are not disturbed."""
    host = Host(slots=1)
    for group in ("a", "b", "c"):
        now(_commit(host, group, _at(0, 0)))
    host.zookeeper.drop("/consumers/b/offsets/logs")
    host.zookeeper.holding = True
    first = _commit(host, "a", _at(1, 1))
    waiting = [first, *(_commit(host, group, _at(0, 5)) for group in ("a", "b", "c"))]
    for _ in range(20):
        host.zookeeper.release()
    host.zookeeper.holding = False

    assert all(one.called for one in waiting)
    assert [_offsets(host, group)[0] for group in ("a", "b", "c")] == [5, 5, 5]


@pytest.mark.parametrize("lose", ["before", "after"])
def test_K6_zookeeper_that_does_not_answer_is_never_success(lose: str) -> None:
    """15; the client sends it again, and then it counts."""
    host = Host()
    now(_commit(host, "g", _at(0, 0)))
    host.zookeeper.lose = lose

    assert code_of(_commit(host, "g", _at(0, 5), _at(1, 6))) == errors.COORDINATOR_NOT_AVAILABLE

    now(_commit(host, "g", _at(0, 5), _at(1, 6)))
    assert _offsets(host) == {0: 5, 1: 6}


def test_K6_without_a_connection_a_commit_fails_at_once() -> None:
    """It does not wait for the connection to come back."""
    host = Host()
    host.zookeeper.connected = False

    assert code_of(_commit(host, "g", _at(0, 5))) == errors.COORDINATOR_NOT_AVAILABLE


def test_K2_commit_of_a_deposed_coordinator_is_refused() -> None:
    """16, and nothing is written; commits of other slots go on."""
    host = Host(slots=50)
    now(_commit(host, "g", _at(0, 0)))
    now(_commit(host, "other", _at(0, 0)))
    lost = host.groups.coordinator.slots.slot_for("g")
    host.zookeeper.put(lost.fence.path, b'{"version":1,"leader":2,"leader_epoch":4,"isr":[2],"controller_epoch":1}')
    host.zookeeper.holding = True
    coordinator = host.groups.coordinator
    first = _commit(host, "other", _at(0, 1))
    refused = coordinator.offsets.commit(lost, "g", [_at(0, 5)])
    good = _commit(host, "other", _at(0, 2))
    for _ in range(20):
        host.zookeeper.release()
    host.zookeeper.holding = False

    assert code_of(refused) == errors.NOT_COORDINATOR
    assert first.called
    now(good)
    assert _offsets(host, "other") == {0: 2}
    assert _offsets(host) == {0: 0}


def test_B10_offsets_of_a_former_topic_of_the_same_name_are_none() -> None:
    """The topic was deleted and made anew: another id."""
    host = Host()
    now(_commit(host, "g", _at(0, 100, 3, "x"), _at(1, 200)))

    assert _fetch(host, identity=topic_id(6)) == {}
    assert _fetch(host, identity=None) == {}

    now(_commit(host, "g", _at(1, 1, number=6)))
    assert {index: one.offset for index, one in _fetch(host, identity=topic_id(6)).items()} == {1: 1}
    assert host.zookeeper.below("/consumers/g/offset_meta/logs") == []


def test_offsets_that_an_old_tool_wrote_are_read_and_gone_on_with() -> None:
    """No id, and nodes that we did not make."""
    host = Host()
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"12")
    host.zookeeper.put("/consumers/g/offsets/logs/1", b"")
    assert _offsets(host) == {0: 12}

    now(_commit(host, "g", _at(0, 13)))

    assert _offsets(host) == {0: 13}


def test_unreadable_offset_counts_as_none() -> None:
    """And is logged; the others are told."""
    host = Host()
    host.zookeeper.put("/consumers/g/offsets/logs/0", b"twelve")
    host.zookeeper.put("/consumers/g/offsets/logs/1", b"1")
    host.zookeeper.put("/consumers/g/offset_meta/logs/1", b"]")

    assert _offsets(host) == {1: 1}


def test_commit_of_thousands_of_partitions_is_cut_into_multis() -> None:
    """A1."""
    host = Host()
    now(_commit(host, "g", *(_at(index, index, 1, "note") for index in range(3000))))

    assert len(_offsets(host)) == 3000
    assert all(len(multi) <= 2000 for multi in host.zookeeper.multis)


def test_removed_offsets_are_gone() -> None:
    """With what was beside them, and with the topic's node after the last."""
    host = Host()
    now(_commit(host, "g", _at(0, 1, 2), _at(1, 1)))
    coordinator = host.groups.coordinator
    slot = coordinator.slots.slot_for("g")
    now(spawn(coordinator.offsets.remove(slot, "g", {"logs": [0, 9], "nothing": [1]})))
    assert _offsets(host) == {1: 1}

    now(spawn(coordinator.offsets.remove(slot, "g", {"logs": [1]})))
    assert host.zookeeper.below("/consumers/g/offsets") == []
    now(_commit(host, "g", _at(0, 4)))
    assert _offsets(host) == {0: 4}


def test_operations_of_a_first_commit_make_the_parents_in_order() -> None:
    """A multi knows no makepath."""
    host = Host()
    now(_commit(host, "g", _at(0, 1, 2)))

    made = [one.path for one in host.zookeeper.multis[-1] if isinstance(one, Create | Set)]
    assert made == [
        "/consumers/g",
        "/consumers/g/offsets",
        "/consumers/g/offsets/logs",
        "/consumers/g/offsets/logs/0",
        "/consumers/g/offset_meta",
        "/consumers/g/offset_meta/logs",
        "/consumers/g/offset_meta/logs/0",
    ]
