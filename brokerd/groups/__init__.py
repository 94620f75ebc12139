"""Consumer groups of Kafka's JoinGroup protocol: the coordinator's side. The truth is in ZooKeeper (rules K1-K8).

values.py             states, members, events, answers: the vocabulary of the machine (pure)
machine.py            the group machine: (group, event, now) -> (group, effects) (pure)
consumer_protocol.py  what consumers write into their metadata and assignments (pure)
placement.py          which partition of `__consumer_offsets`, and so which broker, a group belongs to (pure)
slots.py              the partitions of `__consumer_offsets` led here, and the fence of every write (K1, K2)
group_store.py        a group's nodes: the truth, its kind, the copies for tools, its removal (K3, K5, B5)
offset_store.py       committed offsets: read, coalesced writes, removal (K6)
coordinator.py        what handlers call: hosts the machines, their timers and their answers (K4, K7)
"""
