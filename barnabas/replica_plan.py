"""Which partitions must move so that only certain brokers have replicas, evenly, with as few copies as possible. Pure.

In four steps, each of which leaves alone what is right already:

1. a replica on a broker that may keep it stays;
2. every other one goes to the broker with the fewest replicas, to a rack of its own where there is one;
3. while one broker has two replicas more than another, one moves from the fullest to the emptiest;
4. leaders: the order of replicas is changed (which copies nothing) while one broker is the first of two partitions more
   than another.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from barnabas.errors import UserError

Place = tuple[str, int]
"""A topic's name and a partition's number."""
Brokers = Mapping[int, str | None]
"""The brokers that may have replicas, with their racks."""


def plan(
    partitions: Mapping[Place, Sequence[int]], brokers: Brokers, factor: int | None = None
) -> dict[Place, tuple[int, ...]]:
    """The new replicas of every partition whose replicas or their order change; `factor` changes their number."""
    most = max((factor or len(replicas) for replicas in partitions.values()), default=0)
    if most > len(brokers):
        raise UserError(f"{most} replicas need as many brokers, and only {len(brokers)} may have any")
    placed = {place: _kept(replicas, brokers, factor) for place, replicas in sorted(partitions.items())}
    load = Counter(dict.fromkeys(brokers, 0))
    for kept in placed.values():
        load.update(one for one in kept if one is not None)
    found = {place: _filled(kept, brokers, load) for place, kept in placed.items()}
    _even(found, brokers, load)
    _even_leaders(found, brokers)
    return {place: tuple(new) for place, new in found.items() if tuple(new) != tuple(partitions[place])}


def evacuate(partitions: Mapping[Place, Sequence[int]], brokers: Brokers) -> dict[Place, tuple[int, ...]]:
    """The new replicas of the partitions that have some on other brokers than these; everything else stays, evenly
    or not. Where such a replica came first, the next one does now: it has the records already.
    """
    load = Counter(dict.fromkeys(brokers, 0))
    for replicas in partitions.values():
        load.update(one for one in replicas if one in brokers)
    found = {}
    for place, replicas in sorted(partitions.items()):
        kept = sorted(_kept(replicas, brokers, None), key=lambda one: one is None)
        if None in kept:
            if len(kept) > len(brokers):
                raise UserError(f"{len(kept)} replicas need as many brokers, and only {len(brokers)} are left")
            found[place] = tuple(_filled(kept, brokers, load))
    return found


def copies(partitions: Mapping[Place, Sequence[int]], wanted: Mapping[Place, Sequence[int]]) -> int:
    """How many replicas the plan copies to brokers that do not have them."""
    return sum(len(set(new) - set(partitions[place])) for place, new in wanted.items())


def _kept(replicas: Sequence[int], brokers: Brokers, factor: int | None) -> list[int | None]:
    """The replicas that may stay, at their places; None where one is to be found."""
    count = factor or len(replicas)
    kept: list[int | None] = [one if one in brokers else None for one in replicas]
    while len(kept) > count:
        kept.remove(None) if None in kept else kept.pop()
    return kept + [None] * (count - len(kept))


def _filled(kept: Sequence[int | None], brokers: Brokers, load: Counter[int]) -> list[int]:
    found = list(kept)
    for place, one in enumerate(found):
        if one is None:
            there = [other for other in found if other is not None]
            racks = {brokers[other] for other in there} - {None}
            free = [other for other in brokers if other not in there]
            best = min(free, key=lambda other: (brokers[other] in racks, load[other], other))
            found[place] = best
            load[best] += 1
    return [one for one in found if one is not None]


def _even(found: Mapping[Place, list[int]], brokers: Brokers, load: Counter[int]) -> None:
    while _one_move(found, brokers, load):
        pass


def _one_move(found: Mapping[Place, list[int]], brokers: Brokers, load: Counter[int]) -> bool:
    """One replica from a broker that has too many to one that has too few; whether there was one to move."""
    by_load = sorted(brokers, key=lambda one: (load[one], one))
    for full in reversed(by_load):
        for empty in by_load:
            if load[full] - load[empty] < 2:
                break
            for replicas in found.values():
                if full in replicas and empty not in replicas and _racks_stay(replicas, full, empty, brokers):
                    replicas[replicas.index(full)] = empty
                    load[full] -= 1
                    load[empty] += 1
                    return True
    return False


def _racks_stay(replicas: Sequence[int], goes: int, comes: int, brokers: Brokers) -> bool:
    """Whether the partition has its replicas in no fewer racks than before."""
    after = [comes if one == goes else one for one in replicas]
    return _racks(after, brokers) >= _racks(replicas, brokers)


def _racks(replicas: Sequence[int], brokers: Brokers) -> int:
    return len({brokers[one] if brokers[one] is not None else one for one in replicas})


def _even_leaders(found: Mapping[Place, list[int]], brokers: Brokers) -> None:
    first = Counter(dict.fromkeys(brokers, 0))
    first.update(replicas[0] for replicas in found.values() if replicas)
    while chain := _chain(found, first):
        for replicas, leader in chain:
            first[replicas[0]] -= 1
            first[leader] += 1
            replicas.remove(leader)
            replicas.insert(0, leader)


def _chain(found: Mapping[Place, list[int]], first: Counter[int]) -> list[tuple[list[int], int]]:
    """Partitions with their new leaders, so that a broker with too many leads one less, one with too few one more, and
    those between as many as before. The shortest such chain, from the broker that leads most.
    """
    for full, count in first.most_common():
        reached: dict[int, tuple[list[int], int] | None] = {full: None}
        waiting = [full]
        for broker in waiting:
            if count - first[broker] >= 2:
                return _back(reached, broker)
            for replicas in found.values():
                if replicas and replicas[0] == broker:
                    for other in replicas[1:]:
                        if other not in reached:
                            reached[other] = (replicas, broker)
                            waiting.append(other)
    return []


def _back(reached: Mapping[int, tuple[list[int], int] | None], broker: int) -> list[tuple[list[int], int]]:
    chain: list[tuple[list[int], int]] = []
    while (step := reached[broker]) is not None:
        chain.append((step[0], broker))
        broker = step[1]
    return chain
