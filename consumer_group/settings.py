"""The settings of a consumer, under kafka-python's names, checked once."""

from __future__ import annotations

import difflib
from typing import Any

import attrs

from consumer_group.assignment import STRATEGIES

EARLIEST, LATEST, NO_RESET = "earliest", "latest", "none"


def _one_of(*allowed: str) -> Any:
    return attrs.validators.in_(allowed)


@attrs.frozen(kw_only=True)
class Settings:
    """Times are in milliseconds, sizes in bytes."""

    group_id: str | None = None
    zookeeper_connect: str = "localhost:2181"
    client_id: str = "barnabas-consumer"
    auto_offset_reset: str = attrs.field(default=LATEST, validator=_one_of(EARLIEST, LATEST, NO_RESET))
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = attrs.field(default=5_000, validator=attrs.validators.ge(1))
    assignment_strategy: str = attrs.field(default="range", validator=_one_of(*STRATEGIES))
    session_timeout_ms: int = attrs.field(default=10_000, validator=attrs.validators.ge(100))
    max_poll_interval_ms: int = attrs.field(default=300_000, validator=attrs.validators.ge(1))
    max_poll_records: int = attrs.field(default=500, validator=attrs.validators.ge(1))
    fetch_max_wait_ms: int = attrs.field(default=500, validator=attrs.validators.ge(0))
    fetch_min_bytes: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    fetch_max_bytes: int = attrs.field(default=50 * 1024 * 1024, validator=attrs.validators.ge(1))
    max_partition_fetch_bytes: int = attrs.field(default=1024 * 1024, validator=attrs.validators.ge(1))
    max_buffered_bytes: int = attrs.field(default=64 * 1024 * 1024, validator=attrs.validators.ge(1))
    """How much is fetched ahead of the application, over all partitions. One answer may go beyond it."""
    check_crcs: bool = True
    request_timeout_ms: int = attrs.field(default=30_000, validator=attrs.validators.ge(1))
    retry_backoff_ms: int = attrs.field(default=100, validator=attrs.validators.ge(1))
    metadata_max_age_ms: int = attrs.field(default=300_000, validator=attrs.validators.ge(1))
    default_api_timeout_ms: int = attrs.field(default=60_000, validator=attrs.validators.ge(1))

    @classmethod
    def of(cls, named: dict[str, Any]) -> Settings:
        """From keyword arguments. TypeError names an unknown one and the nearest that there is; dotted names are
        taken too, as configuration files have them."""
        known = [field.name for field in attrs.fields(cls)]
        plain = {name.replace(".", "_"): value for name, value in named.items()}
        for name in plain:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise TypeError(f"there is no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return cls(**plain)
