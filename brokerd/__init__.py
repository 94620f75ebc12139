"""The broker daemon: storage, network, one module for each API, and its place in ZooKeeper."""
