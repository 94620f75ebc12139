"""At least once made exactly once, with the application's own store (P41).

The paper leaves duplicates to the application: after a crash a successor reads again what came after the last commit.
An application that writes its results to a database can do better than to look for duplicates by content: it stores,
*in the transaction of its results*, how far each partition is done, and skips what the store has already. The offsets
in ZooKeeper are then only a hint where to begin.

    import sqlite3
    from consumer_group import Consumer
    from consumer_group.deduplication import SqliteProgress

    store = sqlite3.connect("results.db", isolation_level=None)
    progress = SqliteProgress(store, group="reports")
    with Consumer("logs", group_id="reports", zookeeper_connect="localhost:2181") as consumer:
        for record in consumer:
            with progress.once(record) as is_new:            # one transaction
                if is_new:
                    store.execute("INSERT INTO lines VALUES (?)", (record.value,))

`FileProgress` does the same for applications whose results are files: a file's name says which offsets are in it, so a
result and its progress become visible by one rename.

What makes this right: a store that two members use at the same time must refuse the older one. `once` reads and writes
the progress of the record's partition within the application's transaction, so of two members that handle the same
record, one of them a zombie, the second sees the first's progress, or fails to commit (SQLite: BEGIN IMMEDIATE).
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from consumer_group.types import ConsumerRecord
from kafka_wire.ids import TopicPartition

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    consumer_group TEXT NOT NULL,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition)
)
"""


class SqliteProgress:
    """How far a group has handled each partition, in a table of the application's own SQLite database.

    The connection must be in autocommit mode (`isolation_level=None`): transactions are begun and ended here.
    """

    def __init__(self, connection: sqlite3.Connection, group: str, table: str = "consumer_progress") -> None:
        if connection.isolation_level is not None:
            raise ValueError("make the connection with isolation_level=None: `once` begins and ends the transactions")
        if not table.isidentifier():
            raise ValueError(f"{table!r} is no name for a table")
        self._connection = connection
        self._group = group
        self._table = table
        connection.execute(_CREATE.format(table=table))

    @contextlib.contextmanager
    def once(self, record: ConsumerRecord) -> Iterator[bool]:
        """A transaction for one record: True if it was not handled before. Leaving it normally commits both the
        application's writes and the progress; an exception undoes both, and the record comes again."""
        with self.transaction():
            if record.offset < self.next_offset(record.topic, record.partition):
                yield False
                return
            yield True
            self.advance(record.topic, record.partition, record.offset + 1)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """For several records at once: use `next_offset` and `advance` inside."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def next_offset(self, topic: str, partition: int) -> int:
        """Everything before it was handled; 0 for nothing."""
        row = self._connection.execute(
            f"SELECT next_offset FROM {self._table} WHERE consumer_group = ? AND topic = ? AND partition = ?",
            (self._group, topic, partition),
        ).fetchone()
        return 0 if row is None else int(row[0])

    def advance(self, topic: str, partition: int, next_offset: int) -> None:
        """Everything before `next_offset` is handled, once the transaction is committed."""
        self._connection.execute(
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?) ON CONFLICT (consumer_group, topic, partition) "
            "DO UPDATE SET next_offset = excluded.next_offset",
            (self._group, topic, partition, next_offset),
        )

    def forget(self, topic: str) -> None:
        """For a topic that was deleted and made anew: its offsets begin at 0 again."""
        self._connection.execute(
            f"DELETE FROM {self._table} WHERE consumer_group = ? AND topic = ?", (self._group, topic)
        )


class FileProgress:
    """The same for results in files: one file for each piece of work, named after the offsets that are in it.

    A piece is written beside its place and renamed into it, so it is there wholly or not at all, and its name says what
    is done. Two members that write the same piece write the same name: the later rename wins, and nothing is double.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def next_offset(self, partition: TopicPartition) -> int:
        """Everything before it is in files; 0 for nothing."""
        return max((end for _, end in self._pieces(partition)), default=0)

    def write(self, partition: TopicPartition, first_offset: int, next_offset: int, data: bytes) -> Path:
        """A piece with what came of the records from `first_offset` up to `next_offset`; ValueError for one that would
        repeat or leave out records."""
        done = self.next_offset(partition)
        if first_offset != done and (done or first_offset < done):
            raise ValueError(f"{partition}: files have everything before {done}, this piece begins at {first_offset}")
        place = self._directory / f"{partition.topic}-{partition.partition}-{first_offset:020d}-{next_offset:020d}"
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".writing-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).rename(place)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return place

    def read(self, partition: TopicPartition) -> Iterator[bytes]:
        """The pieces in order."""
        for first, end in sorted(self._pieces(partition)):
            name = f"{partition.topic}-{partition.partition}-{first:020d}-{end:020d}"
            yield (self._directory / name).read_bytes()

    def _pieces(self, partition: TopicPartition) -> Iterator[tuple[int, int]]:
        prefix = f"{partition.topic}-{partition.partition}-"
        for path in self._directory.iterdir():
            first, _, end = path.name.removeprefix(prefix).partition("-")
            if path.name.startswith(prefix) and first.isdecimal() and end.isdecimal():
                yield int(first), int(end)

