"""Hostile bytes against a real broker: no crash, no hang, bounded memory, and a normal client is served all the while.

100,000 frames in CI (about a minute and a half); the long run is

    BARNABAS_FUZZ=1000000 scripts/test integration/test_fuzz.py

Each frame has a connection of its own with a harmless request behind it. The broker has read the frame when it answers
that request or closes the connection; which of the two, or neither, is counted and checked: the run cannot be empty.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from integration.admin import create_topic
from integration.conftest import BrokerFactory
from integration.normal_client import NormalClient
from integration.processes import Broker
from integration.raw import RawConnection
from kafka_wire.apis import Api
from kafka_wire.messages import encode_request
from kafka_wire.schema.api_versions import ApiVersionsRequest
from kafka_wire.test.fuzzing import CASES, hostile_frame, valid_frame

FRAMES = int(os.environ.get("BARNABAS_FUZZ", "100000"))
TOPIC = "fuzz"
MEGABYTE = 1 << 20
ANSWER_SECONDS = 1.0
SENTINEL_ID = 0x5E47
_SENTINEL = b"".join(map(bytes, encode_request(Api.API_VERSIONS, 0, SENTINEL_ID, "sentinel", ApiVersionsRequest())))


@pytest.fixture
def target(brokers: BrokerFactory) -> Iterator[Broker]:
    """A broker of its own, with the topic that the frames name and the one of the normal client."""
    broker = brokers({"auto.create.topics.enable": "false", "connections.max.idle.ms": "20000"})
    broker.start()
    create_topic(broker.bootstrap, TOPIC)
    create_topic(broker.bootstrap, NormalClient.topic)
    yield broker
    assert broker.running(), f"the broker died:\n{broker.log_end()}"


def send_hostile(broker: Broker, frame: bytes) -> str:
    """One frame on a connection of its own, then a harmless request: `answered`, `closed` or `silent`."""
    with socket.create_connection((broker.host, broker.port), 10) as connection:
        # A reset instead of a long goodbye: otherwise a million connections would use up the ports.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.sendall(len(frame).to_bytes(4, "big") + frame + _SENTINEL)
            return "answered" if _sentinel_answered(connection) else "closed"
        except ConnectionError:
            return "closed"
        except TimeoutError:
            return "silent"


def _sentinel_answered(connection: socket.socket) -> bool:
    """Whether the broker answers the last request; False when it closes instead."""
    received = bytearray()
    while part := connection.recv(65536):
        received += part
        while len(received) >= 8:
            size, correlation_id = struct.unpack_from(">ii", received)
            if correlation_id == SENTINEL_ID:
                return True
            if len(received) < size + 4:
                break
            del received[: size + 4]
    return False


@pytest.mark.slow
@pytest.mark.timeout(300 + FRAMES // 300)
def test_hostile_frames_of_every_api_leave_the_broker_well(target: Broker) -> None:
    """Every API and version, spoiled in every way; some frames are sent in full, some cut in the middle."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    before, most, outcomes = target.rss(), 0, Counter[str]()
    with NormalClient(target.host, target.port) as client:
        for number in range(FRAMES):
            frame = hostile_frame(number, chance)
            if number % 50 == 0:
                send_truncated(target, frame, chance)
            else:
                outcomes[send_hostile(target, frame)] += 1
            if number % 1000 == 0:
                assert target.running(), f"seed {seed}, frame {number}:\n{target.log_end()}"
                most = max(most, target.rss())
    client.check(longest=3.0)
    print(dict(outcomes))
    assert outcomes["silent"] < FRAMES // 50, "the broker left many frames without an answer"
    assert min(outcomes["answered"], outcomes["closed"]) > FRAMES // 20, "the fuzzing does not bite"
    print(f"memory {before // MEGABYTE} MB before, {most // MEGABYTE} MB at most")
    assert most < before + 150 * MEGABYTE
    tracebacks = [line for line in target.log_lines() if "Traceback" in line]
    assert not tracebacks, f"seed {seed}: {len(tracebacks)} tracebacks in the log, {target.log_file}"


def send_truncated(broker: Broker, frame: bytes, chance: random.Random) -> None:
    """Announces a frame and goes away in the middle of it."""
    with socket.create_connection((broker.host, broker.port), 10) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        data = len(frame).to_bytes(4, "big") + frame
        with contextlib.suppress(ConnectionError):
            connection.sendall(data[: chance.randrange(len(data))])


def test_forged_lengths_cost_no_memory(target: Broker) -> None:
    """300 connections that announce as much as is allowed and send a few bytes; negative and larger ones are closed."""
    before = target.rss()
    with contextlib.ExitStack() as stack, NormalClient(target.host, target.port) as client:
        connections = [stack.enter_context(RawConnection(target.host, target.port)) for _ in range(300)]
        for connection in connections:
            connection.socket.sendall((100 * MEGABYTE).to_bytes(4, "big") + b"\0\x03\0\x09")
        for length in (-1, -(1 << 31), (1 << 31) - 1, 100 * MEGABYTE + 1):
            with RawConnection(target.host, target.port) as wrong:
                wrong.socket.sendall(struct.pack(">i", length) + bytes(20))
                assert wrong.closed_by_peer(), f"a frame of {length} bytes was not refused"
        time.sleep(0.5)
        assert target.rss() < before + 60 * MEGABYTE
    client.check(longest=2.0)


def test_unknown_apis_and_versions_close_only_their_connection(target: Broker) -> None:
    """Every key up to 100 and versions that nobody has."""
    with NormalClient(target.host, target.port) as client:
        for key in range(100):
            for version in (-1, 99, 32767):
                if key == Api.API_VERSIONS:
                    continue  # answered in version 0
                with RawConnection(target.host, target.port) as connection:
                    body = struct.pack(">hhih", key, version, 1, -1) + bytes(30)
                    connection.socket.sendall(len(body).to_bytes(4, "big") + body)
                    assert connection.closed_by_peer(), f"API {key} version {version}"
    client.check(longest=2.0)


def test_tls_http_and_noise_are_refused(target: Broker) -> None:
    """What a scanner or a misconfigured client sends first."""
    openings = [
        bytes.fromhex("16030100c8010000c40303") + bytes(200),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        random.randbytes(4096),
    ]
    for opening in openings:
        with RawConnection(target.host, target.port) as connection:
            connection.socket.sendall(b"\x7f" + opening)
            assert connection.closed_by_peer()


@pytest.mark.timeout(180)
def test_valid_requests_with_extreme_values_are_all_answered(target: Broker) -> None:
    """Every version that we list; only Produce may close, for acks=0 has no other way to tell of a failure."""
    chance = random.Random(20)
    with RawConnection(target.host, target.port) as connection:
        keys = connection.ask(Api.API_VERSIONS, 0, ApiVersionsRequest()).api_keys
    served = {(key.api_key, version) for key in keys for version in range(key.min_version, key.max_version + 1)}
    with NormalClient(target.host, target.port) as client:
        for api, version in CASES:
            allowed = {"answered", "closed"} if api is Api.PRODUCE or (api, version) not in served else {"answered"}
            for _ in range(5):
                assert send_hostile(target, valid_frame(api, version, chance)) in allowed, f"{api.name} {version}"
    client.check(longest=3.0)
    assert not [line for line in target.log_lines() if "Traceback" in line], target.log_end()
