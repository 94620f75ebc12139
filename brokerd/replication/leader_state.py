"""What a leader knows of its followers, and what follows from it: high watermark, ISR, the right to write. Pure.

Times are seconds on one clock that counts sleep too; positions are offsets. One function per rule:

    asked           R11, R13, A22: a follower's fetch tells what it has
    high_watermark  V2, A6, R5: the least position over the maximal ISR and those about to join it
    wish            A4, R12-R15: the ISR as it should be
    may_write       A16 (b): a new leader would have stopped fetching here

The **committed** ISR is what ZooKeeper is known to have. While a change is on its way (`sent`) the **maximal** ISR
counts: an expansion from the moment it is sent, a shrink only when it is confirmed (A6).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_wire import errors

UNKNOWN = -1
"""Position of a follower that has not fetched at this epoch, or not since it was re-born: the high watermark waits."""

NEVER = float("-inf")


class Heard:
    """One fetch loop of a follower: its requests speak for every partition of its session.

    `proven_at` is when the answer was sent that the last request follows upon: the request cannot be older, while `at`,
    when it was read, may be long after it was sent if this process slept meanwhile (A15).
    """

    __slots__ = ("at", "proven_at")

    def __init__(self) -> None:
        self.at = NEVER
        self.proven_at = NEVER


class Follower:
    """One other replica. `end`: it has everything below (V4: in `flushed` topics on its disk)."""

    __slots__ = ("asked_at", "broker_id", "caught_up_at", "end", "heard", "joining", "leader_end", "replica_epoch")

    def __init__(self, broker_id: int, caught_up_at: float) -> None:
        self.broker_id = broker_id
        self.end = UNKNOWN
        self.replica_epoch = -1
        self.caught_up_at = caught_up_at
        self.asked_at = NEVER
        self.leader_end = UNKNOWN
        """The end of the leader's log when it last asked."""
        self.heard: Heard | None = None
        self.joining = False
        """Close enough to join: it holds the high watermark back, else it might run after it for ever (R5)."""

    def forget_position(self) -> None:
        """Another life of the broker: nothing of the former one counts."""
        self.end = self.leader_end = UNKNOWN
        self.heard = None
        self.joining = False


