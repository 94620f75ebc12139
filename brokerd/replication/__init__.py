"""Copies of partitions on several brokers: a leader that is appended to, followers that fetch from it.

leader_state.py     pure: positions of followers, who is in sync, the high watermark, the write gate
follower_state.py   pure: what a follower does with one answer of its leader
isr_change.py       pure: an ISR change as a ZooKeeper multi
serving.py          the leader's side of replica fetches: sessions, long polls
fetcher.py          the follower's side: one loop for each leader and durability
isr_writer.py       writes ISR changes to ZooKeeper, one in flight per partition
replicas.py         ties them together: who is followed, who is looked at, what is counted
removal.py          deletes replicas that were moved to other brokers
"""
