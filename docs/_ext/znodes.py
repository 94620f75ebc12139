"""Every kind of node in ZooKeeper with a real example: the bytes are written by the code that brokers use."""

from __future__ import annotations

from typing import Any, Protocol

from docs._ext.generated import Generated, code, table
from zk_schema import nodes, paths

TOPIC_ID = bytes(range(16))
STATE = nodes.PartitionState(leader=1, leader_epoch=4, isr=(1, 2), controller_epoch=7)
PERSISTENT, EPHEMERAL, SEQUENTIAL = "persistent", "ephemeral", "persistent, numbered"


class Node(Protocol):
    """What has bytes to show."""

    def encode(self) -> bytes:
        """The node's data."""


Row = tuple[str, str, str, Node | None]
"""Path, kind, text, example."""

BROKERS: tuple[Row, ...] = (
    (
        "/brokers/ids/<broker>",
        EPHEMERAL,
        "A living broker with its advertised addresses. ``epoch`` is ours: the version of its incarnation node.",
        nodes.BrokerRegistration(1, (nodes.Endpoint("PLAINTEXT", "PLAINTEXT", "10.0.0.1", 9092),), 1700000000000, 3),
    ),
    (
        "/barnabas/brokers/<broker>",
        PERSISTENT,
        "The incarnation: its *version* is the broker's epoch, which fences what an earlier life of it still sends. "
        "``suspect`` lists partitions whose log may have lost records.",
        nodes.Incarnation(1, False, (("logs", 0),)),
    ),
    (paths.CONTROLLER, EPHEMERAL, "Who is the controller.", nodes.ControllerNode(1, 1700000000000)),
    (
        paths.CONTROLLER_EPOCH,
        PERSISTENT,
        "Grows with every controller; every write of a controller checks its version.",
        nodes.ControllerEpoch(7),
    ),
    (
        paths.CLUSTER_ID,
        PERSISTENT,
        "The cluster's id, also in each log dir.",
        nodes.ClusterId(nodes.uuid_text(TOPIC_ID)),
    ),
    (
        paths.PRODUCER_ID_BLOCK,
        PERSISTENT,
        "The last block of producer ids that was given out.",
        nodes.ProducerIdBlock(1, 0, 999),
    ),
    (
        "/config/brokers/<broker>",
        PERSISTENT,
        "Settings of a broker, or of all (``<default>``), that were made while they ran.",
        nodes.EntityConfig(paths.broker_config("1"), {"message.max.bytes": "2000000"}),
    ),
    (
        paths.BROKER_SEQUENCE,
        PERSISTENT,
        "Empty: its version is the last number that was given to a broker without an id.",
        None,
    ),
    (paths.LEASE, PERSISTENT, "Empty: what brokers read to know that their session lives.", None),
)
TOPICS: tuple[Row, ...] = (
    (
        "/brokers/topics/<topic>",
        PERSISTENT,
        "The topic's id and the replicas of each partition, the preferred leader first.",
        nodes.TopicAssignment("logs", TOPIC_ID, {0: (1, 2), 1: (2, 1)}),
    ),
    ("/brokers/topics/<topic>/partitions/<partition>/state", PERSISTENT, "Leader, epochs and in-sync replicas.", STATE),
    (
        "/config/topics/<topic>",
        PERSISTENT,
        "The topic's own settings, as text.",
        nodes.topic_config("logs", {"retention.ms": "86400000"}),
    ),
    (
        paths.CONFIG_CHANGE_PREFIX + "<number>",
        SEQUENTIAL,
        "Says that settings changed; only a trigger.",
        nodes.ConfigChange("topics/logs"),
    ),
    (
        paths.CHANGE_PREFIX + "<number>",
        SEQUENTIAL,
        "What one multi changed, complete, so that brokers need not read the states again.",
        nodes.Change("states", "logs", TOPIC_ID, {0: nodes.VersionedState(STATE, 5)}),
    ),
    (
        "/barnabas/deleted/<topic id>",
        PERSISTENT,
        "A tombstone. The only reason, besides retention and reassignment, for which a broker deletes data.",
        nodes.Tombstone(TOPIC_ID, "logs", 1700000000000),
    ),
    (
        "/admin/delete_topics/<topic>",
        PERSISTENT,
        "A wish of a tool of the ZooKeeper age that a topic be deleted.",
        None,
    ),
)


class Znodes(Generated):
    """Rows of one group: `brokers` or `topics`."""

    required_arguments = 1

    def make(self) -> str:
        group = {"brokers": BROKERS, "topics": TOPICS}[self.arguments[0]]
        rows = [
            (code(path), kind, text, code("" if node is None else node.encode().decode()))
            for path, kind, text, node in group
        ]
        return table(("Path", "Kind", "What it is", "Example"), rows, "24 10 30 36")


class GroupNodes(Generated):
    """The registries of a consumer group."""

    def make(self) -> str:
        group, topic = "<group>", "<topic>"
        base = f"{paths.CONSUMERS}/{group}"
        rows = [
            (
                f"{base}/ids/<member>",
                EPHEMERAL,
                "A member and what it subscribes to; the name is new for every session.",
            ),
            (f"{base}/owners/{topic}/<partition>", EPHEMERAL, "Which member owns the partition."),
            (f"{base}/offsets/{topic}/<partition>", PERSISTENT, "Next offset to read, as decimal text."),
            (f"{base}/offsets/{topic}", PERSISTENT, "The topic's id, so that a re-created topic is noticed."),
            (
                f"{base}/offset_meta/{topic}/<partition>",
                PERSISTENT,
                "Leader epoch and metadata of a commit, where there are any.",
            ),
            (f"{base}/plan", PERSISTENT, "The inputs from which every member computes its share."),
            (f"{base}/group", PERSISTENT, "The truth of a group that uses the JoinGroup protocol."),
        ]
        return table(
            ("Path", "Kind", "What it is"), [(code(path), kind, text) for path, kind, text in rows], "40 12 48"
        )


def setup(app: Any) -> dict[str, bool]:
    """Registers the directives."""
    app.add_directive("znodes", Znodes)
    app.add_directive("group-znodes", GroupNodes)
    return {"parallel_read_safe": True}
