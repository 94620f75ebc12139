"""A wait ends exactly once."""

from twisted.internet.task import Clock

from brokerd.waiting import Wait


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
