"""A partition's log: appending, reading, rolling, looking up, cutting."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.storage.test.kit import (
    NOW,
    SMALL,
    TP,
    Home,
    append,
    batch,
    open_descriptors,
    read_all,
    segment_paths,
    sequenced,
    values,
)
from brokerd.topic_config import TopicConfig
from kafka_wire import batches, records
from kafka_wire.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A broker's data directory with tiny segments."""
    return Home(tmp_path / "data")


def numbered(count: int, start: int = 0, size: int = 3) -> list[memoryview]:
    """Batches of `size` records whose values and timestamps count up."""
    return [
        batch(*(str(start + number * size + k) for k in range(size)), timestamp=NOW + 10 * (start + number * size))
        for number in range(count)
    ]


# ---- appending


def test_append_assigns_offsets_and_epoch_and_leaves_the_rest(home: Home) -> None:
    """Only the 16 bytes outside the CRC differ from what the producer sent."""
    log = home.log()
    sent = batch("a", "b")
    first, second = append(log, sent, sent)
    assert (first.first_offset, first.last_offset, first.log_append_time_ms, first.duplicate) == (0, 1, -1, False)
    assert (second.first_offset, second.last_offset) == (2, 3)
    data = log.read(2, 10_000, 4, min_one=True).read()
    assert data[16:] == bytes(sent[16:])
    header = batches.check_batch(data, 0, len(data))
    assert (header.base_offset, header.leader_epoch) == (2, 0)


def test_queued_batches_are_not_read_before_the_write(home: Home) -> None:
    """log_end is ahead of written_end within a turn."""
    log = home.log()
    log.append_as_leader(batch("a"), 0, NOW)
    assert (log.log_end, log.written_end, log.size) == (1, 0, 0)
    assert len(log.read(0, 1000, 1, min_one=True)) == 0
    log.write()
    assert (log.log_end, log.written_end) == (1, 1)
    assert values(read_all(log)) == ["a"]


def test_thousands_of_batches_in_one_turn_are_written(home: Home) -> None:
    """More parts than one writev takes."""
    home.settings(segment_bytes=1 << 20)
    log = home.log()
    append(log, *[batch(str(number)) for number in range(1500)])
    assert values(read_all(log, max_bytes=100_000)) == [str(number) for number in range(1500)]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (memoryview(bytes(batch("a")) + bytes(batch("b"))), InvalidRecord),
        (batch("a")[:-1], CorruptMessage),
        (memoryview(b""), CorruptMessage),
        (batch("a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), InvalidRecord),
        (batch("x" * 300), MessageTooLarge),
    ],
)
def test_bad_batch_is_refused_and_changes_nothing(home: Home, bad: memoryview, error: type[Exception]) -> None:
    """Two batches, a cut one, none, a transactional one, one too large."""
    home.settings(max_message_bytes=300)
    log = home.log()
    with pytest.raises(error):
        log.append_as_leader(bad, 0, NOW)
    assert log.log_end == 0
    log.write()
    assert log.size == 0


def test_batch_above_segment_bytes_is_refused(home: Home) -> None:
    """No segment could hold it."""
    log = home.log()
    with pytest.raises(RecordListTooLarge):
        log.append_as_leader(batch("x" * 2000), 0, NOW)
    assert log.log_end == 0


def test_log_append_time_stamps_the_batch(home: Home) -> None:
    """The producer's time is replaced and answered."""
    home.settings(message_timestamp_type="LogAppendTime")
    log = home.log()
    (done,) = append(log, batch("a", "b", timestamp=5), now_ms=NOW)
    assert done.log_append_time_ms == NOW
    assert [record.timestamp for record in read_all(log)] == [NOW, NOW]
    assert log.offset_for_timestamp(NOW, 2) == (NOW, 0, 0)


