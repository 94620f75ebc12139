"""The follower's loop against a real leader's handler: what it copies, when it asks, what it does with trouble."""

from __future__ import annotations

from pathlib import Path

from brokerd.handlers.test.real_logs import batch
from brokerd.replication.test.scenes import LEADER_EPOCH, Following, replica_fetch
from kafka_wire.batches import walk


def epochs(scene: Following, index: int = 0) -> list[tuple[int, int, int]]:
    """(base offset, epoch, CRC) of the follower's batches."""
    partition = scene.follower.of(index)
    data = partition.log.read(0, 1 << 20, partition.log.log_end, min_one=True).read()
    return [(header.base_offset, header.leader_epoch, header.crc) for _, header in walk(data, 0, len(data))]


def test_records_are_copied_as_they_are_and_committed(tmp_path: Path) -> None:
    scene = Following(tmp_path)
    told = scene.produce(batch(b"a", b"b"))
    scene.run()
    replica_fetch(scene.leader, (0, 2), last_epoch=LEADER_EPOCH, replica=3)
    scene.run()
    assert told == [None]
    assert scene.follower.of().log.log_end == 2
    assert epochs(scene) == [(0, LEADER_EPOCH, next(walk(batch(b"a", b"b"), 0, 1000))[1].crc)]
    assert scene.copied == len(batch(b"a", b"b"))


def test_high_watermark_arrives_with_the_next_answer(tmp_path: Path) -> None:
    scene = Following(tmp_path)
    scene.produce(batch(b"a"))
    scene.run()
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=3)
    assert scene.follower.of().high_watermark == 0
    scene.run(0.5)
    assert scene.follower.of().high_watermark == 1


def test_V4_follower_of_a_flushed_topic_asks_only_when_its_disk_has_it(tmp_path: Path) -> None:
    scene = Following(tmp_path, durability="flushed")
    told = scene.produce(batch(b"a"))
    scene.run()
    scene.leader.flush()
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=3)
    asked = len(scene.wire.sent)
    scene.run()
    assert scene.follower.of().log.log_end == 1
    assert len(scene.wire.sent) == asked
    assert not told
    scene.follower.flush()
    scene.run()
    assert told == [None]


def test_thousand_new_partitions_are_one_request(tmp_path: Path) -> None:
    scene = Following(tmp_path, partitions=40)
    assert len(scene.wire.sent) == 2, "one that names all, one that waits"
    assert len(scene.wire.sent[0].topics[0].partitions) == 40
    assert not scene.wire.sent[1].topics


def test_only_what_changes_is_named(tmp_path: Path) -> None:
    scene = Following(tmp_path, partitions=3)
    scene.produce(batch(b"a"), 1)
    scene.run()
    named = [part.partition for topic in scene.wire.sent[-1].topics for part in topic.partitions]
    assert named == [1]


def test_partition_that_is_new_does_not_wait_for_the_end_of_a_poll(tmp_path: Path) -> None:
    scene = Following(tmp_path, partitions=2)
    partition = scene.follower.of(1)
    scene.fetcher.remove(partition)
    scene.run()
    scene.produce(batch(b"a"), 1)
    scene.run()
    assert partition.log.log_end == 0
    scene.fetcher.add(partition)
    scene.run()
    assert partition.log.log_end == 1


def test_diverging_tail_is_cut_and_the_leaders_copied(tmp_path: Path) -> None:
    """R25: broker 2 had led at epoch 2 and written what nobody else has."""
    scene = Following(tmp_path)
    partition = scene.follower.of()
    scene.fetcher.remove(partition)
    partition.log.start_epoch(2)
    partition.log.append_as_leader(batch(b"lost"), 2, 0)
    partition.log.write()
    scene.produce(batch(b"a"))
    scene.run()
    scene.fetcher.add(partition)
    scene.run()
    assert [(offset, epoch) for offset, epoch, _ in epochs(scene)] == [(0, LEADER_EPOCH)]


def test_follower_below_the_leaders_log_begins_anew(tmp_path: Path) -> None:
    """R9: retention has taken what it would have needed."""
    scene = Following(tmp_path)
    leader = scene.leader.of()
    scene.fetcher.remove(scene.follower.of())
    for value in range(5):
        leader.append(batch(b"%d" % value), 0)
    leader.write()
    leader.log.advance_log_start(3)
    scene.fetcher.add(scene.follower.of())
    scene.run()
    assert (scene.follower.of().log.log_start, scene.follower.of().log.log_end) == (3, 5)


