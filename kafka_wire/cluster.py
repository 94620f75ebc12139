"""The brokers of one cluster as a Twisted client sees them: bootstrap, metadata, who leads a partition."""

import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred

from kafka_wire.apis import Api
from kafka_wire.errors import BrokerNotAvailable, KafkaError, NetworkException, RequestTimedOut
from kafka_wire.exchange import parse_bootstrap
from kafka_wire.ids import TopicPartition
from kafka_wire.metadata_view import MetadataView
from kafka_wire.peer import Peer, PeerState
from kafka_wire.schema.metadata import MetadataRequest, MetadataRequestTopic

MakePeer = Callable[[str, int], Peer]


class _Question(NamedTuple):
    """A Metadata request: which topics (None: all), and whether they may be created."""

    names: tuple[str, ...] | None
    create: bool


class Cluster:
    """A Peer for each broker that is asked, and the metadata, kept until refreshed.

    Deferreds end as Peer.request's do, and with BrokerNotAvailable for a broker that no metadata names. Error codes
    inside a response are the caller's to look at; after a retriable one, ask for `metadata(..., refresh=True)`.
    """

    def __init__(
        self,
        reactor: Any,
        bootstrap: str,
        client_id: str | None = "barnabas",
        *,
        timeout: float = 30.0,
        make_peer: MakePeer | None = None,
        shuffle: Callable[[list[Any]], None] = random.shuffle,
    ) -> None:
        self.view = MetadataView()
        self._bootstrap = parse_bootstrap(bootstrap)
        self._make_peer = make_peer or (lambda host, port: Peer(reactor, host, port, client_id, timeout=timeout))
        self._shuffle = shuffle
        self._peers: dict[tuple[str, int], Peer] = {}
        self._refreshing: dict[_Question, list[Deferred[MetadataView]]] = {}
        self._closed = False

    def request(
        self,
        api: Api,
        body: Any,
        broker_id: int | None = None,
        *,
        timeout: float | None = None,
        max_version: int | None = None,
    ) -> "Deferred[Any]":
        """The response from one broker; without an id, from the first that can be reached.

        Without an id a request may reach more than one broker, when the first does not answer it: only for requests
        that may be repeated.
        """
        if broker_id is None:
            return Deferred.fromCoroutine(self._ask_any(api, body, timeout, max_version))
        return Deferred.fromCoroutine(self._ask(broker_id, api, body, timeout, max_version))

    def metadata(
        self, topics: Iterable[str] | None = None, refresh: bool = False, *, create: bool = False
    ) -> "Deferred[MetadataView]":
        """The view with at least these topics asked for (None: all). With `create` the broker may create them, if its
        settings allow that. Equal questions under way at the same time are asked once."""
        question = _Question(None if topics is None else tuple(sorted(set(topics))), create)
        waiter: Deferred[MetadataView] = Deferred()
        if not refresh and self._covers(question.names):
            waiter.callback(self.view)
        elif question in self._refreshing:
            self._refreshing[question].append(waiter)
        else:
            self._refreshing[question] = [waiter]
            Deferred.fromCoroutine(self._refresh(question)).addBoth(self._refreshed, question)
        return waiter

    def leader(self, tp: TopicPartition) -> "Deferred[int]":
        """The broker leading a partition; what is unknown or without a leader is asked for once more, then raised."""
        return Deferred.fromCoroutine(self._leader(tp))

    def close(self) -> None:
        """Close every connection and fail what waits; later requests fail too."""
        self._closed = True
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close()

    def _covers(self, names: tuple[str, ...] | None) -> bool:
        return self.view.complete if names is None else all(name in self.view.topics for name in names)

    def _peer(self, host: str, port: int) -> Peer:
        if self._closed:
            raise NetworkException("the cluster client is closed")
        peer = self._peers.get((host, port))
        if peer is None:
            peer = self._peers[(host, port)] = self._make_peer(host, port)
        return peer

    async def _ask(self, broker_id: int, api: Api, body: Any, timeout: float | None, max_version: int | None) -> Any:
        try:
            address = self.view.address(broker_id)
        except BrokerNotAvailable:
            address = (await self.metadata((), refresh=True)).address(broker_id)
        peer = self._peer(address.host, address.port)
        return await peer.request(api, body, timeout=timeout, max_version=max_version)

    async def _ask_any(self, api: Api, body: Any, timeout: float | None, max_version: int | None) -> Any:
        failures: list[str] = []
        for host, port in self._candidates():
            try:
                peer = self._peer(host, port)
                return await peer.request(api, body, timeout=timeout, max_version=max_version)
            except (NetworkException, RequestTimedOut) as error:
                failures.append(str(error))
                if self._closed:
                    break
        raise NetworkException("no broker can be reached: " + "; ".join(failures))

    def _candidates(self) -> list[tuple[str, int]]:
        """Connected brokers first, then the known, then the bootstrap ones, each group in random order."""
        ready = [address for address, peer in self._peers.items() if peer.state is PeerState.READY]
        known = [(broker.host, broker.port) for broker in self.view.brokers.values()]
        bootstrap = list(self._bootstrap)
        for group in (ready, known, bootstrap):
            self._shuffle(group)
        return list(dict.fromkeys(ready + known + bootstrap))

    async def _refresh(self, question: _Question) -> MetadataView:
        names, create = question
        wanted = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        body = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        response = await self.request(Api.METADATA, body)
        self.view = self.view.merged(MetadataView.of(response, complete=names is None))
        self._forget_strangers()
        return self.view

    def _refreshed(self, result: Any, question: _Question) -> None:
        for waiter in self._refreshing.pop(question):
            if not waiter.called:
                waiter.callback(result)

    def _forget_strangers(self) -> None:
        """Close connections to addresses that are no broker's any more, unless they are the bootstrap's."""
        kept = {(broker.host, broker.port) for broker in self.view.brokers.values()} | set(self._bootstrap)
        for address in [address for address in self._peers if address not in kept]:
            self._peers.pop(address).close()

    async def _leader(self, tp: TopicPartition) -> int:
        view = await self.metadata([tp.topic])
        try:
            return view.leader(tp)
        except KafkaError as error:
            if not error.retriable:
                raise
        view = await self.metadata([tp.topic], refresh=True)
        return view.leader(tp)
