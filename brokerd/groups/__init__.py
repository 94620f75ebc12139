"""Consumer groups of Kafka's JoinGroup protocol: the coordinator's side. The truth is in ZooKeeper (rules K1-K7).

values.py             states, members, events, answers: the vocabulary of the machine (pure)
machine.py            the group machine: (group, event, now) -> (group, effects); its rules (pure)
joining.py, work.py   its join phase, and what both ask (pure)
consumer_protocol.py  what consumers write into their metadata and assignments (pure)
placement.py          which partition of `__consumer_offsets`, and so which broker, a group belongs to (pure)
offset_nodes.py       what a group has committed, and the operations of a commit (pure)
slots.py              the partitions of `__consumer_offsets` led here, and the fence of every write (K1, K2)
group_store.py        a group's nodes: the truth, its kind, the copies for tools, its removal (K3, K5, B5)
offset_store.py       committed offsets: coalesced writes, reads, removal (K6)
coordinator.py        hosts the machines, their timers and their answers (K4, K7)
committed.py          OffsetCommit and OffsetFetch; catalogue.py: lists and descriptions; removal.py: deletion, expiry
groups.py             all of it put together: `broker.groups`
"""
