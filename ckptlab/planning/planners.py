"""From a chain to a plan: store all, every k, square root, best under a budget.

The best plan under a budget is found by dynamic programming over the notation of
`planning.plan`, in the accounting of `planning.replay`. Griewank and Walther's
Revolve (2000) solved uniform chains in closed form; Beaumont, Eyraud-Dubois,
Herrmann, Joly and Shilova (2019, "Optimal checkpointing for heterogeneous chains")
gave the recurrence for stages of different bytes and times. Ours follows theirs.

Write a_i for the output bytes of stage i, s_i for its saved bytes (a_i included), g
for the gradient of the output of the stage in question, e and e' for the transient
bytes of the two passes. R(i, j) is the frontier of (peak bytes, seconds) of running
stages i..j again and then backward, while the gradient a_j is live; the input of
stage i is counted outside. Either stage i is bare,

    peak = max(s_i + e_i + a_j,  s_i + peak of R(i+1, j),  s_i + a_i + a_{i-1} + e'_i)

or a parenthesis i..k with k < j comes first, which runs forward keeping nothing,

    peak = max(run of i..k + a_j,  a_k + peak of R(k+1, j),  peak of R(i, k))

and seconds add up. F(i), the first forward pass from stage i to the end and the whole
backward pass, is the same without the gradient, and its last parenthesis does run.

A frontier holds every trade-off that no other beats in both, so one solve answers for
all budgets, and memory needs no grid: bytes are never rounded. Long chains of unlike
stages can have very many trade-offs. Past MOST_POINTS a frontier is thinned on a
geometric grid of time: of the points within one step the leanest stays. So a plan
never passes its budget, and it is slower than the best by at most one step of the
grid for each level of the recurrence: a step is (slowest / fastest)^(1 / 399). On
random chains of 32 unlike stages the worst budget lost 0.3 %; shorter ones nothing.

Left out on purpose: plans that keep a stage's output but not its other saved bytes
inside a run (beyond the notation), offloading, and parallel branches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ckptlab.errors import BudgetTooSmall, PlanError
from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Item, Plan
from ckptlab.planning.replay import replay
from ckptlab.units import format_bytes, parse_bytes

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_POINTS = 400
"""Points of a frontier above which it is thinned; small chains never get there."""


def plan_store_all(chain: Chain) -> Plan:
    """The plan that keeps everything: the fastest, and the one that needs most memory.

    Example:
        >>> plan_store_all(Chain.uniform(3))
        Plan('1 2 3')
    """
    return Plan(tuple(range(1, len(chain) + 1)))


def plan_every(chain: Chain, k: int) -> Plan:
    """The plan that keeps the output of every k-th stage and recomputes the others.

    Raises:
        PlanError: k is not a whole number from 1 up.

    Example:
        >>> plan_every(Chain.uniform(5), 2)
        Plan('(1 2) (3 4) (5)')
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise PlanError(f"k is {k!r}; keep every k-th output with k from 1 up")
    numbers = range(1, len(chain) + 1)
    return Plan(
        tuple(
            Plan(tuple(numbers[start : start + k])) for start in range(0, len(chain), k)
        )
    )


def plan_sqrt(chain: Chain) -> Plan:
    """The plan of the square-root rule: about sqrt(n) parentheses of sqrt(n) stages.

    Source: Chen, Xu, Zhang and Guestrin, 2016, arXiv:1604.06174.

    Example:
        >>> plan_sqrt(Chain.uniform(9))
        Plan('(1 2 3) (4 5 6) (7 8 9)')
    """
    return plan_every(chain, isqrt(len(chain) - 1) + 1)


def plan_for_budget(chain: Chain, budget: str | int) -> Plan:
    """The fastest plan whose replayed peak stays within the budget.

    Args:
        chain: stages of different bytes and seconds, transient bytes included.
        budget: bytes, or a text such as "64 MiB"; all live bytes of the chain count,
            its input and gradients too.

    Raises:
        BudgetTooSmall: no plan fits; the message names the smallest budget that works.
        UnitError: the budget is not an amount of memory.

    Example:
        >>> plan_for_budget(Chain.uniform(4), 6)
        Plan('1 (2 3) 4')
    """
    budget_bytes = parse_bytes(budget)
    frontier = pareto(chain)
    fitting = [point for point in frontier if point.peak_bytes <= budget_bytes]
    if not fitting:
        smallest_bytes = frontier[0].peak_bytes
        raise BudgetTooSmall(
            f"budget {format_bytes(budget_bytes)} ({budget_bytes:,} bytes) is below "
            f"the {format_bytes(smallest_bytes)} ({smallest_bytes:,} bytes) that every "
            "plan of this chain needs; raise the budget, or split its largest stage",
            smallest_bytes,
        )
    return fitting[-1].plan


