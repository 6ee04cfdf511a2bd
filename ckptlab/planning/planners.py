"""From a chain to a plan: store all, every k, square root, best under a budget.

How the best plan is found stands in `planning.frontier`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import isqrt

from ckptlab.errors import BudgetTooSmall, PlanError
from ckptlab.planning.chain import Chain
from ckptlab.planning.frontier import Frontier
from ckptlab.planning.plan import Plan
from ckptlab.units import format_bytes, parse_bytes


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
    frontier = _frontier(chain)
    if budget_bytes < frontier.smallest_bytes:
        smallest_bytes = frontier.smallest_bytes
        raise BudgetTooSmall(
            f"budget {format_bytes(budget_bytes)} ({budget_bytes:,} bytes) is below "
            f"the {format_bytes(smallest_bytes)} ({smallest_bytes:,} bytes) that every "
            "plan of this chain needs; raise the budget, or split its largest stage",
            smallest_bytes,
        )
    return frontier.plan(budget_bytes)


@dataclass(frozen=True)
class ParetoPoint:
    """One trade-off of memory and time that no other plan beats in both.

    Attributes:
        peak_bytes, total_seconds: as `replay` finds them; of more than 128 stages
            the plan may turn out to be a little better.
    """

    peak_bytes: int
    total_seconds: float
    _write: Callable[[], Plan] = field(repr=False, compare=False)

    @cached_property
    def plan(self) -> Plan:
        """A plan that gets there, written when it is first asked for."""
        return self._write()

    def __repr__(self) -> str:
        return (
            f"ParetoPoint({format_bytes(self.peak_bytes)}, "
            f"{self.total_seconds:.4g} s, '{self.plan}')"
        )


def pareto(chain: Chain) -> tuple[ParetoPoint, ...]:
    """The whole curve of time against memory, least memory first.

    Example:
        >>> for point in pareto(Chain.uniform(4)):
        ...     print(point)
        ParetoPoint(5 B, 17 s, '((1 2) 3) 4')
        ParetoPoint(6 B, 14 s, '1 (2 3) 4')
        ParetoPoint(7 B, 12 s, '1 2 3 4')
    """
    frontier = _frontier(chain)
    return tuple(
        ParetoPoint(
            int(peak_bytes), float(seconds), partial(frontier.plan, int(peak_bytes))
        )
        for peak_bytes, seconds in zip(
            frontier.peak_bytes, frontier.total_seconds, strict=True
        )
    )


@lru_cache(maxsize=8)
def _frontier(chain: Chain) -> Frontier:
    return Frontier(chain)
