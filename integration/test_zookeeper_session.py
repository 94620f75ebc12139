"""Promises of `zk_schema.session` against a real ZooKeeper: sessions, fences, watches and the lease."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kazoo.client import KazooClient
from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.threads import blockingCallFromThread

from barnabas.embedded_zookeeper import EmbeddedZooKeeper, ZooKeeperUnavailable, find_jars, find_java, free_port
from zk_schema.operations import (
    MAX_MULTI_BYTES,
    BadVersion,
    Check,
    Create,
    Delete,
    MultiTooLarge,
    NodeExists,
    NoNode,
    SessionExpired,
    Set,
)
from zk_schema.session import Session, SessionState, WatchEvent

TICK_MS = 500
WAIT = 20.0
T = TypeVar("T")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """One server for all tests of this file; every test uses paths of its own."""
    try:
        find_java(), find_jars()
    except ZooKeeperUnavailable as problem:
        pytest.skip(str(problem))
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port(), tick_ms=TICK_MS) as server:
        yield server


@pytest.fixture(scope="module")
def reactor() -> Iterator[Any]:
    """A reactor of our own in a thread, so that tests may block."""
    running = EPollReactor()  # type: ignore[no-untyped-call]
    thread = threading.Thread(target=running.run, kwargs={"installSignalHandlers": False}, daemon=True)
    thread.start()
    yield running
    running.callFromThread(running.stop)
    thread.join(WAIT)


class Driver:
    """Blocking calls to a Session, and what it told its listeners."""

    def __init__(self, reactor: Any, connect: str, timeout_ms: int = 4000) -> None:
        self.reactor = reactor
        self.session = Session(reactor, connect, timeout_ms)
        self.states: queue.Queue[SessionState] = queue.Queue()
        self.session.add_listener(self.states.put)

    def __call__(self, method: Callable[..., Deferred[T]], *arguments: Any, **named: Any) -> T:
        """The result of a Deferred-returning method."""
        call: Callable[..., Any] = method
        answer: T = blockingCallFromThread(self.reactor, call, *arguments, **named)
        return answer

    def expect(self, state: SessionState) -> None:
        """Waits until the listeners were told `state`."""
        while self.states.get(timeout=WAIT) is not state:
            pass

    def expire(self, connect: str) -> None:
        """Ends the session at the server: a second client takes it over by id and password, and closes it."""
        life = self.session._life
        assert life is not None
        thief = KazooClient(hosts=connect, client_id=life.client.client_id)
        thief.start(timeout=WAIT)
        thief.stop()
        thief.close()


@pytest.fixture
def drivers(reactor: Any, zookeeper: EmbeddedZooKeeper) -> Iterator[Callable[..., Driver]]:
    """Makes started drivers and stops them at the end."""
    made: list[Driver] = []

    def make(timeout_ms: int = 4000, chroot: str = "") -> Driver:
        driver = Driver(reactor, zookeeper.connect + chroot, timeout_ms)
        made.append(driver)
        driver(driver.session.start, WAIT)
        return driver

    yield make
    for driver in made:
        driver(driver.session.stop)


def test_start_tells_new_session_and_has_an_id(drivers: Callable[..., Driver]) -> None:
    """A started session has an id, is connected, and its listeners heard of it."""
    driver = drivers()
    driver.expect(SessionState.NEW_SESSION)
    assert driver.session.connected
    assert driver.session.session_id


def test_timeout_above_the_servers_limit_is_seen_as_negotiated(drivers: Callable[..., Driver]) -> None:
    """Asking for 18 s where the server grants 10 s gives 10 s, and the lease is computed from that."""
    driver = drivers(timeout_ms=18_000)
    assert driver.session.negotiated_timeout_ms == 20 * TICK_MS
    assert driver.session.lease_valid()
    left = driver.session.lease_until - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert left <= 20 * TICK_MS / 1000 - 1.0


def test_heartbeats_move_the_lease(drivers: Callable[..., Driver]) -> None:
    """While ZooKeeper answers the lease moves on by itself."""
    driver = drivers(timeout_ms=1000)
    before, deadline = driver.session.lease_until, time.monotonic() + WAIT
    while driver.session.lease_until == before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert driver.session.lease_until > before


def test_single_calls_answer_as_documented(drivers: Callable[..., Driver]) -> None:
    """Create, read, versioned set and delete work, and failures are of our own classes."""
    driver = drivers()
    session = driver.session
    assert driver(session.create, "/single", b"a") == "/single"
    data, stat = driver(session.get, "/single")
    assert (data, stat.version, stat.ephemeral_owner) == (b"a", 0, 0)
    assert driver(session.set, "/single", b"b", 0).version == 1
    with pytest.raises(BadVersion):
        driver(session.set, "/single", b"c", 0)
    with pytest.raises(NodeExists):
        driver(session.create, "/single")
    assert driver(session.create, "/single/n-", sequence=True) == "/single/n-0000000000"
    assert driver(session.children, "/single") == ["n-0000000000"]
    with pytest.raises(NoNode):
        driver(session.delete, "/absent")
    assert driver(session.exists, "/absent") is None
    driver(session.sync, "/")


def test_multi_is_applied_whole_with_one_zxid(drivers: Callable[..., Driver]) -> None:
    """A multi answers per operation, and its parts share one transaction (F1)."""
    driver = drivers()
    session = driver.session
    driver(session.create, "/whole", b"a")
    results = driver(
        session.multi, [Check("/whole", 0), Set("/whole", b"b", 0), Create("/whole/c-", b"", sequence=True)]
    )
    assert results[1].version == 1
    assert results[2] == "/whole/c-0000000000"
    change = driver(session.exists, results[2])
    assert change is not None
    assert change.czxid == results[1].mzxid


def test_failing_multi_names_its_operation_and_changes_nothing(drivers: Callable[..., Driver]) -> None:
    """The error of a multi carries the operation that failed, not its rolled-back neighbours."""
    driver = drivers()
    session = driver.session
    driver(session.create, "/named", b"a")
    wrong = Set("/named", b"c", 7)
    with pytest.raises(BadVersion) as caught:
        driver(session.multi, [Create("/named/x"), wrong, Delete("/named")])
    assert (caught.value.operation, caught.value.index, caught.value.path) == (wrong, 1, "/named")
    assert driver(session.exists, "/named/x") is None


def test_too_large_multi_is_refused_before_sending(drivers: Callable[..., Driver]) -> None:
    """A multi above the limit fails by itself; the connection lives on, which it would not had it been sent (F5)."""
    driver = drivers()
    session = driver.session
    with pytest.raises(MultiTooLarge):
        driver(session.multi, [Create(f"/large-{number}", bytes(MAX_MULTI_BYTES // 4)) for number in range(4)])
    assert driver.session.connected
    assert driver(session.exists, "/large-0") is None


def test_ephemeral_is_gone_when_stop_fires(drivers: Callable[..., Driver]) -> None:
    """Whoever waits for `stop` finds no ephemeral node of that session."""
    leaving, staying = drivers(), drivers()
    leaving(leaving.session.create, "/short", b"", ephemeral=True)
    stat = staying(staying.session.exists, "/short")
    assert stat is not None
    assert stat.ephemeral_owner == leaving.session.session_id
    leaving(leaving.session.stop)
    staying(staying.session.sync, "/")
    assert staying(staying.session.exists, "/short") is None
    with pytest.raises(SessionExpired):
        leaving(leaving.session.get, "/")


def test_expired_session_is_followed_by_a_new_one(drivers: Callable[..., Driver], zookeeper: EmbeddedZooKeeper) -> None:
    """After expiry listeners hear LOST, then NEW_SESSION, and calls work again under another id."""
    driver = drivers()
    driver.expect(SessionState.NEW_SESSION)
    former = driver.session.session_id
    driver(driver.session.create, "/expiring", b"", ephemeral=True)
    driver.expire(zookeeper.connect)
    driver.expect(SessionState.LOST)
    driver.expect(SessionState.NEW_SESSION)
    assert driver.session.session_id not in (None, former)
    assert driver.session.lease_valid()
    assert driver(driver.session.exists, "/expiring") is None


def test_watch_fires_once_with_its_session(drivers: Callable[..., Driver]) -> None:
    """A watch tells kind, path and session."""
    driver = drivers()
    events: queue.Queue[WatchEvent] = queue.Queue()
    driver(driver.session.create, "/watched", b"")
    driver(driver.session.get, "/watched", events.put)
    driver(driver.session.set, "/watched", b"x", 0)
    assert driver.session.session_id is not None
    assert events.get(timeout=WAIT) == WatchEvent("changed", "/watched", driver.session.session_id)


def test_watches_of_an_old_session_are_dropped(drivers: Callable[..., Driver], zookeeper: EmbeddedZooKeeper) -> None:
    """A watch armed before expiry stays silent afterwards, one armed in the new session does not."""
    driver = drivers()
    old: queue.Queue[WatchEvent] = queue.Queue()
    new: queue.Queue[WatchEvent] = queue.Queue()
    driver(driver.session.create, "/dropped", b"")
    driver(driver.session.get, "/dropped", old.put)
    driver.expect(SessionState.NEW_SESSION)
    driver.expire(zookeeper.connect)
    driver.expect(SessionState.NEW_SESSION)
    driver(driver.session.get, "/dropped", new.put)
    driver(driver.session.set, "/dropped", b"x", 0)
    assert new.get(timeout=WAIT).session_id == driver.session.session_id
    assert old.empty()


def test_event_that_a_dead_session_left_behind_is_dropped(drivers: Callable[..., Driver]) -> None:
    """An event already on its way to the reactor when its session ends does not reach the watch."""
    driver = drivers()
    events: list[WatchEvent] = []

    class Late:
        type = "CHANGED"
        path = "/late"

    armed = driver.session._armed(events.append)
    assert armed is not None
    driver(driver.session.stop)
    armed(Late())
    blockingCallFromThread(driver.reactor, lambda: None)
    assert events == []


def test_calls_under_way_fail_when_the_session_ends(drivers: Callable[..., Driver]) -> None:
    """No Deferred is left hanging by `stop`."""
    driver = drivers()
    ended: queue.Queue[Any] = queue.Queue()

    def start_and_stop() -> Deferred[None]:
        driver.session.get("/").addBoth(ended.put)
        return driver.session.stop()

    driver(start_and_stop)
    assert ended.get(timeout=WAIT).check(SessionExpired)


def test_outage_suspends_and_the_same_session_comes_back(reactor: Any, tmp_path: Path) -> None:
    """A restart of ZooKeeper within the timeout keeps the session and its ephemeral nodes."""
    server = EmbeddedZooKeeper(tmp_path, free_port(), tick_ms=TICK_MS)
    with server:
        driver = Driver(reactor, server.connect, 10_000)
        driver(driver.session.start, WAIT)
        session_id = driver.session.session_id
        driver(driver.session.create, "/kept", b"", ephemeral=True)
        server.stop()
        driver.expect(SessionState.SUSPENDED)
        server.start()
        server.wait_ready()
        driver.expect(SessionState.CONNECTED)
        assert driver.session.session_id == session_id
        stat = driver(driver.session.exists, "/kept")
        assert stat is not None
        assert stat.ephemeral_owner == session_id
        driver(driver.session.stop)


def test_chroot_is_made_at_the_first_session(drivers: Callable[..., Driver]) -> None:
    """`host:port/path` works on an empty ZooKeeper."""
    inside, outside = drivers(chroot="/rooms/one"), drivers()
    inside(inside.session.create, "/x", b"1")
    assert outside(outside.session.get, "/rooms/one/x")[0] == b"1"


def test_start_without_a_server_fails_in_time(reactor: Any) -> None:
    """Nobody listens: `start` says so instead of waiting for ever."""
    driver = Driver(reactor, f"127.0.0.1:{free_port()}")
    with pytest.raises(Exception, match=r"no ZooKeeper session .* within 0.5 s"):
        driver(driver.session.start, 0.5)