def test_leaders_log_start_is_followed(tmp_path: Path) -> None:
    """R10, as far as it is committed."""
    scene = Following(tmp_path)
    scene.produce(batch(b"a"))
    scene.run()
    replica_fetch(scene.leader, (0, 1), last_epoch=LEADER_EPOCH, replica=3)
    scene.leader.of().log.advance_log_start(1)
    scene.run(0.5)
    assert scene.follower.of().log.log_start == 1


def test_one_bad_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    """It rests and is tried again; the leader knows meanwhile that it is not fetched."""
    scene = Following(tmp_path, partitions=2)
    scene.leader.of(0).resign()
    scene.run()
    scene.produce(batch(b"a"), 1)
    scene.run()
    assert scene.follower.of(1).log.log_end == 1
    scene.leader.of(0).lead(LEADER_EPOCH + 1, (1, 2, 3), (1, 2, 3), 0)
    scene.follower.of(0).follow(LEADER_EPOCH + 1, (1, 2, 3), (1, 2, 3))
    scene.fetcher.add(scene.follower.of(0))
    scene.produce(batch(b"b"), 0)
    scene.run()
    assert scene.follower.of(0).log.log_end == 1


def test_leader_that_does_not_know_its_role_yet_is_asked_again_soon(tmp_path: Path) -> None:
    scene = Following(tmp_path)
    scene.leader.of().resign()
    scene.follower.of().follow(LEADER_EPOCH + 1, (1, 2, 3), (1, 2, 3))
    scene.fetcher.add(scene.follower.of())
    scene.run()
    scene.leader.of().lead(LEADER_EPOCH + 1, (1, 2, 3), (1, 2, 3), 0)
    scene.produce(batch(b"a"))
    scene.run(0.1)
    assert scene.follower.of().log.log_end == 1


def test_lost_connection_begins_a_new_session(tmp_path: Path) -> None:
    scene = Following(tmp_path)
    scene.wire.broken = True
    scene.wire.lose()
    scene.run(5.0)
    assert scene.follower.of().log.log_end == 0
    scene.wire.broken = False
    scene.produce(batch(b"a"))
    scene.run(2.0)
    assert scene.follower.of().log.log_end == 1
    opening = next(body for body in reversed(scene.wire.sent) if body.session_epoch == 0)
    assert opening.session_id, "the old session is named, so that the leader can forget it"


def test_session_that_the_leader_forgot_begins_anew_at_once(tmp_path: Path) -> None:
    scene = Following(tmp_path)
    scene.leader.replica_fetches.drop_all()
    scene.wire._waiting.clear()
    scene.fetcher._sent = 0
    scene.fetcher.add(scene.follower.of())
    scene.produce(batch(b"a"))
    scene.run()
    assert scene.follower.of().log.log_end == 1


def test_answer_of_a_former_role_changes_nothing(tmp_path: Path) -> None:
    """The partition was elected while the answer was on its way."""
    scene = Following(tmp_path)
    scene.produce(batch(b"a"))
    scene.turn()
    partition = scene.follower.of()
    scene.fetcher.remove(partition)
    partition.lead(LEADER_EPOCH + 1, (1, 2, 3), (2, 3), 0)
    scene.wire.deliver()
    scene.turn()
    assert partition.log.log_end == 0


def test_damaged_answer_is_not_appended(tmp_path: Path) -> None:
    """The CRC says so; the partition rests and asks again."""
    scene = Following(tmp_path)
    scene.produce(batch(b"abc"))
    scene.turn()
    asked, _ = scene.wire._waiting[0]
    part = asked.parts[0]
    data = bytearray(part.records.read())
    data[-1] ^= 1
    topic = asked.answer.responses[0]
    asked.answer = asked.answer._replace(responses=[topic._replace(partitions=[part._replace(records=bytes(data))])])
    scene.wire.deliver()
    scene.turn()
    assert scene.follower.of().log.log_end == 0
    scene.run(0.1)
    assert scene.follower.of().log.log_end == 1


def test_partition_that_goes_while_its_disk_is_waited_for_does_not_stop_the_others(tmp_path: Path) -> None:
    """Its log directory failed, and a new session had begun meanwhile."""
    scene = Following(tmp_path, durability="flushed", partitions=2)
    scene.produce(batch(b"a"), 0)
    scene.run()
    scene.wire.lose()
    scene.run(2.0)
    scene.fetcher.remove(scene.follower.of(0))
    scene.produce(batch(b"b"), 1)
    scene.run()
    assert scene.follower.of(1).log.log_end == 1
