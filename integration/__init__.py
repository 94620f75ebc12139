"""Tests against real parts: broker processes, a real ZooKeeper, third-party clients and faults. Nothing imports it."""
