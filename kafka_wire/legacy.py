"""ListOffsets version 0, which kio does not have and old clients still send; in the form of kio's classes.

Version 0 asks for up to `max_num_offsets` segment starts before a time and is answered with a list.
"""

import dataclasses
from dataclasses import field
from typing import ClassVar


def _field(kind: str) -> dict[str, str]:
    return {"kafka_type": kind}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _V0:
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = False
    __api_key__: ClassVar[int] = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartition(_V0):
    """What is asked of one partition."""

    partition_index: int = field(metadata=_field("int32"))
    timestamp: int = field(metadata=_field("int64"))
    max_num_offsets: int = field(metadata=_field("int32"), default=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopic(_V0):
    """What is asked of one topic."""

    name: str = field(metadata=_field("string"))
    partitions: tuple[ListOffsetsPartition, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsRequest(_V0):
    """The request."""

    replica_id: int = field(metadata=_field("int32"))
    topics: tuple[ListOffsetsTopic, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsPartitionResponse(_V0):
    """The answer for one partition."""

    partition_index: int = field(metadata=_field("int32"))
    error_code: int = field(metadata=_field("error_code"))
    old_style_offsets: tuple[int, ...] = field(metadata=_field("int64"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsTopicResponse(_V0):
    """The answer for one topic."""

    name: str = field(metadata=_field("string"))
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsetsResponse(_V0):
    """The response."""

    topics: tuple[ListOffsetsTopicResponse, ...]
