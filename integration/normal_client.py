"""A well-behaved client beside a disturbance: it produces a record and fetches it, again and again, and takes the time.

It is a process of its own (`python -m integration.normal_client HOST PORT`), so that a busy test does not slow it down.
It says `started` after its first round, goes on until its input ends, then writes the seconds of every round as JSON.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time

from integration.raw import RawConnection
from integration.tools import ROOT
from kafka_wire.apis import Api
from kafka_wire.records import Record, decode_batches, encode_batch
from kafka_wire.schema.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_wire.schema.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PAUSE_SECONDS = 0.02
TOPIC = "normal"


class NormalClient:
    """Runs while it is entered; `check` afterwards. Its topic must exist and be its own."""

    topic = TOPIC

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, str(port))
        self._process: subprocess.Popen[str] | None = None
        self._outcome: tuple[int, str, str] = (-1, "", "")

    def __enter__(self) -> NormalClient:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.normal_client", *self._address],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "started\n", self._process.communicate()[1]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        try:
            output, errors = self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            output, errors = self._process.communicate()
            errors = f"the normal client hangs\n{errors}"
        self._outcome = (self._process.returncode, output, errors)

    def check(self, longest: float, typical: float = 0.2) -> None:
        """Every round went well, none took longer than `longest` seconds and half of them at most `typical`."""
        code, output, errors = self._outcome
        assert code == 0, f"a normal client failed: {errors}"
        seconds = sorted(json.loads(output))
        assert seconds, "a normal client did nothing"
        print(f"{len(seconds)} rounds, p50 {seconds[len(seconds) // 2]:.3f} s, longest {seconds[-1]:.3f} s")
        assert seconds[-1] < longest, f"a round of a normal client took {seconds[-1]:.2f} s"
        assert seconds[len(seconds) // 2] < typical, (
            f"half of a normal client's rounds took {seconds[len(seconds) // 2]:.2f} s"
        )


def _round(connection: RawConnection, value: bytes, expected: int | None) -> int:
    """Produces and fetches back; the next offset."""
    batch = encode_batch([Record(0, int(time.time() * 1000), None, value)])
    data = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=0, records=batch),))
    answer = connection.ask(Api.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,)))
    produced = answer.responses[0].partition_responses[0]
    assert produced.error_code == 0, f"produce answered {produced.error_code}: {produced.error_message}"
    assert expected is None or produced.base_offset == expected
    partition = FetchPartition(partition=0, fetch_offset=produced.base_offset, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic=TOPIC, partitions=(partition,)),)
    fetched = connection.ask(Api.FETCH, 12, FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=topics))
    values = [record.value for record in decode_batches(bytes(fetched.responses[0].partitions[0].records))]
    assert values == [value]
    return int(produced.base_offset) + 1


def main(host: str, port: int) -> None:
    """Rounds until stdin ends."""
    seconds = []
    with RawConnection(host, port, 30) as connection:
        offset = _round(connection, b"first", None)
        print("started", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            started = time.monotonic()
            offset = _round(connection, b"%d" % offset, offset)
            seconds.append(time.monotonic() - started)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