def test_timestamps_outside_the_limits_are_refused(home: Home) -> None:
    """Every record counts, not only the batch's first and highest."""
    home.settings(message_timestamp_before_max_ms=100, message_timestamp_after_max_ms=50)
    log = home.log()
    for timestamp, step in ((NOW - 101, 1), (NOW + 51, 0), (NOW, -101)):
        with pytest.raises(InvalidTimestamp):
            log.append_as_leader(batch("a", "b", timestamp=timestamp, step=step), 0, NOW)
    append(log, batch("a", "b", timestamp=NOW - 100, step=150), batch("c", timestamp=-1))
    assert log.log_end == 3


@pytest.mark.parametrize(("setting", "codec"), [("gzip", 1), ("zstd", 4), ("uncompressed", 0)])
def test_compression_type_compresses_again(home: Home, setting: str, codec: int) -> None:
    """Records, producer and sequence stay."""
    home.settings(compression_type=setting)
    log = home.log()
    append(log, batch("a", "b", codec=2, producer_id=5, producer_epoch=1, base_sequence=0))
    data = log.read(0, 1000, 2, min_one=True).read()
    header = batches.check_batch(data, 0, len(data))
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (codec, 5, 1, 0)
    assert values(read_all(log)) == ["a", "b"]


def test_compacted_topic_needs_keys(home: Home) -> None:
    """A record without a key could never be replaced."""
    home.settings(cleanup_policy=("compact",))
    with pytest.raises(InvalidRecord, match="key"):
        home.log().append_as_leader(batch("a"), 0, NOW)


# ---- idempotent producers


def test_R41_duplicate_is_answered_with_its_first_offsets(home: Home) -> None:
    """Also within one turn, before anything is written."""
    log = home.log()
    append(log, batch("x"))
    first = log.append_as_leader(sequenced(0, 2), 0, NOW)
    again = log.append_as_leader(sequenced(0, 2), 0, NOW)
    assert (again.first_offset, again.last_offset, again.duplicate) == (1, 2, True)
    assert (first.first_offset, first.duplicate) == (1, False)
    log.write()
    assert log.log_end == 3
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append_as_leader(sequenced(5), 0, NOW)


@pytest.mark.parametrize("clean", [True, False])
def test_R42_five_batches_are_known_after_a_restart(home: Home, clean: bool) -> None:
    """Kafka's snapshot has only the last one; the log has the others."""
    log = home.log()
    append(log, *[sequenced(2 * number, 2) for number in range(20)])
    if clean:
        home.stop()
    else:
        home.crash()
        home.start()
    log = home.manager.logs[TP]
    for number in range(15, 20):
        assert log.append_as_leader(sequenced(2 * number, 2), 0, NOW).first_offset == 2 * number
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append_as_leader(sequenced(28, 2), 0, NOW)
    append(log, sequenced(40, 2))
    assert log.log_end == 42


def test_R42_truncation_takes_producers_back(home: Home) -> None:
    """What was cut off may be sent again."""
    log = home.log()
    append(log, *[sequenced(number) for number in range(30)])
    log.truncate_to(12)
    assert append(log, sequenced(12))[0].first_offset == 12
    assert log.append_as_leader(sequenced(11), 0, NOW).duplicate


# ---- rolling


def test_segments_roll_by_size(home: Home) -> None:
    """No file is above segment.bytes, each starts where the last one ended, and all is read across them."""
    log = home.log()
    for one in numbered(60):
        append(log, one)
    paths = segment_paths(log)
    assert len(paths) > 3
    assert all(path.stat().st_size <= SMALL.segment_bytes for path in paths)
    assert values(read_all(log)) == [str(number) for number in range(180)]
    assert log.size == sum(path.stat().st_size for path in paths)


def test_one_turn_may_fill_several_segments(home: Home) -> None:
    """The same files as with a write for each batch."""
    log = home.log()
    append(log, *numbered(60))
    one_turn = [path.stat().st_size for path in segment_paths(log)]
    assert values(read_all(log)) == [str(number) for number in range(180)]
    other = Home(home.paths[0].parent / "other").log()
    for one in numbered(60):
        append(other, one)
    assert [path.stat().st_size for path in segment_paths(other)] == one_turn