@dataclass(frozen=True)
class ParetoPoint:
    """One trade-off of memory and time that no other plan beats in both.

    Attributes:
        peak_bytes, total_seconds: as `replay` finds them.
        plan: a plan that gets there.
    """

    peak_bytes: int
    total_seconds: float
    plan: Plan

    def __repr__(self) -> str:
        return (
            f"ParetoPoint({format_bytes(self.peak_bytes)}, "
            f"{self.total_seconds:.4g} s, '{self.plan}')"
        )


@lru_cache(maxsize=16)
def pareto(chain: Chain) -> tuple[ParetoPoint, ...]:
    """The whole curve of time against memory, least memory first.

    Example:
        >>> for point in pareto(Chain.uniform(4)):
        ...     print(point)
        ParetoPoint(5 B, 17 s, '((1 2) 3) 4')
        ParetoPoint(6 B, 14 s, '1 (2 3) 4')
        ParetoPoint(7 B, 12 s, '1 2 3 4')
    """
    points = []
    for plan in _Solver(chain).plans():
        ledger = replay(chain, plan)
        points.append(ParetoPoint(ledger.peak_bytes, ledger.total_seconds, plan))
    return tuple(points)


class _Frontier(NamedTuple):
    """Trade-offs, least memory first, and how each begins: five arrays alike long.

    `end` is 0 where the first stage is bare, else the last stage of the parenthesis
    that comes first; `inner` and `rest` point into the frontiers of that parenthesis
    and of what follows, -1 where nothing does.
    """

    peak_bytes: Floats
    seconds: Floats
    end: Integers
    inner: Integers
    rest: Integers


