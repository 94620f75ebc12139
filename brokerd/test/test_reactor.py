"""The end of the turn, on the lean reactor and on any other one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import Clock
from zope.interface import implementer

from brokerd.reactor import MAX_ROUNDS, LeanReactor, StockTurns, turns_of


@pytest.fixture(params=[LeanReactor, EPollReactor])
def reactor(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param()
    yield made
    for call in made.getDelayedCalls():
        call.cancel()
    made.removeAll()


def turn(reactor: Any) -> None:
    """One turn that waits for nothing."""
    reactor.runUntilCurrent()
    reactor.doIteration(0)
    reactor.runUntilCurrent()


def test_functions_run_once_in_their_order_for_all_requests_of_a_turn(reactor: Any) -> None:
    turns, ran = turns_of(reactor), list[str]()
    turns.addEndOfTurn(lambda: ran.append("write"))
    turns.addEndOfTurn(lambda: ran.append("send"))
    turn(reactor)
    assert ran == []
    turns.requestEndOfTurn()
    turns.requestEndOfTurn()
    turn(reactor)
    assert ran == ["write", "send"]
    turn(reactor)
    assert ran == ["write", "send"]


def test_failure_of_one_function_does_not_stop_the_next(reactor: Any) -> None:
    turns, ran = turns_of(reactor), list[str]()

    def fail() -> None:
        raise OSError("disk")

    turns.addEndOfTurn(fail)
    turns.addEndOfTurn(lambda: ran.append("send"))
    turns.requestEndOfTurn()
    turn(reactor)
    assert ran == ["send"]


def test_request_from_within_the_end_is_served_without_starving_descriptors() -> None:
    reactor, ran = LeanReactor(), list[int]()

    def again() -> None:
        ran.append(len(ran))
        reactor.requestEndOfTurn()

    reactor.addEndOfTurn(again)
    reactor.requestEndOfTurn()
    reactor.doPoll(0)
    assert len(ran) == MAX_ROUNDS
    reactor.doPoll(None)  # must not block: a request is waiting
    assert len(ran) == 2 * MAX_ROUNDS


def test_descriptors_are_served_before_the_turn_ends() -> None:
    reactor, events = LeanReactor(), list[str]()
    read_end, write_end = os.pipe()

    @implementer(IReadDescriptor)
    class Reader:
        def fileno(self) -> int:
            return read_end

        def doRead(self) -> None:
            os.read(read_end, 1)
            events.append("read")
            reactor.requestEndOfTurn()

        def logPrefix(self) -> str:
            return "reader"

        def connectionLost(self, reason: Any) -> None:
            events.append("lost")

    any_reactor: Any = reactor
    any_reactor.addReader(Reader())
    reactor.addEndOfTurn(lambda: events.append("end"))
    os.write(write_end, b"x")
    reactor.doPoll(1)
    assert events == ["read", "end"]
    any_reactor.removeAll()
    os.close(read_end)
    os.close(write_end)


def test_stock_turns_end_on_the_next_timer() -> None:
    clock, ran = Clock(), list[str]()
    turns = StockTurns(clock)
    turns.addEndOfTurn(lambda: ran.append("end"))
    turns.requestEndOfTurn()
    turns.requestEndOfTurn()
    assert ran == []
    clock.advance(0)
    assert ran == ["end"]
