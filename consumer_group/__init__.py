"""The paper's consumer, which needs no broker to coordinate it. Nothing is here yet.

What will live here: registration in ZooKeeper, Algorithm 1 (range with the remainder rule; round-robin and sticky as
options), ownership claims, the offset registry, the fetcher and the message streams.
"""
