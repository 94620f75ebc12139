"""Numbers for brokers that have none, before there is a reactor: the one blocking use of ZooKeeper.

As Kafka's brokers do it: the data of /brokers/seqid is written, and the version that this gives is the number. So no
two brokers, ours or Kafka's, ever get the same one.
"""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from zk_schema import paths
from zk_schema.operations import ConnectionLost, CoordinationError


def next_number(connect: str, timeout: float) -> int:
    """The next number, from 1 on. ConnectionLost if there is no session within `timeout` seconds."""
    hosts, slash, root = connect.partition("/")
    path = f"{slash}{root}".rstrip("/") + paths.BROKER_SEQUENCE
    client = KazooClient(hosts=hosts)
    try:
        client.start(timeout)
        client.ensure_path(path)
        return int(client.set(path, b"").version)
    except KazooTimeoutError as problem:
        raise ConnectionLost(f"no ZooKeeper session with {connect} within {timeout:g} s") from problem
    except KazooException as problem:
        raise CoordinationError(f"{path}: {type(problem).__name__} {problem}") from problem
    finally:
        client.stop()
        client.close()
