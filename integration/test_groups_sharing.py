"""Consumer groups of every client: members share the partitions, come, leave and die, and no record is missed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.embedded_zookeeper import EmbeddedZooKeeper
from integration.admin import create_topic
from integration.conftest import EXTERNAL, fresh_name
from integration.group_members import KINDS, Member, describe, members, produce, wait_for, wait_shared, wait_told
from integration.processes import Broker

PARTITIONS = 4


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose new groups do not wait long for more members."""
    if EXTERNAL:
        yield EXTERNAL
        return
    server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
    settings = {"zookeeper.session.timeout.ms": "6000", "group.initial.rebalance.delay.ms": "200"}
    broker = Broker(tmp_path_factory.mktemp("groups"), f"{server.connect}/{fresh_name('groups')}", settings=settings)
    broker.start()
    try:
        yield broker.bootstrap
        assert not [line for line in broker.log_lines() if "Traceback" in line or " ERROR " in line]
    finally:
        broker.kill()


def _values(*some: Member) -> list[str]:
    return sorted(value for one in some for value in one.values())


def _wait_values(wanted: list[str], *some: Member) -> None:
    wait_for("all records", lambda: set(_values(*some)), lambda seen: seen >= set(wanted))


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_partitions_and_take_over_from_one_that_leaves_and_one_that_dies(
    bootstrap: str, kind: str, tmp_path: Path
) -> None:
    """One member, two, three; one leaves, one is killed: every record arrives, and the last one has all partitions."""
    topic, group = fresh_name("shared"), fresh_name(kind)
    create_topic(bootstrap, topic, PARTITIONS)
    written = produce(bootstrap, topic, PARTITIONS, 0, 100)
    with members(bootstrap, group, topic, tmp_path) as member:
        first = member(kind)
        wait_shared(bootstrap, group, [4])
        _wait_values(written, first)
        second, third = member(kind), member(kind)
        wait_shared(bootstrap, group, [2, 1, 1])
        more = produce(bootstrap, topic, PARTITIONS, 100, 200)
        _wait_values(more, first, second, third)
        assert all(one.values() for one in (second, third)), "each has partitions with records"
        second.stop()
        wait_shared(bootstrap, group, [2, 2], timeout=20)
        third.kill()
        wait_shared(bootstrap, group, [4], timeout=25)
        last = produce(bootstrap, topic, PARTITIONS, 300, 50)
        _wait_values(last, first)
        got = _values(first, second, third)
        assert len(got) <= len(set(got)) + 200, "what was committed is not delivered again"
        first.stop()
    assert describe(bootstrap, group).state == "Empty"


@pytest.mark.slow
def test_clients_of_different_kinds_share_one_group(bootstrap: str, tmp_path: Path) -> None:
    """They agree on `range`; whoever leads assigns the others."""
    topic, group = fresh_name("mixed"), fresh_name("mixed")
    create_topic(bootstrap, topic, 8)
    with members(bootstrap, group, topic, tmp_path) as member:
        some = [member(kind) for kind in ("confluent-range,roundrobin", "kafka-python", "java", "kcat")]
        wait_shared(bootstrap, group, [2, 2, 2, 2], timeout=60)
        written = produce(bootstrap, topic, 8, 0, 400)
        _wait_values(written, *some)
        assert all(one.values() for one in some)
        some[0].stop()
        wait_shared(bootstrap, group, [3, 3, 2])


def test_static_member_that_restarts_disturbs_nobody(bootstrap: str, tmp_path: Path) -> None:
    """It has its partitions again, and the other one sees no rebalance at all."""
    topic, group = fresh_name("static"), fresh_name("static")
    create_topic(bootstrap, topic, PARTITIONS)
    with members(bootstrap, group, topic, tmp_path) as member:
        one = member("confluent-range", "one")
        wait_shared(bootstrap, group, [4])
        two = member("confluent-range", "two")
        before = wait_shared(bootstrap, group, [2, 2])
        (told, _) = wait_told([one, two], 2)
        two.kill()
        again = member("confluent-range", "two")
        wait_for("the assignment of the member that is back", again.assignments, lambda seen: bool(seen and seen[-1]))
        after = wait_shared(bootstrap, group, [2, 2])
        assert again.assignments()[-1] == two.assignments()[-1]
        assert sorted(after.members.values()) == sorted(before.members.values())
        assert one.assignments() == told


def test_second_process_with_the_same_instance_fences_the_first(bootstrap: str, tmp_path: Path) -> None:
    """The older one is told, and stops."""
    topic, group = fresh_name("fenced"), fresh_name("fenced")
    create_topic(bootstrap, topic, 1)
    with members(bootstrap, group, topic, tmp_path) as member:
        older = member("confluent-range", "same")
        wait_shared(bootstrap, group, [1])
        newer = member("confluent-range", "same")
        wait_for("the newer one has the partition", newer.assignments, lambda seen: seen == ["0"])
        wait_for(
            "the older one is fenced",
            older.lines,
            lambda seen: any("fenced" in line for line in seen),
        )
