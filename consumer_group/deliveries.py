"""What stands between the engine's thread, which fetches, and the application's threads, which poll.

One lock and one condition guard everything here; no method calls out while it holds the lock, nor waits for anything
but the condition. The engine's methods never wait at all, so a slow application cannot hold up a rebalance (W13).

A `Flow` is one claim of one partition, from its start until it is given up or lost. It is never used again: a later
claim of the same partition is another Flow, so nothing of an old claim can be taken for the new one's (B17).

At least once: what a poll returned counts as handled when the *next* poll of the same stream begins; while records are
iterated one by one, everything before the one in hand is handled. Only that is committed by itself (B15).
"""

from __future__ import annotations

import enum
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

import attrs

from consumer_group.chunks import Chunk
from kafka_wire.ids import TopicPartition


class FlowState(enum.Enum):
    """How far a claim is."""

    STARTING = "its offset is being looked up"
    FLOWING = "fetched and delivered"
    HANDING = "the application is to let go of it"
    OVER = "given up or lost"


@attrs.define(eq=False)
class Flow:
    """One claim of one partition; see the head of the file. Guarded by the lock of its Deliveries."""

    partition: TopicPartition
    topic_id: bytes
    stream: int
    state: FlowState = FlowState.STARTING
    position: int = -1
    """Next offset to deliver: what `position()` says and `commit()` commits; -1 until it is known."""
    handled: int = -1
    """Everything before it was handled by the application; -1: nothing was delivered in this claim."""
    committed: int = -1
    """What the offset registry has, as far as we know."""
    fetch_position: int = -1
    """Next offset to ask a broker for: behind what is buffered."""
    fetch_epoch: int = -1
    """Leader epoch of the batch before `fetch_position`, -1 unknown: what truncation is found by (R28)."""
    checked_epoch: int = -1
    """The leader's epoch under which `fetch_position` was last known to be good."""
    seeks: int = 0
    """Counts the moves of `fetch_position` that are none of fetching: an answer to an older request is void."""
    rewound: bool = False
    """Whether the application went back on purpose, so that a commit may, too (B15)."""
    paused: bool = False
    high_watermark: int = -1
    chunks: deque[Chunk] = attrs.field(factory=deque)
    buffered: int = 0
    fetched_for: float = 0.0

    @property
    def live(self) -> bool:
        """Whether its offsets may be committed."""
        return self.state is not FlowState.OVER

    def drop_buffer(self) -> None:
        """Forget what was fetched and not delivered."""
        self.chunks.clear()
        self.buffered = 0


_TOLD = (FlowState.FLOWING, FlowState.HANDING)
"""The application knows of the claim, and it is not over."""


class TaskKind(enum.Enum):
    """What the application's thread is to do before anything is delivered."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@attrs.frozen(eq=False)
class Task:
    """A call of the rebalance listener, with the flows it is about."""

    kind: TaskKind
    flows: tuple[Flow, ...]


@attrs.define(eq=False)
class Slice:
    """A run of messages of one flow that the application iterates over.

    `in_hand` (something with an `offset`) is what it works on now, None before the first; `after` is where the
    partition goes on behind it, None for the next offset. Both are written without the lock, by the iterating thread.
    """

    flow: Flow
    chunk: Chunk
    in_hand: Any = None
    after: int | None = None
    stop: bool = False
    """Set by others: the iteration must come back before it gives the next message."""

    @property
    def position(self) -> int:
        """Where the partition goes on if what is in hand is handled."""
        if self.in_hand is None:
            return self.flow.position
        return int(self.in_hand.offset) + 1 if self.after is None else self.after


@attrs.define(eq=False)
class Lane:
    """One stream's side: its tasks, and what it iterates over."""

    number: int
    tasks: deque[Task] = attrs.field(factory=deque)
    slice: Slice | None = None
    turn: int = 0
    lost: list[Flow] = attrs.field(factory=list)
    """Flows that were lost since the last poll with something delivered and not committed: a commit must say so."""
    owner: threading.RLock = attrs.field(factory=threading.RLock)
    """Held by the thread that polls this stream."""

    def interrupt(self) -> None:
        """Have the iteration come back."""
        if self.slice is not None:
            self.slice.stop = True


