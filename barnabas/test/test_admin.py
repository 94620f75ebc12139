"""What the admin verbs send, and how refusals come back."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas import admin
from barnabas.admin import Resource
from kafka_wire import errors
from kafka_wire.apis import Api
from kafka_wire.blocking import BlockingCluster
from kafka_wire.errors import InvalidPartitions, NotController, UnknownTopicOrPartition
from kafka_wire.metadata_view import BrokerAddress, MetadataView
from kafka_wire.schema.create_partitions import CreatePartitionsResponse, CreatePartitionsTopicResult
from kafka_wire.schema.create_topics import CreatableTopicResult, CreateTopicsResponse
from kafka_wire.schema.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kafka_wire.schema.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafka_wire.schema.incremental_alter_configs import AlterConfigsResourceResponse, IncrementalAlterConfigsResponse

BROKERS = {number: BrokerAddress(number, "host", 9092 + number, None) for number in (1, 2)}


class FakeCluster:
    """Answers in turn with what it was given, and keeps what it was asked."""

    def __init__(self, *answers: Any, controllers: tuple[int, ...] = (1,)) -> None:
        self.asked: list[tuple[Api, Any, int | None]] = []
        self._answers = list(answers)
        self._controllers = list(controllers)

    def metadata(self, topics: object = None, refresh: bool = False) -> MetadataView:
        controller = self._controllers.pop(0) if len(self._controllers) > 1 else self._controllers[0]
        return MetadataView(BROKERS, {}, controller_id=controller)

    def request(self, api: Api, body: Any, broker_id: int | None = None) -> Any:
        self.asked.append((api, body, broker_id))
        return self._answers.pop(0)


def _as_cluster(fake: FakeCluster) -> BlockingCluster:
    return cast(BlockingCluster, fake)


def _created(code: int = 0, message: str | None = None) -> CreateTopicsResponse:
    result = CreatableTopicResult(
        name="t", error_code=code, error_message=message, num_partitions=3, replication_factor=2
    )
    return CreateTopicsResponse(topics=(result,))


def test_topic_is_created_at_the_controller() -> None:
    """Kafka takes it nowhere else."""
    fake = FakeCluster(_created(), controllers=(2,))
    assert admin.create_topic(_as_cluster(fake), "t", configs={"retention.ms": "1"}) == (3, 2)
    api, request, broker = fake.asked[0]
    assert (api, broker) == (Api.CREATE_TOPICS, 2)
    assert request.topics[0][:3] == ("t", -1, -1)
    assert [tuple(config) for config in request.topics[0].configs] == [("retention.ms", "1")]


def test_assignment_takes_the_place_of_the_numbers() -> None:
    """The protocol wants -1 for both when replicas are named."""
    fake = FakeCluster(_created())
    admin.create_topic(_as_cluster(fake), "t", partitions=7, assignment=[[1, 2], [2, 1]])
    topic = fake.asked[0][1].topics[0]
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [tuple(each) for each in topic.assignments] == [(0, (1, 2)), (1, (2, 1))]


def test_controller_that_moved_is_followed_once() -> None:
    """The new one is asked; a second refusal is told."""
    refused = _created(errors.NOT_CONTROLLER)
    fake = FakeCluster(refused, _created(), controllers=(1, 2))
    admin.create_topic(_as_cluster(fake), "t")
    assert [broker for _, _, broker in fake.asked] == [1, 2]

    with pytest.raises(NotController):
        admin.create_topic(_as_cluster(FakeCluster(refused, refused)), "t")


def test_cluster_without_a_known_controller_is_asked_anywhere() -> None:
    """Brokers of which each takes such requests need none."""
    fake = FakeCluster(_created(), controllers=(-1,))
    admin.create_topic(_as_cluster(fake), "t")
    assert fake.asked[0][2] is None


def test_refusal_has_the_brokers_own_words() -> None:
    """They say more than the name of the code."""
    answer = CreatePartitionsResponse(
        results=(CreatePartitionsTopicResult("t", errors.INVALID_PARTITIONS, "there are 5 already"),)
    )
    with pytest.raises(InvalidPartitions, match=r"^there are 5 already$"):
        admin.add_partitions(_as_cluster(FakeCluster(answer)), "t", 2)


def test_refusal_without_words_names_what_it_is_about() -> None:
    """Some brokers send a bare code."""
    answer = DeleteTopicsResponse(
        responses=(DeletableTopicResult(name="t", error_code=errors.UNKNOWN_TOPIC_OR_PARTITION),)
    )
    with pytest.raises(UnknownTopicOrPartition, match=r"^t: UNKNOWN_TOPIC_OR_PARTITION$"):
        admin.delete_topic(_as_cluster(FakeCluster(answer)), "t")


def test_settings_of_a_broker_are_asked_of_that_broker() -> None:
    """Only it knows them; those of topics any broker knows."""

    def answer(kind: int, name: str) -> DescribeConfigsResponse:
        configs = (
            DescribeConfigsResourceResult("b", "2", config_source=4),
            DescribeConfigsResourceResult("a", None, is_sensitive=True, config_source=5),
        )
        return DescribeConfigsResponse(
            results=(DescribeConfigsResult(resource_type=kind, resource_name=name, configs=configs),)
        )

    fake = FakeCluster(answer(4, "2"), answer(2, "t"))
    found = admin.describe_configs(_as_cluster(fake), [Resource.broker(2), Resource.topic("t")])
    assert [broker for _, _, broker in fake.asked] == [2, None]
    assert [setting.name for setting in found[Resource.topic("t")]] == ["a", "b"]
    assert found[Resource.broker(2)][1].source_name == "static broker"


def test_changes_and_deletions_go_in_one_request() -> None:
    """All of them or none."""
    fake = FakeCluster(IncrementalAlterConfigsResponse(responses=(AlterConfigsResourceResponse(),)))
    admin.alter_configs(_as_cluster(fake), Resource.topic("t"), changed={"a": "1"}, deleted=["b"])
    assert [tuple(each) for each in fake.asked[0][1].resources[0].configs] == [("a", 0, "1"), ("b", 1, None)]


@pytest.mark.parametrize(
    ("make", "kind_and_name", "broker_id"),
    [
        (lambda: Resource.topic("7"), (2, "7"), None),
        (lambda: Resource.broker(7), (4, "7"), 7),
        (lambda: Resource.broker(None), (4, ""), None),
    ],
)
def test_resource_knows_whom_to_ask(
    make: Callable[[], Resource], kind_and_name: tuple[int, str], broker_id: int | None
) -> None:
    """A topic may well be called 7."""
    resource = make()
    assert ((resource.kind, resource.name), resource.broker_id) == (kind_and_name, broker_id)


def test_topic_id_is_written_as_by_kafka() -> None:
    """URL-safe, 22 characters."""
    assert admin.topic_id_text(bytes(15) + b"\xff") == "AAAAAAAAAAAAAAAAAAAA_w"
