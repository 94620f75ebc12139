"""The Kafka protocol, both ways: framing, messages, record batches, and thin client shells."""