def test_segments_roll_by_the_batches_time(home: Home) -> None:
    """segment.ms counts from the first batch's timestamp to this batch's, as in Kafka."""
    home.settings(segment_ms=1000)
    log = home.log()
    for offset_ms in (0, 1000, 1001, 500, 2001, 2002):
        append(log, batch("a", timestamp=NOW + offset_ms), now_ms=NOW)
    assert [path.stem.lstrip("0") for path in segment_paths(log)] == ["", "2", "5"]


def test_segments_roll_when_the_index_is_full(home: Home) -> None:
    """Four entries here."""
    home.settings(segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=5 * 12)
    log = home.log()
    for number in range(20):
        append(log, batch("a", timestamp=NOW + number))
    assert len(segment_paths(log)) >= 3
    for path in log.directory.glob("*.timeindex"):
        assert path.stat().st_size <= 5 * 12
    assert len(read_all(log)) == 20


def test_settings_are_taken_live(home: Home) -> None:
    """A smaller segment.bytes rolls at the next append."""
    home.settings(segment_bytes=1 << 20)
    log = home.log()
    append(log, *numbered(20))
    assert len(segment_paths(log)) == 1
    log.configure(attrs.evolve(home.config, segment_bytes=500))
    append(log, *numbered(1, start=60))
    assert len(segment_paths(log)) == 2


def test_many_segments_need_few_open_files(tmp_path: Path) -> None:
    """Opening lists the directory; reading opens what it reads."""
    home = Home(tmp_path / "data", config=attrs.evolve(SMALL, segment_bytes=100))
    log = home.log()
    append(log, *[batch(str(number)) for number in range(300)])
    assert len(segment_paths(log)) == 300
    home.stop()
    assert open_descriptors(home.paths[0]) < 10
    assert len(read_all(home.manager.logs[TP])) == 300


# ---- reading


def test_read_starts_at_the_batch_that_holds_the_offset(home: Home) -> None:
    """A consumer skips what it has."""
    log = home.log()
    append(log, batch("a", "b", "c"), batch("d"))
    data = log.read(1, 10_000, 4, min_one=True).read()
    assert batches.read_header(data).base_offset == 0
    assert values(list(records.decode_batches(data, from_offset=1))) == ["b", "c", "d"]


def test_read_ends_at_the_given_offset(home: Home) -> None:
    """The high watermark is a batch boundary; nothing beyond it is sent."""
    log = home.log()
    append(log, batch("a", "b"), batch("c"))
    append(log, batch("d"))
    for end, expected in ((2, "ab"), (3, "abc"), (4, "abcd")):
        for _ in range(2):
            data = log.read(0, 10_000, end, min_one=True).read()
            assert "".join(values(list(records.decode_batches(data)))) == expected
    assert len(log.read(2, 1000, 2, min_one=True)) == 0


def test_first_batch_comes_whole_or_not_at_all(home: Home) -> None:
    """KIP-74: the first partition of an answer makes progress however small the limit; the others stay empty."""
    log = home.log()
    append(log, batch("a" * 200), batch("b"))
    whole = log.read(0, 1, 2, min_one=True)
    assert len(list(records.decode_batches(whole.read()))) == 1
    assert len(log.read(0, 1, 2, min_one=False)) == 0


