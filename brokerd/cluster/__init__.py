"""This broker in its cluster: how it joins and leaves, what it learns, and what it decides while it is controller.

    cluster_state.py  what ZooKeeper is known to hold, and the snapshot that handlers read from it (pure)
    decisions.py      the controller's decisions: (state, now) -> multis (pure); A23, A24, A26, A28
    placement.py      which brokers get the replicas of new partitions (pure)
    learning.py       full read, change nodes, watches (A9, A18-A21)
    life.py           cluster id, incarnation, registration, expiry, draining (A7-A13)
    controller.py     election, and carrying decisions out (A2)
    roles.py          logs and leaderships of this broker as the view wants them (A11, A21, A29)
    identity.py       the file in the log directory that knows this broker's last session (A8)
    asynchronous.py   a few small things for Deferreds

Nothing here is on the path of a produce or fetch request.
"""