class Deliveries:
    """The flows of one consumer and the lanes that take from them."""

    def __init__(
        self,
        *,
        lease_valid: Callable[[], bool] = lambda: True,
        on_hunger: Callable[[], None] = lambda: None,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        """`lease_valid` is asked at the moment of delivery (A15), `on_hunger` told, from an application's thread, that
        there is room again after there was none."""
        self.changed = threading.Condition(threading.Lock())
        self._lease_valid = lease_valid
        self._on_hunger = on_hunger
        self._max_bytes = max_bytes
        self._flows: dict[TopicPartition, Flow] = {}
        self._lanes = [Lane(0)]
        self._buffered = 0
        self._starved = False
        self._failure: Exception | None = None
        self._closed = False

    # --- the engine's side ---

    def set_lanes(self, count: int) -> None:
        """How many streams take from it."""
        with self.changed:
            while len(self._lanes) < count:
                self._lanes.append(Lane(len(self._lanes)))

    def open(self, flow: Flow) -> None:
        """A claim begins; nothing is delivered before its position is known."""
        with self.changed:
            self._flows[flow.partition] = flow

    def started(self, flow: Flow, position: int, committed: int, epoch: int = -1) -> bool:
        """The position is known: the application is told, then delivery begins. False if the claim is over already."""
        with self.changed:
            if flow.state is not FlowState.STARTING:
                return False
            flow.state = FlowState.FLOWING
            if flow.fetch_position < 0:
                flow.position = flow.fetch_position = position
                flow.fetch_epoch = epoch
            flow.committed = committed
            self._post(flow.stream, Task(TaskKind.ASSIGNED, (flow,)))
            return True

    def revoke(self, flows: Iterable[Flow]) -> list[Flow]:
        """The application is to let go of these. Those of which it never heard are given back at once: the result."""
        at_once: list[Flow] = []
        by_lane: dict[int, list[Flow]] = {}
        with self.changed:
            for flow in flows:
                if flow.state is FlowState.STARTING:
                    at_once.append(flow)
                    self._end(flow)
                elif flow.state is FlowState.FLOWING:
                    flow.state = FlowState.HANDING
                    self._drop(flow)
                    by_lane.setdefault(flow.stream, []).append(flow)
            for stream, members in by_lane.items():
                self._post(stream, Task(TaskKind.REVOKED, tuple(members)))
        return at_once

    def lose(self, flows: Iterable[Flow]) -> None:
        """These are not ours any more: nothing of them is delivered from here on."""
        by_lane: dict[int, list[Flow]] = {}
        with self.changed:
            for flow in flows:
                known = flow.state is not FlowState.STARTING
                if flow.live:
                    position = self._position(flow)
                    self._end(flow)
                    if position > flow.committed:
                        self._lanes[min(flow.stream, len(self._lanes) - 1)].lost.append(flow)
                    if known:
                        by_lane.setdefault(flow.stream, []).append(flow)
            for stream, members in by_lane.items():
                self._post(stream, Task(TaskKind.LOST, tuple(members)))

    def end(self, flows: Iterable[Flow]) -> None:
        """These were given up in order."""
        with self.changed:
            for flow in flows:
                if flow.live:
                    self._end(flow)

    def add(self, flow: Flow, chunk: Chunk, seeks: int) -> bool:
        """What a broker sent, if the flow still wants it."""
        with self.changed:
            if flow.state is not FlowState.FLOWING or flow.seeks != seeks:
                return False
            flow.chunks.append(chunk)
            flow.buffered += chunk.size
            self._buffered += chunk.size
            flow.fetch_position = max(flow.fetch_position, chunk.next_offset)
            self.changed.notify_all()
            return True

    def stop_fetching(self, flow: Flow) -> None:
        """Nothing can be fetched before the application has moved the position."""
        with self.changed:
            flow.fetch_position = -1

    def fail(self, failure: Exception) -> None:
        """Something that the application must hear of: raised by its next poll."""
        with self.changed:
            self._failure = failure
            for lane in self._lanes:
                lane.interrupt()
            self.changed.notify_all()

    def interrupt(self) -> None:
        """Have iterations look at the lease again."""
        with self.changed:
            for lane in self._lanes:
                lane.interrupt()
            self.changed.notify_all()

    def close(self) -> None:
        """Nothing is delivered any more; whoever waits comes back empty-handed."""
        with self.changed:
            self._closed = True
            for flow in list(self._flows.values()):
                self._end(flow)
            for lane in self._lanes:
                lane.interrupt()
            self.changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether nothing is delivered any more."""
        return self._closed

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be fetched; then `on_hunger` is called when there is room again."""
        with self.changed:
            self._starved = self._buffered >= self._max_bytes
            return self._starved

    def hungry_after(self, flow: Flow, limit: int) -> bool:
        """Whether this flow has less than `limit` bytes in store; if not, `on_hunger` tells when that may be so."""
        with self.changed:
            if flow.buffered < limit:
                return True
            self._starved = True
            return False

    def proven(self) -> dict[TopicPartition, tuple[Flow, int]]:
        """What an automatic commit may commit now: by partition the flow and the offset before which all is handled."""
        with self.changed:
            found: dict[TopicPartition, tuple[Flow, int]] = {}
            for partition, flow in self._flows.items():
                offset = self._handled(flow)
                if flow.live and offset >= 0 and offset != flow.committed:
                    found[partition] = (flow, offset)
            return found

    def proven_of(self, flow: Flow) -> int:
        """The same for one flow, -1 for nothing; also for one that is over."""
        with self.changed:
            return self._handled(flow)

    # --- the application's side; each lane is used by one thread at a time ---

    def lane(self, number: int) -> Lane:
        """A stream's side."""
        return self._lanes[number]

    def begin_poll(self, lane: Lane) -> list[Task]:
        """What was delivered is handled now. The tasks are the caller's to do, in order, before it takes anything."""
        with self.changed:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if lane.slice is not None:  # a poll from within an iteration
                lane.slice.stop = True
                self._put_down(lane, lane.slice, proven=True)
            for flow in self._flows.values():
                if flow.stream == lane.number and flow.state in _TOLD and flow.handled != flow.position:
                    flow.handled = flow.position
            tasks = list(lane.tasks)
            lane.tasks.clear()
            lane.lost.clear()
            return tasks

    def take_tasks(self, lane: Lane) -> list[Task]:
        """The tasks alone, which proves nothing."""
        with self.changed:
            tasks = list(lane.tasks)
            lane.tasks.clear()
            return tasks

    def wait(self, lane: Lane, seconds: float | None) -> bool:
        """Until there may be something for this lane: a task, data, an end. False when the time is up."""
        with self.changed:
            return self.changed.wait_for(lambda: self._stirs(lane), seconds)

    def take(self, lane: Lane) -> tuple[Flow, Chunk] | None:
        """The next chunk of the lane's partitions, in turn; None if there is none or the lease is over (B19)."""
        with self.changed:
            if self._closed or lane.tasks or not self._lease_valid():
                return None
            ready = [flow for flow in self._flows.values() if self._deliverable(lane, flow)]
            if not ready:
                return None
            lane.turn = (lane.turn + 1) % len(ready)
            flow = ready[lane.turn]
            return flow, flow.chunks[0]

    def delivered(self, flow: Flow, chunk: Chunk, position: int) -> bool:
        """Records up to `position` of the flow's first chunk go to the application now. False: they must not."""
        with self.changed:
            if not self._lease_valid() or not self._is_first(flow, chunk):
                return False
            flow.position = position
            hungry = self._finish(flow, chunk)
        if hungry:
            self._on_hunger()
        return True

    def hold(self, lane: Lane, held: Slice) -> bool:
        """The lane begins to iterate over a slice. False: it must not."""
        with self.changed:
            if not self._lease_valid() or not self._is_first(held.flow, held.chunk) or lane.tasks:
                return False
            lane.slice = held
            return True

    def put_down(self, lane: Lane, held: Slice, *, proven: bool) -> None:
        """The iteration over a slice ends; what it did not come to is delivered later. What was in hand counts as
        delivered, and as handled if the application came for more (`proven`)."""
        with self.changed:
            hungry = self._put_down(lane, held, proven)
        if hungry:
            self._on_hunger()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from another offset."""
        with self.changed:
            flow = self._live(partition)
            flow.rewound = flow.rewound or offset < max(flow.position, flow.committed)
            flow.position = flow.fetch_position = offset
            flow.handled = offset if flow.handled >= 0 else -1
            flow.fetch_epoch = flow.checked_epoch = -1
            flow.seeks += 1
            self._drop(flow)
            for held in self._slices(flow):
                held.stop = True
                held.in_hand = None

    def reposition(self, flow: Flow, offset: int, seeks: int) -> bool:
        """The engine's seek, where the log does not have the position. False if the application moved first."""
        with self.changed:
            if flow.state is not FlowState.FLOWING or flow.seeks != seeks:
                return False
            flow.fetch_position = offset
            flow.fetch_epoch = flow.checked_epoch = -1
            flow.seeks += 1
            if not flow.chunks:
                flow.position = offset
            flow.rewound = flow.rewound or offset < flow.committed
            return True

    def set_paused(self, partitions: Collection[TopicPartition], paused: bool) -> None:
        """Paused partitions keep their place and their buffer, and are not delivered."""
        with self.changed:
            for flow in [self._live(partition) for partition in partitions]:
                flow.paused = paused
            for lane in self._lanes:
                lane.interrupt()
            self.changed.notify_all()
        self._on_hunger()

    def flow(self, partition: TopicPartition) -> Flow | None:
        """The claim of a partition, if there is one."""
        with self.changed:
            return self._flows.get(partition)

    def flows(self) -> list[Flow]:
        """All claims."""
        with self.changed:
            return list(self._flows.values())

    def position(self, partition: TopicPartition) -> int:
        """Next offset to be delivered, -1 while it is not known. The record in hand counts as delivered."""
        with self.changed:
            return self._position(self._live(partition))

    def lost(self) -> list[TopicPartition]:
        """Partitions that were lost since the last poll though the application has records of them in its hands."""
        with self.changed:
            return [flow.partition for lane in self._lanes for flow in lane.lost]

    def consumed(self) -> dict[TopicPartition, tuple[Flow, int]]:
        """Positions of all partitions of which something was delivered: what `commit()` means."""
        with self.changed:
            return {
                partition: (flow, self._position(flow))
                for partition, flow in self._flows.items()
                if flow.live and flow.position >= 0 and flow.state is not FlowState.STARTING
            }

    # --- with the lock held ---

    def _live(self, partition: TopicPartition) -> Flow:
        flow = self._flows.get(partition)
        if flow is None:
            raise KeyError(partition)
        return flow

    def _slices(self, flow: Flow) -> list[Slice]:
        return [lane.slice for lane in self._lanes if lane.slice is not None and lane.slice.flow is flow]

    def _position(self, flow: Flow) -> int:
        for held in self._slices(flow):
            return held.position
        return flow.position

    def _handled(self, flow: Flow) -> int:
        for held in self._slices(flow):
            if held.in_hand is not None:
                return int(held.in_hand.offset)
        return flow.handled

    def _is_first(self, flow: Flow, chunk: Chunk) -> bool:
        return flow.state is FlowState.FLOWING and bool(flow.chunks) and flow.chunks[0] is chunk

    def _finish(self, flow: Flow, chunk: Chunk) -> bool:
        """Take a chunk away that is done; whether somebody waits for the room."""
        if not chunk.done or not self._is_first(flow, chunk):
            return False
        flow.chunks.popleft()
        flow.position = max(flow.position, chunk.next_offset)
        flow.buffered -= chunk.size
        self._buffered -= chunk.size
        hungry, self._starved = self._starved, False
        return hungry

    def _put_down(self, lane: Lane, held: Slice, proven: bool) -> bool:
        if lane.slice is not held:
            return False
        lane.slice = None
        flow, position = held.flow, held.position
        if held.in_hand is not None and flow.state in _TOLD:
            flow.position = position
            flow.handled = position if proven else held.in_hand.offset
        if held.stop:
            held.chunk.rewind(position)
            return False
        held.stop = True
        return self._finish(flow, held.chunk)

    def _deliverable(self, lane: Lane, flow: Flow) -> bool:
        return (
            flow.stream == lane.number
            and flow.state is FlowState.FLOWING
            and not flow.paused
            and bool(flow.chunks)
        )

    def _stirs(self, lane: Lane) -> bool:
        if self._closed or lane.tasks or self._failure is not None:
            return True
        return any(self._deliverable(lane, flow) for flow in self._flows.values()) and self._lease_valid()

    def _post(self, stream: int, task: Task) -> None:
        lane = self._lanes[min(stream, len(self._lanes) - 1)]
        lane.tasks.append(task)
        lane.interrupt()
        self.changed.notify_all()

    def _drop(self, flow: Flow) -> None:
        self._buffered -= flow.buffered
        flow.drop_buffer()

    def _end(self, flow: Flow) -> None:
        flow.handled = self._handled(flow)
        for held in self._slices(flow):
            held.stop = True
        flow.state = FlowState.OVER
        self._drop(flow)
        if self._flows.get(flow.partition) is flow:
            del self._flows[flow.partition]