def test_read_outside_the_log_is_out_of_range(home: Home) -> None:
    """At the end it is empty, beyond it is an error."""
    log = home.log()
    append(log, batch("a"))
    assert len(log.read(1, 100, 1, min_one=True)) == 0
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, 1, min_one=True)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    steps=st.lists(st.integers(-30, 50), min_size=40, max_size=40),
    asked=st.integers(-100, 2100),
    end_part=st.floats(0, 1),
    turns=st.integers(1, 5),
    reopen=st.booleans(),
)
def test_look_ups_agree_with_a_list(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    steps: list[int],
    asked: int,
    end_part: float,
    turns: int,
    reopen: bool,
) -> None:
    """By offset, by timestamp and for the highest timestamp, timestamps in any order, below any batch boundary."""
    home = Home(tmp_path_factory.mktemp("look") / "data")
    log = home.log()
    model: list[tuple[int, int]] = []
    ends = [0]
    clock = NOW
    for number, size in enumerate(sizes):
        made = []
        for _ in range(size):
            clock += steps[len(model) % len(steps)]
            made.append(records.Record(0, clock, None, b"v"))
            model.append((clock, len(model)))
        log.append_as_leader(memoryview(records.encode_batch(made)), 0, NOW)
        ends.append(len(model))
        if number % turns == 0:
            log.write()
    log.write()
    if reopen:
        home.stop()
        log = home.manager.logs[TP]
    end = ends[int(end_part * (len(ends) - 1))]
    visible = model[:end]
    wanted = NOW + asked
    expected = next(((time, offset, 0) for time, offset in visible if time >= wanted), None)
    assert log.offset_for_timestamp(wanted, end) == expected
    best = max(visible, key=lambda pair: (pair[0], -pair[1]), default=None)
    assert log.max_timestamp(end) == (None if best is None else (*best, 0))
    for offset in range(0, end, 7):
        data = log.read(offset, 10_000, end, min_one=True).read()
        found = list(records.decode_batches(data, from_offset=offset))
        assert (found[0].timestamp, found[0].offset) == model[offset]
        assert found[-1].offset < end


# ---- epochs


def test_A11_epoch_is_durable_before_the_first_append(home: Home) -> None:
    """The file has it as soon as the call returns, and an epoch that is not newer is refused."""
    log = home.log()
    append(log, batch("a"))
    log.start_epoch(4)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n4 1\n"
    for old in (4, 3):
        with pytest.raises(FencedLeaderEpoch):
            log.start_epoch(old)
    home.crash()
    home.start()
    log = home.manager.logs[TP]
    assert log.latest_epoch == 4
    assert log.epoch_end_offset(0) == (0, 1)
    assert log.epoch_end_offset(4) == (4, 1)


def test_R20_follower_keeps_offsets_epochs_and_producers(home: Home, tmp_path: Path) -> None:
    """The copy has the same bytes and the same epochs."""
    leader = home.log()
    append(leader, *numbered(10))
    leader.start_epoch(2)
    append(leader, sequenced(0, 2), epoch=2)
    follower = Home(tmp_path / "copy").manager.create(TP, bytes(16), SMALL)
    offset = 0
    while offset < leader.log_end:
        offset = follower.append_as_follower(memoryview(leader.read(offset, 300, leader.log_end, min_one=True).read()))
        follower.write()
    assert read_all(follower) == read_all(leader)
    assert follower.epoch_end_offset(0) == leader.epoch_end_offset(0) == (0, 30)
    assert follower.latest_epoch == 2
    assert follower.append_as_leader(sequenced(0, 2), 2, NOW).duplicate
    with pytest.raises(OffsetOutOfRange):
        follower.append_as_follower(memoryview(leader.read(0, 300, 30, min_one=True).read()))


# ---- cutting


@pytest.mark.parametrize("offset", [0, 1, 3, 29, 30, 31, 90, 178, 180, 500])
def test_truncation_keeps_exactly_what_is_before(home: Home, offset: int) -> None:
    """A batch that holds the offset goes as a whole; appends go on from there; a crash right after changes nothing."""
    log = home.log()
    append(log, *numbered(60))
    log.flush()
    home.manager.checkpoint({TP: 180})
    log.truncate_to(offset)
    kept = min(offset, 180) // 3 * 3
    assert (log.log_end, log.written_end, log.flushed) == (kept, kept, kept)
    assert values(read_all(log)) == [str(number) for number in range(kept)]
    home.crash()
    home.start()
    log = home.manager.logs[TP]
    assert not home.manager.offline
    assert TP not in home.manager.suspects
    append(log, *numbered(5, start=kept))
    assert values(read_all(log)) == [str(number) for number in range(kept + 15)]
    assert log.max_timestamp(log.log_end) == (NOW + 10 * (kept + 12) + 2, kept + 14, 0)


