"""The client library for publishing, and the log-shipping agent. Nothing is here yet.

What will live here: accumulator, partitioner, sequences and sender of the producer; the agent that follows files,
listens for syslog and offers a logging handler.
"""
