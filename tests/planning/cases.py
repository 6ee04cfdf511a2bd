"""Chains and plans for the planning tests: all plans of a size, random chains."""

import random
from functools import cache

from hypothesis import strategies as st

from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.plan import Item, Plan


@cache
def _all_items(first: int, end: int) -> tuple[tuple[Item, ...], ...]:
    """Every way to write the stages from `first` up to, not including, `end`."""
    if first == end:
        return ((),)
    found: list[tuple[Item, ...]] = []
    for split in range(first + 1, end + 1):
        heads: list[Item] = [first] if split == first + 1 else []
        if split < end:
            heads += [Plan(inside) for inside in _insides(first, split)]
        found += [(head, *rest) for head in heads for rest in _all_items(split, end)]
    return (*found, *((Plan(inside),) for inside in found))


def _insides(first: int, end: int) -> list[tuple[Item, ...]]:
    """Insides of a parenthesis: not another parenthesis alone."""
    return [
        items
        for items in _all_items(first, end)
        if len(items) > 1 or isinstance(items[0], int)
    ]


def all_plans(n_stages: int) -> list[Plan]:
    return [Plan(items) for items in _all_items(1, n_stages + 1)]


def random_chain(n_stages: int, seed: int, *, largest: int = 5) -> Chain:
    """Unlike stages of whole bytes and seconds, up to about `largest` bytes each."""
    chance = random.Random(f"{n_stages}/{seed}")
    chance_of_skipped = random.Random(f"{n_stages}/{seed}/skipped")
    stages = []
    for number in range(n_stages):
        output_bytes = chance.randint(1, largest)
        saved_bytes = output_bytes + chance.randint(0, largest)
        forward_seconds = chance.randint(1, 5)
        stages.append(
            Stage(
                f"s{number}",
                output_bytes,
                saved_bytes,
                forward_seconds,
                chance.randint(1, 9),
                chance.randint(0, 4 * largest),
                chance.randint(0, largest),
                chance_of_skipped.randint(0, forward_seconds),
            )
        )
    return Chain(stages, input_bytes=chance.randint(0, largest))


small = st.integers(0, 5)


@st.composite
def chains(draw: st.DrawFn, *, most: int = 6, extra: bool = True) -> Chain:
    stages = []
    for number in range(draw(st.integers(1, most))):
        output_bytes = draw(st.integers(1, 4))
        forward_seconds = draw(st.integers(1, 5))
        stages.append(
            Stage(
                f"s{number + 1}",
                output_bytes,
                output_bytes + draw(small),
                forward_seconds,
                draw(st.integers(1, 9)),
                draw(small) if extra else 0,
                draw(small) if extra else 0,
                draw(st.integers(0, forward_seconds)),
            )
        )
    return Chain(stages, input_bytes=draw(small))


@st.composite
def plans(draw: st.DrawFn, n_stages: int) -> Plan:
    """Any plan of the notation, a parenthesis within a parenthesis included."""

    def items(first: int, last: int, depth: int) -> tuple[Item, ...]:
        made: list[Item] = []
        while first <= last:
            end = draw(st.integers(first, last))
            if depth < 4 and draw(st.booleans()):
                made.append(Plan(items(first, end, depth + 1)))
                first = end + 1
            else:
                made.append(first)
                first += 1
        return tuple(made)

    return Plan(items(1, n_stages, 0))
