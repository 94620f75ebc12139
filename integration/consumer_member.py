"""A process with one consumer, for tests that kill and stop it: `python -m integration.consumer_member ...`.

Everything that happens is a line of JSON in the history file, with `t` in nanoseconds of CLOCK_MONOTONIC, which all
processes of a machine share. SIGTERM ends it cleanly. With --commit it commits by hand after every poll.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import time
from collections.abc import Collection
from types import FrameType
from typing import Any

from consumer_group import Consumer, ConsumerRebalanceListener, TopicPartition
from consumer_group.errors import KafkaError


class History:
    """Lines of JSON, each written at once."""

    def __init__(self, path: str, name: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115
        self._name = name

    def add(self, op: str, **fields: Any) -> None:
        """One event."""
        line = {"t": time.monotonic_ns(), "proc": self._name, "pid": os.getpid(), "op": op, **fields}
        self._file.write(json.dumps(line).encode() + b"\n")


class Listener(ConsumerRebalanceListener):
    """Writes down what comes and goes."""

    def __init__(self, history: History) -> None:
        self._history = history

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._history.add("own", parts=sorted(one.partition for one in assigned))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._history.add("disown", parts=sorted(one.partition for one in revoked))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        self._history.add("lost", parts=sorted(one.partition for one in lost))


def main() -> None:
    """Polls until it is told to stop."""
    parser = argparse.ArgumentParser()
    for name in ("zookeeper", "group", "topic", "history", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--session-ms", type=int, default=3000)
    parser.add_argument("--strategy", default="range")
    parser.add_argument("--commit", action="store_true")
    parser.add_argument("--work-ms", type=int, default=0, help="how long the records of a poll take to handle")
    parser.add_argument("--log", default="WARNING")
    options = parser.parse_args()
    logging.basicConfig(level=options.log, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    history = History(options.history, options.name)
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    consumer = Consumer(
        group_id=options.group,
        zookeeper_connect=options.zookeeper,
        session_timeout_ms=options.session_ms,
        auto_offset_reset="earliest",
        assignment_strategy=options.strategy,
        enable_auto_commit=not options.commit,
        auto_commit_interval_ms=500,
        max_poll_records=200,
    )
    consumer.subscribe([options.topic], listener=Listener(history))
    with consumer:
        while not stopping:
            began = time.monotonic_ns()
            for partition, records in consumer.poll(100).items():
                offsets = [record.offset for record in records]
                history.add("poll", began=began, part=partition.partition, off=offsets)
            time.sleep(options.work_ms / 1000)
            if options.commit:
                commit(consumer, history)
    history.add("closed")


def commit(consumer: Consumer, history: History) -> None:
    """By hand, with what becomes of it."""
    try:
        consumer.commit()
    except KafkaError as problem:
        history.add("commit", err=type(problem).__name__, text=problem.message)


if __name__ == "__main__":
    main()
