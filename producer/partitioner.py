"""Which partition a message goes to, as Kafka's own clients choose it.

A key always has the same partition, and the same one as with the Java client, franz-go and kafka-python: murmur2 of
the key, modulo all partitions. librdkafka hashes with CRC-32 unless told `partitioner=murmur2_random`.
"""

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 of a key with Kafka's seed, unsigned."""
    size = len(key)
    h = _SEED ^ size
    whole = size & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if size > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, count: int) -> int:
    """The partition of a key among `count`; the sign bit is dropped, as Java does."""
    return (murmur2(key) & 0x7FFFFFFF) % count
