"""Kafka's files: its DumpLogSegments reads what our broker wrote, our broker starts from its server.properties."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from confluent_kafka import Producer

from integration.admin import create_topic
from integration.clients.base import CODECS, Record
from integration.clients.confluent import ConfluentKafka
from integration.clients.kafka_python import KafkaPython
from integration.conftest import EXTERNAL, BrokerFactory, fresh_name
from integration.processes import Broker
from integration.tools import run_java

DUMP = "kafka.tools.DumpLogSegments"
KAFKA_PROPERTIES = Path(__file__).with_name("kafka-3.9-server.properties")
ROUNDS, PER_ROUND = 4, 400
COMPLAINTS = re.compile(
    r"isvalid: false|mismatch|corrupt|invalid|exception|found \d|trailing|not found|Non-consecutive", re.IGNORECASE
)


@pytest.fixture(scope="module")
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a partition with many segments, all codecs and idempotent producers, cleanly closed."""
    if EXTERNAL:
        pytest.skip("needs the files of a broker of ours")
    connect = f"{request.getfixturevalue('zookeeper').connect}/{fresh_name('files')}"
    process = Broker(tmp_path_factory.mktemp("files"), connect)
    process.start()
    try:
        settings = {"segment.bytes": "60000", "index.interval.bytes": "500", "retention.ms": "-1"}
        create_topic(process.bootstrap, "dumped", config=settings)
        for number in range(ROUNDS):
            for codec in CODECS:
                moment = 1_700_000_000_000 + number * 1000
                records = [Record(b"%d" % n, b"%d " % n * 10, (("h", b"v"),), moment + n) for n in range(PER_ROUND)]
                ConfluentKafka().write(process.bootstrap, "dumped", records, codec)
            _small_batches(process.bootstrap, "dumped")
        return process.partition_dir("dumped")
    finally:
        process.stop()
        process.kill()


def _small_batches(bootstrap: str, topic: str) -> None:
    """So many that the index has several entries for one segment."""
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10, "compression.type": "none"})
    for number in range(PER_ROUND):
        producer.produce(topic, b"small %d" % number, timestamp=1_700_000_000_000)
    assert producer.flush(30) == 0


def dump(*arguments: str) -> str:
    """What DumpLogSegments prints; a complaint fails."""
    output = run_java(DUMP, *arguments)
    complaints = [line for line in output.splitlines() if COMPLAINTS.search(line)]
    assert not complaints, "\n".join(complaints[:5])
    return output


def files(directory: Path, suffix: str) -> str:
    """All files of one kind, as the tool wants them."""
    found = sorted(directory.glob(f"*{suffix}"))
    assert found, f"no {suffix} in {directory}: {sorted(path.name for path in directory.iterdir())}"
    return ",".join(map(str, found))


def test_dump_reads_every_segment_record_by_record(stopped: Path) -> None:
    """All records, CRCs valid, offsets without a hole."""
    output = dump("--deep-iteration", "--print-data-log", "--files", files(stopped, ".log"))
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+) ", output, re.MULTILINE)]
    assert offsets == list(range(ROUNDS * (len(CODECS) + 1) * PER_ROUND))
    assert len(list(stopped.glob("*.log"))) > 3


@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
def test_dump_accepts_the_offset_index(stopped: Path, check: str) -> None:
    """Each entry points at a batch that begins there."""
    output = dump(check, "--files", files(stopped, ".index"))
    if check == "--index-sanity-check":
        assert "passed sanity check" in output


@pytest.mark.parametrize("check", ["--verify-index-only", "--index-sanity-check"])
def test_dump_accepts_the_time_index(stopped: Path, check: str) -> None:
    """Entries rise, and each names the greatest timestamp so far."""
    dump(check, "--files", files(stopped, ".timeindex"))


def test_dump_shows_index_entries(stopped: Path) -> None:
    """There are several entries for one segment: the index is sparse, not empty."""
    output = dump("--files", files(stopped, ".index"))
    assert len(re.findall(r"^offset: \d+ position: \d+", output, re.MULTILINE)) > 10


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".log"])
def test_dump_complains_about_damage(stopped: Path, tmp_path: Path, suffix: str) -> None:
    """The check itself bites: an entry that points elsewhere, a flipped byte in a batch."""
    base = sorted(stopped.glob("*.log"))[0].stem
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(stopped / f"{base}{kind}", tmp_path)
    damaged = tmp_path / f"{base}{suffix}"
    data = bytearray(damaged.read_bytes())
    data[-1 if suffix != ".log" else 100] ^= 0xFF
    damaged.write_bytes(data)
    with pytest.raises(AssertionError):
        dump("--deep-iteration", "--verify-index-only", "--files", str(damaged))


def test_dump_reads_the_producer_snapshot(stopped: Path) -> None:
    """The state of idempotent producers."""
    newest = sorted(stopped.glob("*.snapshot"))[-1]
    output = dump("--files", str(newest))
    assert len(re.findall(r"producerId: \d+ producerEpoch: 0 ", output)) >= ROUNDS


def test_kafkas_server_properties_start_a_broker(brokers: BrokerFactory) -> None:
    """Only the places that differ in a test are overridden; what we know and do not need is one notice each."""
    process = brokers(config=KAFKA_PROPERTIES)
    process.start()
    assert KafkaPython().write(process.bootstrap, "first", [Record(b"k", b"v")], "gzip") == [0]
    notices = [line for line in process.log_lines() if "offsets.topic.replication.factor" in line]
    assert len(notices) <= 1
    assert process.stop() == 0


def test_misspelt_setting_names_the_nearest_valid_one(brokers: BrokerFactory) -> None:
    """Exit code 2 and one line."""
    process = brokers({"log.retension.hours": "3"})
    process.launch()
    assert process.wait_end() == 2
    (line,) = process.log_lines()
    assert "log.retension.hours" in line
    assert "log.retention.hours" in line
