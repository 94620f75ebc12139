"""Positions of a reader without group: what is asked of whom, and what answers do to them."""

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.tailing import Tail, read_messages
from kafka_wire import batches, errors
from kafka_wire.errors import CorruptMessage, NotLeaderOrFollower
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import BrokerAddress, MetadataView, PartitionView, TopicView
from kafka_wire.records import Record, encode_batch
from kafka_wire.schema.fetch import FetchableTopicResponse, FetchResponse, PartitionData

ID = b"i" * 16
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def view(leaders: Mapping[int, int]) -> MetadataView:
    partitions = {number: PartitionView(leader, 4, (1,), (1,), (), 0) for number, leader in leaders.items()}
    brokers = {number: BrokerAddress(number, "h", number, None) for number in (1, 2)}
    return MetadataView(brokers, {"t": TopicView("t", ID, False, 0, partitions)})


def answer(**fields: Any) -> FetchResponse:
    return FetchResponse(responses=(FetchableTopicResponse(ID, (PartitionData(**fields),)),))


def records(base: int, count: int, **options: Any) -> bytes:
    return encode_batch([Record(0, 5, None, b"%d" % (base + i)) for i in range(count)], base_offset=base, **options)


def test_each_leader_is_asked_for_its_partitions() -> None:
    """One Fetch for each leader, with epochs and positions; partitions without a leader are named."""
    plan = Tail({T0: 10, T1: 20, T2: 0}).plan(view({0: 1, 1: 2, 2: -1}), {}, 500)
    assert plan.homeless == {T2}
    [topic] = plan.fetches[2].topics
    assert (topic.topic, topic.topic_id) == ("t", ID)
    assert [(each.partition, each.fetch_offset, each.current_leader_epoch) for each in topic.partitions] == [(1, 20, 4)]
    assert set(plan.fetches) == {1, 2}


def test_partition_under_way_is_not_asked_for_again() -> None:
    """A busy leader gets no second Fetch, and a partition that has moved waits for its old answer."""
    plan = Tail({T0: 0, T1: 0}).plan(view({0: 2, 1: 1}), {1: [T0, T1]}, 500)
    assert (plan.fetches, plan.homeless) == ({}, set())
    assert set(Tail({T0: 0, T1: 0}).plan(view({0: 2, 1: 1}), {1: [T1]}, 500).fetches) == {2}


def test_leader_that_no_metadata_names_is_no_home() -> None:
    """A leader without an address cannot be asked."""
    assert Tail({T0: 0}).plan(view({0: 9}), {}, 500).homeless == {T0}


def test_answer_moves_the_position_behind_its_messages() -> None:
    """Messages before the position are left out; the end is known from the high watermark."""
    tail = Tail({T0: 3})
    [taken] = tail.take(view({0: 1}), 1, answer(high_watermark=9, records=memoryview(records(1, 5))))
    assert [message.record.offset for message in taken.messages] == [3, 4, 5]
    assert (tail.positions[T0], taken.is_at_end, taken.problem) == (6, False, None)
    [taken] = tail.take(view({0: 1}), 1, answer(high_watermark=9, records=memoryview(records(6, 3))))
    assert (tail.positions[T0], taken.is_at_end) == (9, True)


def test_error_of_a_partition_leaves_its_position() -> None:
    """The caller learns the kind; nothing moves."""
    tail = Tail({T0: 3})
    [taken] = tail.take(view({0: 1}), 1, answer(error_code=errors.NOT_LEADER_OR_FOLLOWER))
    assert isinstance(taken.problem, NotLeaderOrFollower)
    assert tail.positions == {T0: 3}


def test_position_out_of_range_moves_to_what_there_is() -> None:
    """To the first message if ours were deleted, to the end if the log is shorter than we thought."""
    tail = Tail({T0: 3, T1: 50})
    assert "messages 3 to 9 are deleted" in tail.move(T0, 10, 20)
    assert "ends at 20" in tail.move(T1, 10, 20)
    assert tail.positions == {T0: 10, T1: 20}


def test_control_batch_counts_as_read() -> None:
    """Markers of transactions are not shown, and not asked for again."""
    marker = bytearray(records(4, 1))
    marker[22] |= batches.CONTROL
    assert read_messages(T0, 1, bytes(marker), 4) == ([], 5)


def test_damage_behind_messages_is_met_after_them() -> None:
    """What is sound is given out; the damage then names the partition and the offset."""
    broken = bytearray(records(2, 2))
    broken[-1] ^= 1
    messages, position = read_messages(T0, 1, records(0, 2) + bytes(broken), 0)
    assert (len(messages), position) == (2, 2)
    with pytest.raises(CorruptMessage, match="t-0 cannot be read at offset 2"):
        read_messages(T0, 1, bytes(broken), 2)
