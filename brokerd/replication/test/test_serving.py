"""The leader's side of replica fetches: positions, waits, sessions, fencing."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.handlers.test.real_logs import batch
from brokerd.replication.serving import CATCH_UP_BYTES
from brokerd.replication.test.scenes import LEADER_EPOCH, TOPIC_ID, Scene, replica_fetch
from kafka_wire import errors
from kafka_wire.schema.fetch import ForgottenTopic


def test_record_is_committed_when_every_follower_asks_for_what_comes_after_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    told = scene.produce(batch(b"a"))
    scene.turn()
    assert not told
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=2)
    assert not told
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=3)
    assert told == [None]
    assert scene.leader.of().high_watermark == 1


def test_follower_reads_beyond_the_high_watermark(tmp_path: Path) -> None:
    """V3: to the end of what is written; and is told the true high watermark."""
    scene = Scene(tmp_path)
    scene.produce(batch(b"a"))
    scene.turn()
    (part,) = replica_fetch(scene.leader, (0, 0)).parts
    assert len(part.records) == len(batch(b"a"))
    assert part.high_watermark == 0


def test_fetch_at_the_end_waits_until_something_is_written(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = replica_fetch(scene.leader, (0, 0), session_epoch=0)
    assert asked.answer is None
    scene.produce(batch(b"a"))
    scene.turn()
    assert len(asked.parts[0].records)


def test_moved_high_watermark_alone_ends_no_wait_but_goes_along(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.produce(batch(b"a"))
    scene.turn()
    asked = replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, session_epoch=0)
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=3)
    scene.turn()
    assert scene.leader.of().high_watermark == 1
    assert asked.answer is None
    scene.turn(0.5)
    assert [part.high_watermark for part in asked.parts] == [1]


def test_session_answers_only_what_has_something_to_tell(tmp_path: Path) -> None:
    scene = Scene(tmp_path, partitions=3)
    opened = replica_fetch(scene.leader, (0, 0), (1, 0), (2, 0), session_epoch=0, max_wait_ms=0).answer
    session = {"session_id": opened.session_id}
    asked = replica_fetch(scene.leader, session_epoch=1, **session)
    scene.produce(batch(b"a"), 1)
    scene.turn()
    assert [part.partition_index for part in asked.parts] == [1]
    gone = [ForgottenTopic(TOPIC_ID, [1])]
    asked = replica_fetch(scene.leader, session_epoch=2, forgotten_topics_data=gone, **session)
    scene.produce(batch(b"b"), 1)
    scene.turn()
    assert asked.answer is None


def test_next_request_ends_the_wait_of_the_one_before(tmp_path: Path) -> None:
    """So that a follower with news need not wait; answers stay in order."""
    scene = Scene(tmp_path, partitions=2)
    opened = replica_fetch(scene.leader, (0, 0), session_epoch=0, max_wait_ms=0).answer
    first = replica_fetch(scene.leader, session_id=opened.session_id, session_epoch=1)
    assert first.answer is None
    second = replica_fetch(scene.leader, (1, 0), session_id=opened.session_id, session_epoch=2)
    assert first.parts == []
    assert second.answer is None


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"epoch": 11}, errors.STALE_BROKER_EPOCH),
        ({"epoch": 13}, errors.UNKNOWN_LEADER_EPOCH),
        ({"version": 14}, errors.INVALID_REQUEST),
        ({"session_id": 7, "session_epoch": 5}, errors.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_request_of_the_wrong_life_is_refused(tmp_path: Path, fields: dict[str, int], code: int) -> None:
    """A22."""
    scene = Scene(tmp_path)
    assert replica_fetch(scene.leader, (0, 0), **fields).answer.error_code == code


def test_replica_must_come_by_the_listener_between_brokers(tmp_path: Path) -> None:
    scene = Scene(tmp_path, listeners="A://:1,B://:2", inter_broker_listener_name="B",
                  listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT")  # fmt: skip
    assert replica_fetch(scene.leader, (0, 0)).answer.error_code == errors.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("leader_epoch", "code"), [(2, errors.FENCED_LEADER_EPOCH), (4, errors.UNKNOWN_LEADER_EPOCH)])
def test_epoch_of_the_follower_is_compared(tmp_path: Path, leader_epoch: int, code: int) -> None:
    """R27."""
    scene = Scene(tmp_path)
    (part,) = replica_fetch(scene.leader, (0, 0), leader_epoch=leader_epoch).parts
    assert part.error_code == code


def test_diverging_follower_is_told_where_and_counts_for_nothing(tmp_path: Path) -> None:
    """R25."""
    scene = Scene(tmp_path)
    scene.produce(batch(b"a", b"b"))
    scene.turn()
    (part,) = replica_fetch(scene.leader, (0, 5), last_epoch=LEADER_EPOCH).parts
    assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (LEADER_EPOCH, 2)
    leading = scene.leader.of().leading
    assert leading is not None
    assert leading.followers[2].end == -1


def test_offset_outside_the_log_says_where_the_log_is(tmp_path: Path) -> None:
    """R9."""
    scene = Scene(tmp_path)
    scene.produce(batch(b"a", b"b"))
    scene.turn()
    (part,) = replica_fetch(scene.leader, (0, 5)).parts
    assert (part.error_code, part.log_start_offset, part.last_stable_offset) == (errors.OFFSET_OUT_OF_RANGE, 0, 2)


def test_leader_that_resigns_tells_its_followers_at_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = replica_fetch(scene.leader, (0, 0), session_epoch=0)
    scene.leader.of().resign()
    scene.turn()
    assert [part.error_code for part in asked.parts] == [errors.NOT_LEADER_OR_FOLLOWER]


def test_replica_that_catches_up_leaves_room_for_live_traffic(tmp_path: Path) -> None:
    """Both partitions have a lot to tell; the one that broker 2 is in sync with comes first and whole."""
    scene = Scene(tmp_path, partitions=2)
    for partition in scene.leader.partitions.values():
        for _ in range(20):
            partition.append(batch(b"x" * 100_000), 0)
        scene.leader.mark_dirty(partition)
    scene.turn()
    lagging = scene.leader.of(0)
    lagging.settle_isr((1, 2, 3), (1, 3), 1)
    asked = replica_fetch(scene.leader, (0, 0), (1, 0), max_bytes=10 << 20)
    assert asked.parts[0].partition_index == 1
    assert len(asked.parts[0].records) > 900_000
    assert 0 < len(asked.parts[1].records) <= CATCH_UP_BYTES


def test_follower_that_has_caught_up_is_proposed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    partition = scene.leader.of()
    partition.settle_isr((1, 2, 3), (1, 3), 1)
    scene.leader.proposed.clear()
    replica_fetch(scene.leader, (0, 0))
    assert scene.leader.proposed == [partition]
    assert partition.wished_isr() == (1, 3, 2)


def test_consumer_is_sent_away_when_another_broker_may_lead(tmp_path: Path) -> None:
    """A16: a fetch that would return nothing, once neither the lease nor the followers vouch for the leader."""
    from brokerd.handlers.test.real_logs import poll

    scene = Scene(tmp_path)
    assert poll(scene.leader, 0).answer is None
    scene.leader.lease = False
    code = poll(scene.leader, 0).answer.responses[0].partitions[0].error_code
    assert code == errors.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(errors.NotLeaderOrFollower):
        scene.produce(batch(b"a"))


def test_leader_without_a_lease_serves_on_while_its_followers_fetch(tmp_path: Path) -> None:
    """A16 (b): ZooKeeper may be away. The second request of a session proves that the first was answered."""
    scene = Scene(tmp_path)
    scene.leader.lease = False
    sessions = {}
    for replica in (2, 3):
        opened = replica_fetch(scene.leader, (0, 0), replica=replica, session_epoch=0, max_wait_ms=0).answer
        sessions[replica] = opened.session_id
    with pytest.raises(errors.NotLeaderOrFollower):
        scene.produce(batch(b"a"))
    for replica, session_id in sessions.items():
        replica_fetch(scene.leader, replica=replica, session_id=session_id, session_epoch=1)
    scene.produce(batch(b"a"))
    scene.turn(1.1)
    with pytest.raises(errors.NotLeaderOrFollower):
        scene.produce(batch(b"b"))


def test_records_that_reach_all_without_a_lease_are_not_acknowledged_before_it_is_back(tmp_path: Path) -> None:
    """A15: compared at the moment of the acknowledgement."""
    scene = Scene(tmp_path)
    told = scene.produce(batch(b"a"))
    scene.turn()
    scene.leader.lease = False
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=2)
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=3)
    assert not told
    assert scene.leader.held
    scene.leader.lease = True
    scene.leader.of().advance()
    assert told == [None]


def test_too_few_in_sync_after_the_append_is_told(tmp_path: Path) -> None:
    """R37: the data stays, the producer learns that it is not safe."""
    scene = Scene(tmp_path, min_insync_replicas="2")
    told = scene.produce(batch(b"a"))
    scene.turn()
    scene.leader.of().settle_isr((1, 2, 3), (1,), 1)
    assert [type(one) for one in told] == [errors.NotEnoughReplicasAfterAppend]
    with pytest.raises(errors.NotEnoughReplicas):
        scene.leader.of().check_enough_replicas()
