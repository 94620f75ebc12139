"""Who reads what: Algorithm 1 of the paper, and two other ways. Pure.

Every member computes the same result from the same inputs (B1), so all three are functions of their arguments alone:
no set is iterated unsorted, nothing depends on who asks. Consumers are *threads* (message streams, P10) named `C-0`,
`C-1`, ..., as in Kafka 0.8; they are sorted as text, partitions as numbers, since all members must sort alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping

from kafka_wire.ids import TopicPartition

Subscriptions = Mapping[str, Collection[str]]
"""Consumer thread -> the topics that it subscribes to."""
Sizes = Mapping[str, int]
"""Topic -> number of its partitions."""
Assignment = dict[str, tuple[TopicPartition, ...]]
"""Consumer thread -> its share, sorted. Every consumer has an entry."""


def range_share(partitions: int, consumers: int, position: int) -> range:
    """Steps 6 and 7 of Algorithm 1 with the remainder rule: the share of the consumer at `position`.

    The paper takes N = |PT| / |CT| partitions from j*N on, and does not say what becomes of a remainder. As in Kafka
    0.7, the first |PT| mod |CT| consumers get one more. Five partitions for two consumers:

    >>> range_share(5, 2, 0), range_share(5, 2, 1)
    (range(0, 3), range(3, 5))
    """
    size, extra = divmod(partitions, consumers)
    start = position * size + min(position, extra)
    return range(start, start + size + (position < extra))


def assign_range(subscriptions: Subscriptions, sizes: Sizes, previous: Mapping[TopicPartition, str]) -> Assignment:
    """Algorithm 1 (section 3.2 of the paper), topic by topic.

    The paper's example, a topic with partitions on all brokers shared by the consumers of one group: for each topic T
    that Ci subscribes to, PT are the partitions of T and CT the consumers of the group that subscribe to T; both are
    sorted, and Ci, at place j in CT, takes partitions j*N to (j+1)*N - 1, where N = |PT| / |CT|.

    >>> share = assign_range({"C1": ["logs"], "C2": ["logs"]}, {"logs": 4}, {})
    >>> [str(p) for p in share["C1"]], [str(p) for p in share["C2"]]
    (['logs-0', 'logs-1'], ['logs-2', 'logs-3'])

    CT is taken for each topic alone, so members with different subscriptions share a group (W17):

    >>> share = assign_range({"C1": ["logs"], "C2": ["logs", "audit"]}, {"logs": 3, "audit": 1}, {})
    >>> [str(p) for p in share["C1"]], [str(p) for p in share["C2"]]
    (['logs-0', 'logs-1'], ['audit-0', 'logs-2'])
    """
    shares: dict[str, list[TopicPartition]] = {consumer: [] for consumer in subscriptions}
    for topic in sorted(sizes):
        readers = _readers(subscriptions, topic)
        for position, consumer in enumerate(readers):
            own = range_share(sizes[topic], len(readers), position)
            shares[consumer].extend(TopicPartition(topic, index) for index in own)
    return _sorted(shares)


def assign_round_robin(
    subscriptions: Subscriptions, sizes: Sizes, previous: Mapping[TopicPartition, str]
) -> Assignment:
    """All partitions of all topics in order, one after the other to the next consumer that subscribes (KAFKA-687).

    Range gives the first consumers the extras of every topic; this does not:

    >>> share = assign_round_robin({"C1": ["a", "b"], "C2": ["a", "b"]}, {"a": 3, "b": 3}, {})
    >>> [str(p) for p in share["C1"]], [str(p) for p in share["C2"]]
    (['a-0', 'a-2', 'b-1'], ['a-1', 'b-0', 'b-2'])
    """
    consumers = sorted(subscriptions)
    shares: dict[str, list[TopicPartition]] = {consumer: [] for consumer in consumers}
    subscribed = {consumer: frozenset(topics) for consumer, topics in subscriptions.items()}
    read = {topic for topics in subscribed.values() for topic in topics}
    turn = 0
    for partition in _partitions({topic: size for topic, size in sizes.items() if topic in read}):
        while partition.topic not in subscribed[consumers[turn % len(consumers)]]:
            turn += 1
        shares[consumers[turn % len(consumers)]].append(partition)
        turn += 1
    return _sorted(shares)


def assign_sticky(subscriptions: Subscriptions, sizes: Sizes, previous: Mapping[TopicPartition, str]) -> Assignment:
    """Keeps what each consumer had, gives what is free to the least loaded, and then moves as little as evens it out.

    Balanced means: no partition could go to a consumer that has two or more less. A third consumer takes two of
    six from the others, and nothing else moves:

    >>> before = assign_range({"C1": ["t"], "C2": ["t"]}, {"t": 6}, {})
    >>> had = {p: consumer for consumer, share in before.items() for p in share}
    >>> after = assign_sticky({"C1": ["t"], "C2": ["t"], "C3": ["t"]}, {"t": 6}, had)
    >>> [str(p) for p in after["C3"]], sum(had[p] != consumer for consumer in after for p in after[consumer])
    (['t-2', 't-5'], 2)
    """
    shares: dict[str, set[TopicPartition]] = {consumer: set() for consumer in subscriptions}
    readers = {topic: _readers(subscriptions, topic) for topic in sizes}
    eligible = {topic: frozenset(names) for topic, names in readers.items()}
    free: list[TopicPartition] = []
    for partition in _partitions(sizes):
        if not readers[partition.topic]:
            continue
        had = previous.get(partition)
        if had is not None and had in eligible[partition.topic]:
            shares[had].add(partition)
        else:
            free.append(partition)

    def load(consumer: str) -> tuple[int, str]:
        return len(shares[consumer]), consumer

    # A heap of (load, consumer) for each group of consumers that read the same topics; entries may be out of date.
    heaps: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    for partition in sorted(free, key=lambda one: (len(readers[one.topic]), one)):
        group = tuple(readers[partition.topic])
        heap = heaps.get(group)
        if heap is None:
            heap = heaps[group] = sorted(map(load, group))
        while heap[0] != load(heap[0][1]):
            heapq.heapreplace(heap, load(heap[0][1]))
        consumer = heap[0][1]
        shares[consumer].add(partition)
        heapq.heapreplace(heap, load(consumer))
    while _move_one(shares, readers, load):
        pass
    return _sorted(shares)


def _move_one(
    shares: dict[str, set[TopicPartition]],
    readers: Mapping[str, list[str]],
    load: Callable[[str], tuple[int, str]],
) -> bool:
    """One partition from the fullest consumer that can give one to somebody with two less; False if none can."""
    sizes = [len(share) for share in shares.values()]
    if not sizes or max(sizes) - min(sizes) <= 1:
        return False
    for giver in sorted(shares, key=load, reverse=True):
        topics = sorted({partition.topic for partition in shares[giver]})
        if not topics:
            return False
        taker = min((min(readers[topic], key=load) for topic in topics), key=load)
        if len(shares[giver]) - len(shares[taker]) >= 2:
            topic = next(topic for topic in topics if taker in readers[topic])
            moved = max(partition for partition in shares[giver] if partition.topic == topic)
            shares[giver].remove(moved)
            shares[taker].add(moved)
            return True
    return False


Strategy = Callable[[Subscriptions, Sizes, Mapping[TopicPartition, str]], Assignment]

RANGE = "range"
STRATEGIES: dict[str, Strategy] = {RANGE: assign_range, "roundrobin": assign_round_robin, "sticky": assign_sticky}
"""By the names that registrations and plans carry."""


def _readers(subscriptions: Subscriptions, topic: str) -> list[str]:
    """CT of the paper."""
    return sorted(consumer for consumer, topics in subscriptions.items() if topic in topics)


def _partitions(sizes: Sizes) -> Iterable[TopicPartition]:
    return (TopicPartition(topic, index) for topic in sorted(sizes) for index in range(sizes[topic]))


def _sorted(shares: Mapping[str, Collection[TopicPartition]]) -> Assignment:
    return {consumer: tuple(sorted(share)) for consumer, share in shares.items()}
