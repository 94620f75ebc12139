"""The brokers as the consumer reaches them: found through ZooKeeper, asked for offsets by time or by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from consumer_group.asynchronous import spawn, together
from consumer_group.logs import logger
from consumer_group.types import OffsetAndTimestamp
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.cluster import Cluster
from kafka_wire.errors import BrokerNotAvailable, KafkaError, NetworkException
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import MetadataView
from kafka_wire.schema.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from zk_schema import paths
from zk_schema.nodes import BadNode, BrokerRegistration
from zk_schema.operations import CoordinationError, NoNode

log = logger()

PLAINTEXT = "PLAINTEXT"
NO_OFFSET = -1


class Brokers:
    """A Cluster whose bootstrap is the broker registry (P34): whoever is registered now."""

    def __init__(
        self,
        reactor: Any,
        session: Any,
        client_id: str,
        timeout: float,
        make_cluster: Callable[..., Cluster] = Cluster,
    ) -> None:
        self._reactor = reactor
        self._session = session
        self._client_id = client_id
        self._timeout = timeout
        self._make_cluster = make_cluster
        self._cluster: Cluster | None = None
        self._closed = False

    @property
    def view(self) -> MetadataView:
        """What was last known."""
        return MetadataView() if self._cluster is None else self._cluster.view

    async def cluster(self) -> Cluster:
        """The cluster. BrokerNotAvailable while no broker is registered, or ZooKeeper does not say."""
        if self._closed:
            raise NetworkException("the consumer is closed")
        if self._cluster is None:
            bootstrap = await self._registered()
            if self._cluster is None:
                self._cluster = self._make_cluster(self._reactor, bootstrap, self._client_id, timeout=self._timeout)
        return self._cluster

    async def metadata(self, topics: Iterable[str], refresh: bool = False) -> MetadataView:
        """The view with these topics. When nobody answers, the registry is read again for the next time."""
        cluster = await self.cluster()
        try:
            return await cluster.metadata(topics, refresh)
        except NetworkException:
            if self._cluster is cluster:
                self._cluster = None
                cluster.close()
            raise

    async def request(self, broker_id: int, api: Api, body: Any, timeout: float | None = None, **options: Any) -> Any:
        """The response of one broker."""
        cluster = await self.cluster()
        return await cluster.request(api, body, broker_id, timeout=timeout, **options)

    def close(self) -> None:
        """Hang up."""
        self._closed = True
        if self._cluster is not None:
            self._cluster.close()

    async def _registered(self) -> str:
        found: list[str] = []
        try:
            for name in await self._session.children(paths.BROKER_IDS):
                try:
                    data, _ = await self._session.get(f"{paths.BROKER_IDS}/{name}")
                    registration = BrokerRegistration.decode(int(name), data)
                except (NoNode, BadNode, ValueError) as problem:
                    log.debug("broker {name}: {problem}", name=name, problem=str(problem))
                    continue
                plain = [one for one in registration.endpoints if one.protocol == PLAINTEXT]
                found += [f"[{one.host}]:{one.port}" if ":" in one.host else f"{one.host}:{one.port}" for one in plain]
        except CoordinationError as problem:
            raise BrokerNotAvailable(f"the broker registry cannot be read: {problem}") from None
        if not found:
            raise BrokerNotAvailable("no broker is registered in ZooKeeper with a plaintext listener")
        return ",".join(found)

    # --- offsets by time ---

    async def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """What ListOffsets says, None where there is nothing so late. Those whose leader could not be asked are left
        out, and their metadata is asked for anew; KafkaError if that is all of them."""
        return await self.offsets_at(dict.fromkeys(partitions, timestamp))

    async def offsets_at(
        self, times: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The same with a time for each."""
        if not times:
            return {}
        topics = sorted({partition.topic for partition in times})
        view = await self.metadata(topics)
        by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
        problem: KafkaError | None = None
        for partition, timestamp in times.items():
            try:
                leader, epoch = view.leader(partition), view.partition(partition).leader_epoch
            except KafkaError as error:
                problem = error
                continue
            asked = by_leader.setdefault(leader, {}).setdefault(partition.topic, [])
            asked.append(ListOffsetsPartition(partition.partition, epoch, timestamp))
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        problems = await together([spawn(self._ask(leader, asked, found)) for leader, asked in by_leader.items()])
        problem = next((one for one in problems if one is not None), problem)
        if problem is not None:
            if not found and not problem.retriable:
                raise problem
            await self.metadata(topics, refresh=True)
            if not found:
                raise problem
        return found

    async def _ask(
        self,
        leader: int,
        topics: dict[str, list[ListOffsetsPartition]],
        found: dict[TopicPartition, OffsetAndTimestamp | None],
    ) -> KafkaError | None:
        body = ListOffsetsRequest(topics=[ListOffsetsTopic(name, asked) for name, asked in topics.items()])
        try:
            response = await self.request(leader, Api.LIST_OFFSETS, body)
        except KafkaError as error:
            return error
        problem: KafkaError | None = None
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                if answer.error_code:
                    kind = errors.for_code(answer.error_code)
                    problem = kind(f"{partition}: {kind.name}")
                elif answer.offset == NO_OFFSET:
                    found[partition] = None
                else:
                    found[partition] = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
        return problem
