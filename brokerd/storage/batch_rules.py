"""What a leader asks of a produced batch beyond its soundness, by the topic's settings.

With the usual settings the only question is the size, and that one is asked by the log itself. Everything here needs a
setting that few topics have, and may decode the records.
"""

from brokerd.config_keys import LONG_MAX
from brokerd.topic_config import TopicConfig
from kafka_wire import compression, records
from kafka_wire.batches import NO_TIMESTAMP, BatchHeader, with_log_append_time
from kafka_wire.errors import InvalidRecord, InvalidTimestamp

PRODUCER = "producer"
UNCOMPRESSED = "uncompressed"
LOG_APPEND_TIME = "LogAppendTime"


def needs_rules(config: TopicConfig) -> bool:
    """Whether `apply` has anything to do under these settings."""
    return (
        config.compression_type != PRODUCER
        or config.message_timestamp_type == LOG_APPEND_TIME
        or config.message_timestamp_before_max_ms != LONG_MAX
        or config.message_timestamp_after_max_ms != LONG_MAX
        or "compact" in config.cleanup_policy
    )


def apply(batch: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int) -> memoryview:
    """The batch as it is to be stored: the same, stamped, or compressed again. InvalidTimestamp, InvalidRecord."""
    if "compact" in config.cleanup_policy and not header.is_control:
        _check_keys(batch)
    stamped = config.message_timestamp_type == LOG_APPEND_TIME
    if not stamped:
        _check_times(batch, header, config, now_ms)
    wanted = _codec(config.compression_type)
    if wanted is not None and wanted != header.codec:
        batch = _recompressed(batch, header, wanted)
    return memoryview(with_log_append_time(batch, now_ms)) if stamped else batch


def _codec(compression_type: str) -> int | None:
    if compression_type == PRODUCER:
        return None
    return compression.NONE if compression_type == UNCOMPRESSED else compression.codec_id(compression_type)


def _check_keys(batch: memoryview) -> None:
    if any(record.key is None for record in records.decode_batch(batch)):
        raise InvalidRecord("a compacted topic takes no record without a key")


def _check_times(batch: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Every record's time against the limits; the header alone is enough for a limit on the future."""
    oldest = now_ms - config.message_timestamp_before_max_ms
    newest = now_ms + config.message_timestamp_after_max_ms
    if header.max_timestamp > newest:
        raise InvalidTimestamp(f"timestamp {header.max_timestamp} is too far after the broker's {now_ms}")
    if config.message_timestamp_before_max_ms == LONG_MAX:
        return
    for record in records.decode_batch(batch):
        if record.timestamp != NO_TIMESTAMP and record.timestamp < oldest:
            raise InvalidTimestamp(f"timestamp {record.timestamp} is too far before the broker's {now_ms}")


def _recompressed(batch: memoryview, header: BatchHeader, codec: int) -> memoryview:
    return memoryview(
        records.encode_batch(
            records.decode_batch(batch),
            codec=codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
    )
