"""Every znode: what is written is read back, and what cannot be read is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_schema.nodes import (
    BadNode,
    BrokerRegistration,
    Endpoint,
    Incarnation,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
    next_block,
    uuid_bytes,
    uuid_text,
)

ids = st.integers(0, 2**31 - 1)
replicas = st.lists(ids, max_size=5).map(tuple)
assignments = st.dictionaries(st.integers(0, 5000), replicas, max_size=5)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_written_as_text_is_read_back(uuid: bytes) -> None:
    """Kafka's text of a uuid has 22 characters and loses nothing."""
    assert len(uuid_text(uuid)) == 22
    assert uuid_bytes(uuid_text(uuid)) == uuid


@given(st.binary(min_size=16, max_size=16), assignments, assignments, assignments)
def test_topic_written_is_read_back(
    topic_id: bytes,
    partitions: dict[int, tuple[int, ...]],
    adding: dict[int, tuple[int, ...]],
    removing: dict[int, tuple[int, ...]],
) -> None:
    """An assignment survives its JSON."""
    topic = TopicAssignment("logs", topic_id, partitions, adding, removing)

    assert TopicAssignment.decode("logs", topic.encode()) == topic


@given(st.integers(-2, 2**31 - 1), ids, replicas, ids, st.booleans())
def test_partition_state_written_is_read_back(
    leader: int, epoch: int, isr: tuple[int, ...], controller: int, recovering: bool
) -> None:
    """A state survives its JSON."""
    state = PartitionState(leader, epoch, isr, controller, recovering)

    assert PartitionState.decode("logs", 0, state.encode()) == state


def test_broker_registration_has_kafkas_fields() -> None:
    """Tools of Kafka's ZooKeeper age find what they look for, numbers as text where Kafka has them so."""
    broker = BrokerRegistration(7, (Endpoint("PLAINTEXT", "PLAINTEXT", "localhost", 9092),), 1700000000000, 3, "r1")

    fields = json.loads(broker.encode())

    assert fields["version"] == 5
    assert (fields["host"], fields["port"], fields["rack"]) == ("localhost", 9092, "r1")
    assert fields["endpoints"] == ["PLAINTEXT://localhost:9092"]
    assert fields["timestamp"] == "1700000000000"
    assert BrokerRegistration.decode(7, broker.encode()) == broker


def test_incarnation_written_is_read_back() -> None:
    """Draining and suspect partitions survive their JSON."""
    life = Incarnation(7, True, (("logs", 0), ("logs", 3)))

    assert Incarnation.decode(7, life.encode()) == life


def test_producer_id_blocks_follow_each_other_without_overlap() -> None:
    """No two brokers ever give out the same producer id."""
    first = next_block(None, 1)
    second = next_block(ProducerIdBlock.decode(first.encode()), 2)

    assert (first.start, first.end) == (0, 999)
    assert (second.start, second.end) == (1000, 1999)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"version":99}', b'{"version":"x"}', b"\xff"])
def test_unreadable_node_is_refused_by_its_path(data: bytes) -> None:
    """A damaged node says which one it is, so that only what hangs on it stands still."""
    with pytest.raises(BadNode, match="/brokers/topics/logs"):
        TopicAssignment.decode("logs", data)