class _Solver:
    """The frontiers R and F of the module's docstring, shortest runs first."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._outputs = [chain.activation_bytes(i) for i in range(len(chain) + 1)]
        self._reruns: dict[tuple[int, int], _Frontier] = {}
        self._tails: dict[int, _Frontier] = {}

    def plans(self) -> list[Plan]:
        """A plan for each trade-off of the whole step, least memory first."""
        n_stages = len(self._chain)
        firsts = range(n_stages, 0, -1)
        for first in tqdm(firsts, desc="planning", delay=1, leave=False):
            for last in range(first, n_stages + 1):
                self._reruns[first, last] = self._rerun(first, last)
            self._tails[first] = self._tail(first)
        n_points = len(self._tails[1].seconds)
        return [Plan(tuple(self._tail_items(1, point))) for point in range(n_points)]

    def _rerun(self, first: int, last: int) -> _Frontier:
        """R(first, last)."""
        gradient_bytes = self._outputs[last]
        rest = self._reruns.get((first + 1, last))
        candidates = [self._begin_bare(first, rest, gradient_bytes)]
        for end, run_bytes, run_seconds in self._runs(first, last - 1):
            candidates.append(
                _join(
                    end,
                    self._reruns[first, end],
                    self._reruns[end + 1, last],
                    offset_bytes=self._outputs[end],
                    least_bytes=run_bytes + gradient_bytes,
                    seconds=run_seconds,
                )
            )
        return _best(candidates)

    def _tail(self, first: int) -> _Frontier:
        """F(first)."""
        last = len(self._chain)
        candidates = [self._begin_bare(first, self._tails.get(first + 1), 0)]
        for end, run_bytes, run_seconds in self._runs(first, last):
            candidates.append(
                _join(
                    end,
                    self._reruns[first, end],
                    self._tails[end + 1] if end < last else _NOTHING,
                    offset_bytes=self._outputs[end],
                    least_bytes=run_bytes,
                    seconds=run_seconds,
                )
            )
        return _best(candidates)

    def _begin_bare(
        self, number: int, rest: _Frontier | None, gradient_bytes: int
    ) -> _Frontier:
        stage = self._chain.stages[number - 1]
        made_bytes = stage.output_bytes + self._outputs[number - 1]
        least_bytes = stage.saved_bytes + max(
            stage.forward_extra_bytes + gradient_bytes,
            stage.backward_extra_bytes + made_bytes,
        )
        after = _NOTHING if rest is None else rest
        return _Frontier(
            np.maximum(least_bytes, stage.saved_bytes + after.peak_bytes),
            stage.forward_seconds + stage.backward_seconds + after.seconds,
            np.zeros(len(after.seconds), dtype=int),
            np.full(len(after.seconds), -1),
            np.arange(len(after.seconds)),
        )

    def _runs(self, first: int, last: int) -> Iterator[tuple[int, int, float]]:
        """End, peak bytes and seconds of the runs from `first` that keep nothing."""
        peak_bytes, seconds = 0, 0.0
        for number in range(first, last + 1):
            stage = self._chain.stages[number - 1]
            input_bytes = self._outputs[number - 1] if number > first else 0
            running_bytes = input_bytes + stage.output_bytes + stage.forward_extra_bytes
            peak_bytes = max(peak_bytes, running_bytes)
            seconds += stage.forward_seconds
            yield number, peak_bytes, seconds

    def _tail_items(self, first: int, point: int) -> Iterator[Item]:
        while first <= len(self._chain):
            item, first, point = self._begin(self._tails[first], first, point)
            yield item

    def _rerun_items(self, first: int, last: int, point: int) -> Iterator[Item]:
        while first <= last:
            item, first, point = self._begin(self._reruns[first, last], first, point)
            yield item

    def _begin(
        self, frontier: _Frontier, first: int, point: int
    ) -> tuple[Item, int, int]:
        """The first item of a point, and the stage and point that follow it."""
        end, rest = int(frontier.end[point]), int(frontier.rest[point])
        if end == 0:
            return first, first + 1, rest
        inside = self._rerun_items(first, end, int(frontier.inner[point]))
        return Plan(tuple(inside)), end + 1, rest


_NOTHING = _Frontier(
    np.zeros(1), np.zeros(1), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int)
)


def _join(
    end: int,
    inner: _Frontier,
    rest: _Frontier,
    *,
    offset_bytes: int,
    least_bytes: int,
    seconds: float,
) -> _Frontier:
    """Trade-offs of a parenthesis and what follows it: the larger peak, both times."""
    rest_bytes = offset_bytes + rest.peak_bytes
    peaks = np.sort(np.concatenate([inner.peak_bytes, rest_bytes]))
    peaks = peaks[peaks >= max(inner.peak_bytes[0], rest_bytes[0])]
    # under each peak, the fastest of either side that fits
    at_inner = inner.peak_bytes.searchsorted(peaks, side="right") - 1
    at_rest = rest_bytes.searchsorted(peaks, side="right") - 1
    return _Frontier(
        np.maximum(least_bytes, peaks),
        seconds + inner.seconds[at_inner] + rest.seconds[at_rest],
        np.full(len(peaks), end),
        at_inner,
        at_rest,
    )


def _best(candidates: list[_Frontier]) -> _Frontier:
    """The trade-offs that no other beats in both, thinned past MOST_POINTS."""
    columns = [np.concatenate(column) for column in zip(*candidates, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    seconds = columns[1][order]
    fastest_before = np.concatenate([[np.inf], np.minimum.accumulate(seconds)[:-1]])
    order = order[seconds < fastest_before]
    if len(order) > MOST_POINTS:
        order = order[_thinned(columns[1][order])]
    return _Frontier(*(column[order] for column in columns))


def _thinned(seconds: Floats) -> Integers:
    """Where the leanest point of each step of a grid of time is, and the fastest.

    Unchecked: the seconds fall, so the last are the fewest, and above 0 (a run of
    stages that take no time at all has one point).
    """
    logs = np.log(seconds)
    cells = np.floor((logs[0] - logs) / (logs[0] - logs[-1]) * (MOST_POINTS - 1))
    return np.flatnonzero(np.append(True, np.diff(cells) > 0))
