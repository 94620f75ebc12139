"""Load generators as processes of their own: each warms up, all begin together, the broker's CPU is read at both ends.

A worker is a module-level function `work(plan, begin)`: it connects, warms up, calls `begin()` once, does its work and
returns a Tally. What it raises reaches the caller as one line.
"""

from __future__ import annotations

import multiprocessing
import resource
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import attrs

from barnabas.bench.target import Target
from barnabas.errors import UserError

Plan = TypeVar("Plan")
Begin = Callable[[], None]
_START_SECONDS = 120.0
_END_SECONDS = 600.0


@attrs.frozen(slots=True)
class Tally:
    """What one worker did between `begin()` and the making of its tally, which it makes before it closes anything;
    `values` are (nanoseconds, how often), if it timed."""

    operations: int
    bytes: int
    values: Sequence[tuple[int, int]] = ()
    ended: float = attrs.field(factory=time.monotonic)


@attrs.frozen(slots=True)
class Finished:
    """A worker's tally with its clock (the monotonic clock is one for all processes) and its CPU."""

    tally: Tally
    began: float
    cpu: float


@attrs.frozen(slots=True)
class Run:
    """All workers of one run together."""

    finished: tuple[Finished, ...]
    broker_cpu: float | None

    @property
    def seconds(self) -> float:
        """From the first begin to the last end."""
        return max(one.tally.ended for one in self.finished) - min(one.began for one in self.finished)

    @property
    def operations(self) -> int:
        """Messages or requests of all workers."""
        return sum(one.tally.operations for one in self.finished)

    @property
    def bytes(self) -> int:
        """Payload of all workers."""
        return sum(one.tally.bytes for one in self.finished)

    @property
    def client_cpu(self) -> float:
        """CPU seconds of all workers."""
        return sum(one.cpu for one in self.finished)


def run_workers(target: Target, work: Callable[[Plan, Begin], Tally], plans: Sequence[Plan]) -> Run:
    """One process per plan. Raises UserError with what the first failing worker said."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(plans) + 1)
    pipes, processes = [], []
    for plan in plans:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(theirs, barrier, work, plan), daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        try:
            barrier.wait(_START_SECONDS)
        except threading.BrokenBarrierError:
            raise UserError(_first_complaint(pipes)) from None
        before = target.cpu_seconds()
        answers = [_answer(pipe) for pipe in pipes]
        after = target.cpu_seconds()
    finally:
        for process in processes:
            process.join(0.5)
            if process.is_alive():
                process.kill()
            process.join()
    for answer in answers:
        if isinstance(answer, str):
            raise UserError(answer)
    cpu = None if before is None or after is None else after - before
    return Run(tuple(answer for answer in answers if isinstance(answer, Finished)), cpu)


def _child(pipe: Connection, barrier: Any, work: Callable[[Plan, Begin], Tally], plan: Plan) -> None:
    began = cpu = 0.0

    def begin() -> None:
        nonlocal began, cpu
        barrier.wait(_START_SECONDS)
        began, cpu = time.monotonic(), _own_cpu()

    try:
        tally = work(plan, begin)
        pipe.send(Finished(tally, began, _own_cpu() - cpu))
    except threading.BrokenBarrierError:
        pipe.send("")  # another worker failed; its words count
    except Exception as error:
        pipe.send(str(error) or type(error).__name__)
        barrier.abort()
    finally:
        pipe.close()


def _own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _answer(pipe: Connection) -> Finished | str:
    try:
        if pipe.poll(_END_SECONDS):
            answer: Finished | str = pipe.recv()
            return answer
    except EOFError:
        return "a load generator died"
    return f"a load generator did not finish within {_END_SECONDS:g} s"


def _first_complaint(pipes: Sequence[Connection]) -> str:
    said = [pipe.recv() for pipe in pipes if pipe.poll(1.0)]
    return next((text for text in said if isinstance(text, str) and text), "a load generator did not start")