class LeaderState:
    """One partition led at one epoch."""

    __slots__ = (
        "_counted",
        "committed",
        "epoch_start",
        "followers",
        "leader_epoch",
        "me",
        "sent",
        "version",
    )

    def __init__(
        self,
        me: int,
        leader_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        version: int,
        epoch_start: int,
        now: float,
    ) -> None:
        self.me = me
        self.leader_epoch = leader_epoch
        self.epoch_start = epoch_start
        self.committed = isr
        self.version = version
        self.sent: tuple[int, ...] | None = None
        # R16: members of the ISR have the whole lag time to show up.
        self.followers = {one: Follower(one, now if one in isr else NEVER) for one in replicas if one != me}
        self._counted: tuple[Follower, ...] = ()
        self._count()

    @property
    def maximal(self) -> tuple[int, ...]:
        """The committed ISR and whoever is being added (A6)."""
        added = tuple(one for one in self.sent or () if one not in self.committed)
        return self.committed + added

    @property
    def alone(self) -> bool:
        """Whether no other replica counts for the high watermark."""
        return not self._counted

    def _count(self) -> None:
        maximal = self.maximal
        self._counted = tuple(one for one in self.followers.values() if one.joining or one.broker_id in maximal)

    # ---- positions

    def asked(
        self, broker_id: int, replica_epoch: int, offset: int, leader_end: int, now: float, heard: Heard
    ) -> Follower:
        """A follower asks for what comes from `offset` on; `leader_end` is the end of our log before this is read.

        Raises UnknownLeaderEpoch for a broker that is no replica as far as we know (R29: it may know more), and
        StaleBrokerEpoch for a former life of one that has asked since.
        """
        follower = self.followers.get(broker_id)
        if follower is None:
            raise errors.UnknownLeaderEpoch(f"broker {broker_id} is not known to be a replica")
        if replica_epoch != follower.replica_epoch:
            if replica_epoch < follower.replica_epoch:
                raise errors.StaleBrokerEpoch(f"broker {broker_id} has a newer epoch than {replica_epoch}")
            follower.forget_position()
            follower.replica_epoch = replica_epoch
        if offset >= leader_end:
            follower.caught_up_at = now
        elif follower.leader_end != UNKNOWN and offset >= follower.leader_end:
            follower.caught_up_at = max(follower.caught_up_at, follower.asked_at)
        follower.end = offset
        follower.asked_at = now
        follower.leader_end = leader_end
        follower.heard = heard
        return follower

    def left(self, broker_id: int, heard: Heard) -> None:
        """A follower no longer fetches this partition in that loop; what it had still counts, its silence too."""
        follower = self.followers.get(broker_id)
        if follower is not None and follower.heard is heard:
            follower.asked_at = max(follower.asked_at, heard.at)
            follower.heard = None

    def grows_from(self, end: int) -> None:
        """Our log, which ended at `end`, is about to be longer: whoever had all of it was caught up until its last
        request, also where that request did not name the partition because nothing had changed (KIP-227)."""
        for follower in self.followers.values():
            if follower.end >= end:
                heard = follower.asked_at if follower.heard is None else follower.heard.at
                follower.caught_up_at = max(follower.caught_up_at, heard)

    def high_watermark(self, own_end: int, current: int, min_insync: int) -> int:
        """V2: the least acked end over the maximal ISR; unchanged while too few are in sync (R6) and never lower."""
        if len(self.committed) < min_insync:
            return current
        end = own_end
        for follower in self._counted:
            if follower.end < end:
                end = follower.end
        return end if end > current else current

    # ---- the ISR

    def caught_up(self, follower: Follower, leader_end: int, now: float, lag: float) -> bool:
        """R13: it has everything, or had at some moment within the lag time."""
        return follower.end >= leader_end or now - follower.caught_up_at <= lag

    def look_at(self, follower: Follower, leader_end: int, now: float, lag: float, fit: Mapping[int, int]) -> None:
        """R5: whether a replica outside the ISR is close enough to join it, and so holds the high watermark back."""
        joining = (
            follower.broker_id not in self.committed
            and fit.get(follower.broker_id) == follower.replica_epoch
            and follower.end != UNKNOWN
            and self.caught_up(follower, leader_end, now, lag)
        )
        if joining != follower.joining:
            follower.joining = joining
            self._count()

    def wish(
        self, mark: int, leader_end: int, now: float, lag: float, fit: Mapping[int, int]
    ) -> tuple[int, ...] | None:
        """The ISR that is to be written; None if it is right, or if a change is on its way already (R17).

        `fit` has the epoch of every broker that is registered and not draining. Whoever is not fit, or was not caught
        up within the lag time, leaves (A4, R12). Who joins has all that is committed, and all that the leader had when
        its epoch began: without the second a record between the two could be lost (R15).
        """
        if self.sent is not None:
            return None
        for follower in self.followers.values():
            self.look_at(follower, leader_end, now, lag, fit)
        stay = tuple(one for one in self.committed if one == self.me or self._stays(one, leader_end, now, lag, fit))
        join = tuple(
            one.broker_id
            for one in self.followers.values()
            if one.joining and one.end >= mark and one.end >= self.epoch_start
        )
        return None if (stay, join) == (self.committed, ()) else stay + join

    def _stays(self, broker_id: int, leader_end: int, now: float, lag: float, fit: Mapping[int, int]) -> bool:
        follower = self.followers.get(broker_id)
        return follower is not None and broker_id in fit and self.caught_up(follower, leader_end, now, lag)

    def send(self, isr: tuple[int, ...]) -> None:
        """This change is being written; from here on whoever it adds counts."""
        self.sent = isr
        self._count()

    def settle(self, isr: tuple[int, ...], version: int) -> bool:
        """ZooKeeper has this ISR, ours or another's (A5); says whether that is news. A change of ours that is on its
        way stays so: it may still be applied, or fail, and its own answer says which."""
        if version <= self.version:
            return False
        self.committed, self.version = isr, version
        self._count()
        return True

    def give_up(self) -> None:
        """The change on its way is done, or surely never will be."""
        self.sent = None
        self._count()

    def reassign(self, replicas: tuple[int, ...], now: float) -> None:
        """Another assignment at the same epoch is not meant to happen (A4); members that are new begin from nothing."""
        self.followers = {
            one: self.followers.get(one) or Follower(one, now if one in self.committed else NEVER)
            for one in replicas
            if one != self.me
        }
        self._count()

    # ---- the write gate

    def may_write(self, now: float, horizon: float) -> bool:
        """A16 (b): every other member of the committed ISR surely fetched at this epoch within the horizon."""
        for broker_id in self.committed:
            if broker_id == self.me:
                continue
            follower = self.followers.get(broker_id)
            if follower is None or follower.heard is None or now - follower.heard.proven_at > horizon:
                return False
        return True