def test_delete_records_moves_the_start_durably(home: Home) -> None:
    """After a crash too; whole segments go with the next retention run, their files after the delay."""
    log = home.log()
    append(log, *numbered(60))
    count = len(segment_paths(log))
    log.advance_log_start(100)
    assert log.log_start == 100
    with pytest.raises(OffsetOutOfRange):
        log.read(99, 100, 180, min_one=True)
    home.crash()
    home.start()
    log = home.manager.logs[TP]
    assert log.log_start == 100
    gone = log.delete_old(NOW, 180)
    assert gone > 0
    assert len(segment_paths(log)) == count - gone
    assert log.size == sum(path.stat().st_size for path in segment_paths(log))
    assert values(read_all(log)) == [str(number) for number in range(100, 180)]
    assert log.purge(NOW + home.config.file_delete_delay_ms - 1) == []
    assert len(log.purge(NOW + home.config.file_delete_delay_ms)) >= gone
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(181)


def test_retention_may_empty_a_log_and_offsets_go_on(home: Home) -> None:
    """The next record gets the next offset, also after a crash."""
    home.settings(retention_ms=0)
    log = home.log()
    append(log, *numbered(10))
    assert log.delete_old(NOW + 10_000, 30) > 0
    assert (log.log_start, log.log_end, log.size) == (30, 30, 0)
    home.crash()
    home.start()
    log = home.manager.logs[TP]
    assert append(log, batch("next"))[0].first_offset == 30
    assert values(read_all(log)) == ["next"]


def test_deleted_segment_is_still_sent_to_who_reads_it(home: Home) -> None:
    """The range keeps its file."""
    home.settings(retention_ms=0)
    log = home.log()
    append(log, batch("a"))
    piece = log.read(0, 1000, 1, min_one=True)
    log.delete_old(NOW + 10_000, 1)
    for path in log.purge(NOW + 1_000_000):
        Path(path).unlink()
    assert values(list(records.decode_batches(piece.read()))) == ["a"]


def test_broken_index_is_made_again_when_it_leads_astray(home: Home) -> None:
    """A flipped bit in an old index costs a walk, not an answer."""
    log = home.log()
    append(log, *numbered(60))
    home.stop()
    log = home.manager.logs[TP]
    index = sorted(log.directory.glob("*.index"))[1]
    good = index.read_bytes()
    data = bytearray(good)
    for place in range(7, len(data), 8):
        data[place] ^= 0x11
    index.write_bytes(data)
    assert values(read_all(log)) == [str(number) for number in range(180)]
    assert index.read_bytes() != bytes(data)


def test_default_settings_need_no_rules() -> None:
    """The hot path asks one question."""
    from brokerd.storage.batch_rules import needs_rules

    assert not needs_rules(TopicConfig())
    assert needs_rules(TopicConfig(message_timestamp_type="LogAppendTime"))


def test_log_begun_anew_starts_and_ends_where_told_also_after_a_restart(home: Home) -> None:
    """R9: the leader has nothing that this log could go on from."""
    log = home.log()
    append(log, batch("a", "b"))
    append(log, batch("c"))
    log.restart_at(10)
    assert (log.log_start, log.log_end, log.flushed, log.size, log.last_record_epoch) == (10, 10, 10, 0, -1)
    home.crash()
    home.start()
    log = home.log()
    assert (log.log_start, log.log_end) == (10, 10)
    assert read_all(log) == []
