"""A wait ends exactly once."""

from twisted.internet.task import Clock

from brokerd.waiting import Deadlines, Wait


def test_wait_finished_in_time_is_told_once_and_leaves_no_timer() -> None:
    """Finishing tells the caller that the time was not up, whatever happens later."""
    clock, ends = Clock(), list[bool]()
    wait = Wait(clock, 5, ends.append)

    wait.finish()
    wait.finish()
    clock.advance(10)

    assert ends == [False]
    assert not clock.getDelayedCalls()


def test_wait_at_its_deadline_is_told_that_the_time_is_up() -> None:
    """The deadline ends the wait by itself; finishing afterwards changes nothing."""
    clock, ends = Clock(), list[bool]()
    wait = Wait(clock, 5, ends.append)

    clock.advance(4.9)
    assert not ends
    clock.advance(0.2)
    wait.finish()

    assert ends == [True]


def test_cancelled_wait_tells_nobody() -> None:
    """A client that has gone gets no answer and costs no timer."""
    clock, ends = Clock(), list[bool]()
    wait = Wait(clock, 5, ends.append)

    wait.cancel()
    clock.advance(10)

    assert not ends
    assert not clock.getDelayedCalls()


class _Item:
    def __init__(self) -> None:
        self.done = False
        self.expired = 0

    def expire(self) -> None:
        self.done = True
        self.expired += 1


def test_deadline_passes_once_and_not_before_its_time() -> None:
    clock = Clock()
    deadlines = Deadlines(clock)
    item = _Item()
    deadlines.add(1.0, item)
    clock.pump([0.25] * 4)
    assert not item.done
    clock.pump([0.25] * 10)
    assert (item.done, item.expired) == (True, 1)
    assert not clock.getDelayedCalls()


def test_finished_item_does_not_expire_and_does_not_hold_others_up() -> None:
    clock = Clock()
    deadlines = Deadlines(clock)
    first, second, third = _Item(), _Item(), _Item()
    deadlines.add(30.0, first)
    deadlines.add(0.0, second)
    deadlines.add(0.1, third)
    third.done = True
    clock.pump([0.25] * 2)
    assert (first.expired, second.expired, third.expired) == (0, 1, 0)
    first.done = True
    clock.advance(0.25)
    assert not clock.getDelayedCalls()
