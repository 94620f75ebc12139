"""Counting, and the text that a scrape gets."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from brokerd import metric_families
from brokerd.exposition import SLICE, escape, request_name, slices
from brokerd.metadata import BrokerInfo, ClusterView, PartitionInfo, TopicInfo
from brokerd.metrics import Metrics
from brokerd.turn_times import WINDOW_SECONDS, TurnTimes, time_turns
from kafka_wire.apis import Api
from kafka_wire.ids import TopicPartition
from zk_schema.session import SessionState

PRODUCED = "kafka_server_brokertopicmetrics_messagesin_total"


def _broker(partitions: int = 2, controller: int = 0, **info: Any) -> Any:
    """As much of a broker as a scrape reads: broker 0 leads every partition of `logs`."""
    state: dict[str, Any] = {"leader": 0, "leader_epoch": 0, "replicas": (0,), "isr": (0,)} | info
    infos = tuple(PartitionInfo(index, **state) for index in range(partitions))
    log = SimpleNamespace(
        size=700, log_start=3, log_end=9, segment_count=2, config=SimpleNamespace(min_insync_replicas=1)
    )
    here = {
        TopicPartition("logs", one.index): SimpleNamespace(
            tp=TopicPartition("logs", one.index),
            log=log,
            is_leader=one.leader == 0,
            isr=one.isr,
            replicas=one.replicas,
            high_watermark=8,
        )
        for one in infos
    }
    view = ClusterView("c", controller, {0: BrokerInfo(0, "h", 9092)}, {"logs": TopicInfo("logs", bytes(16), infos)})
    return SimpleNamespace(
        config=SimpleNamespace(broker_id=0),
        view=view,
        partitions=here,
        logs=SimpleNamespace(offline={}, dirs=[SimpleNamespace(online=True), SimpleNamespace(online=False)]),
    )


def _scrape(broker: Any, metrics: Metrics) -> dict[tuple[str, ...], float]:
    """(name, label values in the order of the labels' names) -> value, as a Prometheus server would read it."""
    text = "".join(slices(broker, metrics))
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_appends_and_fetches_are_counted_per_topic_and_in_all() -> None:
    metrics = Metrics()
    metrics.appended("logs", 500, 10)
    metrics.appended("logs", 100, 1)
    metrics.fetched("logs", 600)
    metrics.produce_failed("logs", 70)
    metrics.fetch_failed("logs")
    found = _scrape(_broker(), metrics)
    prefix = "kafka_server_brokertopicmetrics_"
    for labels in ((), ("logs",)):
        assert found[PRODUCED, *labels] == 11
        assert found[prefix + "bytesin_total", *labels] == 600
        assert found[prefix + "bytesout_total", *labels] == 600
        assert found[prefix + "bytesrejected_total", *labels] == 70
        assert found[prefix + "totalproducerequests_total", *labels] == 3
        assert found[prefix + "failedproducerequests_total", *labels] == 1
        assert found[prefix + "totalfetchrequests_total", *labels] == 1
        assert found[prefix + "failedfetchrequests_total", *labels] == 1


def test_names_that_strangers_ask_for_take_no_memory() -> None:
    metrics = Metrics()
    for number in range(100):
        metrics.produce_failed(f"guess-{number}")
        metrics.fetch_failed(f"guess-{number}")
        metrics.fetched(f"guess-{number}", 0)
    assert not metrics.topics
    assert _scrape(_broker(), metrics)["kafka_server_brokertopicmetrics_failedproducerequests_total",] == 100


def test_a_deleted_topic_leaves_the_series_but_not_the_total() -> None:
    metrics = Metrics()
    metrics.appended("logs", 10, 1)
    metrics.appended("gone", 10, 5)
    found = _scrape(_broker(), metrics)
    assert found[PRODUCED,] == 6
    assert (PRODUCED, "gone") not in found
    assert _scrape(_broker(), metrics)[PRODUCED,] == 6


def test_requests_have_their_version_where_it_is_known() -> None:
    metrics = Metrics()
    metrics.received(Api.PRODUCE, 9)
    metrics.received(Api.PRODUCE, 9)
    metrics.requests[Api.FETCH] += 3
    metrics.request_failed(Api.LIST_OFFSETS, 3)
    metrics.answered(Api.PRODUCE, 0.002)
    found = _scrape(_broker(), metrics)
    assert found["kafka_network_requestmetrics_requests_total", "Produce", "9"] == 2
    assert found["kafka_network_requestmetrics_requests_total", "Fetch", ""] == 3
    assert found["kafka_network_requestmetrics_errors_total", "UNKNOWN_TOPIC_OR_PARTITION", "ListOffsets"] == 1
    assert found["kafka_network_requestmetrics_totaltimems_count", "Produce"] == 1
    assert found["kafka_network_requestmetrics_totaltimems", "0.99", "Produce"] == pytest.approx(2, rel=0.15)


def test_partitions_are_told_with_their_offsets_and_state() -> None:
    found = _scrape(_broker(partitions=2, replicas=(1, 0), isr=(0,)), Metrics())
    assert found["kafka_log_log_size", "1", "logs"] == 700
    assert found["kafka_log_log_numlogsegments", "0", "logs"] == 2
    assert found["kafka_topic_partition_current_offset", "0", "logs"] == 8
    assert found["kafka_topic_partition_oldest_offset", "0", "logs"] == 3
    assert found["kafka_topic_partition_under_replicated_partition", "0", "logs"] == 1
    assert found["kafka_topic_partition_leader_is_preferred", "0", "logs"] == 0
    assert found["kafka_server_replicamanager_underreplicatedpartitions",] == 2
    assert found["kafka_server_replicamanager_atminisrpartitioncount",] == 2
    assert found["kafka_log_logmanager_offlinelogdirectorycount",] == 1
    assert found["kafka_controller_kafkacontroller_globalpartitioncount",] == 2
    assert found["kafka_topic_partitions", "logs"] == 2


def test_a_follower_tells_of_its_log_and_leaves_the_rest_to_the_leader() -> None:
    found = _scrape(_broker(leader=1, replicas=(1, 0), isr=(1, 0), controller=1), Metrics())
    assert ("kafka_topic_partition_leader", "0", "logs") not in found
    assert ("kafka_brokers",) not in found
    assert found["kafka_log_log_logendoffset", "0", "logs"] == 9
    assert found["kafka_server_replicamanager_leadercount",] == 0
    assert found["kafka_controller_kafkacontroller_activecontrollercount",] == 0


def test_the_controller_tells_of_partitions_without_a_leader() -> None:
    found = _scrape(_broker(partitions=1, leader=-1), Metrics())
    assert found["kafka_topic_partition_leader", "0", "logs"] == -1
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount",] == 1
    assert ("kafka_topic_partition_current_offset", "0", "logs") not in found


def test_many_partitions_come_in_slices_that_are_all_there() -> None:
    broker = _broker(partitions=2 * SLICE + 1)
    parts = list(slices(broker, Metrics()))
    assert max(part.count("\n") for part in parts) <= max(SLICE, 200)
    assert sum(part.count("kafka_log_log_size{") for part in parts) == 2 * SLICE + 1


def test_watched_values_are_read_at_every_scrape() -> None:
    metrics, held = Metrics(), [5.0]
    metrics.watch("barnabas_buffered_bytes", lambda: held[0])
    assert _scrape(_broker(), metrics)["barnabas_buffered_bytes",] == 5
    held[0] = 6
    assert _scrape(_broker(), metrics)["barnabas_buffered_bytes",] == 6


def test_watching_what_is_in_no_table_is_refused() -> None:
    with pytest.raises(KeyError):
        Metrics().watch("barnabas_typo", lambda: 0)


def test_the_end_of_a_session_is_counted() -> None:
    metrics = Metrics()
    for state in (SessionState.NEW_SESSION, SessionState.SUSPENDED, SessionState.LOST, SessionState.NEW_SESSION):
        metrics.session_changed(state)
    found = _scrape(_broker(), metrics)
    assert found["kafka_server_sessionexpirelistener_zookeeperexpires_total",] == 1
    assert found["kafka_server_sessionexpirelistener_zookeepersyncconnects_total",] == 2


def test_every_family_has_one_name_and_one_line_of_text() -> None:
    names = [family.name for family in metric_families.ALL]
    assert len(names) == len(set(names))
    for family in metric_families.ALL:
        assert family.text.endswith(".")
        assert "\n" not in family.text
        assert (family.kind == "counter") == family.name.endswith("_total")


def test_flush_times_are_told_once_a_flush_was_counted() -> None:
    metrics = Metrics()
    count = ("kafka_log_logflushstats_logflushrateandtimems_count",)
    assert count not in _scrape(_broker(), metrics)
    metrics.flushed(0.004)
    found = _scrape(_broker(), metrics)
    assert found[count] == 1
    assert found["kafka_log_logflushstats_logflushrateandtimems", "0.99"] == pytest.approx(4, rel=0.15)


def test_process_metrics_come_along() -> None:
    found = _scrape(_broker(), Metrics())
    assert 1 << 20 < found["process_resident_memory_bytes",] < found["process_virtual_memory_bytes",]
    assert 0 <= time.time() - found["process_start_time_seconds",] < 24 * 3600
    assert found["process_cpu_seconds_total",] > 0
    assert found["process_max_fds",] >= found["process_open_fds",]
    assert any(name[0] == "python_gc_collections_total" for name in found)


def test_labels_are_escaped() -> None:
    assert escape('a"b\\c\n') == 'a\\"b\\\\c\\n'


def test_an_api_that_nobody_knows_is_told_by_its_number() -> None:
    assert (request_name(Api.LIST_OFFSETS), request_name(999)) == ("ListOffsets", "999")


class _Poller:
    def __init__(self) -> None:
        self.registered: list[int] = []

    def poll(self, timeout: float, limit: int) -> list[tuple[int, int]]:
        return [(limit, 1)]

    def register(self, fd: int) -> None:
        self.registered.append(fd)


def test_turns_are_timed_around_the_poller_and_all_else_passes_through() -> None:
    reactor = SimpleNamespace(_poller=_Poller())
    poller = reactor._poller
    times = time_turns(reactor)
    assert isinstance(times, TurnTimes)
    reactor._poller.register(7)
    assert reactor._poller.poll(0, 3) == [(3, 1)]
    assert poller.registered == [7]
    assert times.turns == 1
    assert times.longest(0) == 0, "the time before the first wait is no turn"
    reactor._poller.poll(0, 3)
    longest = times.longest(0)
    assert 0 < longest < 60
    window = times._window
    assert times.longest(window + WINDOW_SECONDS) == longest
    assert times.longest(window + 2 * WINDOW_SECONDS) == 0


def test_a_long_turn_is_forgotten_even_if_nobody_read_meanwhile() -> None:
    times = TurnTimes(_Poller())
    times._longest = 5.0
    assert times.longest(times._window + 2 * WINDOW_SECONDS) == 0


def test_a_reactor_without_a_poller_is_not_timed() -> None:
    assert time_turns(SimpleNamespace()) is None
