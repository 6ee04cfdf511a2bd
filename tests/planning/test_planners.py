"""Planners against brute force, closed forms, Revolve, and the laws of a budget."""

from itertools import pairwise
from math import comb, isqrt

import pytest
from checkpoint_schedules import Forward, Revolve
from hypothesis import given
from hypothesis import strategies as st

from ckptlab.errors import BudgetTooSmall, PlanError, UnitError
from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import (
    pareto,
    plan_every,
    plan_for_budget,
    plan_sqrt,
    plan_store_all,
)
from ckptlab.planning.replay import replay
from tests.planning.cases import all_plans, chains, random_chain


def frontier_of_all_plans(chain: Chain) -> list[tuple[int, float]]:
    """The trade-offs by brute force: every plan, replayed."""
    ledgers = [replay(chain, plan) for plan in all_plans(len(chain))]
    costs = sorted((ledger.peak_bytes, ledger.total_seconds) for ledger in ledgers)
    best: list[tuple[int, float]] = []
    for peak_bytes, seconds in costs:
        if not best or seconds < best[-1][1]:
            best.append((peak_bytes, seconds))
    return best


def check_against_brute_force(chain: Chain) -> None:
    expected = frontier_of_all_plans(chain)
    points = pareto(chain)
    assert [(p.peak_bytes, p.total_seconds) for p in points] == expected
    for peak_bytes, seconds in expected:
        ledger = replay(chain, plan_for_budget(chain, peak_bytes))
        assert ledger.peak_bytes <= peak_bytes
        assert ledger.total_seconds == seconds


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("n_stages", [2, 3, 4, 5])
def test_best_plan_equals_brute_force(n_stages: int, seed: int) -> None:
    check_against_brute_force(random_chain(n_stages, seed))


@pytest.mark.parametrize("seed", range(3))
def test_best_plan_of_six_stages_equals_brute_force(seed: int) -> None:
    check_against_brute_force(random_chain(6, seed))


# -- closed forms -----------------------------------------------------------------

# One stage's saved bytes dwarf all outputs, so only one can be held: Revolve's world.
TAPE_BYTES = 100


def forward_runs_within(n_stages: int, snapshots: int) -> int:
    """Forward runs of the best plan that may hold `snapshots` outputs and one tape."""
    chain = Chain.uniform(n_stages, saved_bytes=1 + TAPE_BYTES)
    # the input, the snapshots, a tape with its output, two gradients
    plan = plan_for_budget(chain, 1 + snapshots + (1 + TAPE_BYTES) + 2)
    return sum(replay(chain, plan).forward_runs.values())


@pytest.mark.parametrize("n_stages", [1, 2, 3, 4, 7, 10, 15, 20])
@pytest.mark.parametrize("snapshots", [1, 2, 3, 5])
def test_uniform_chain_needs_revolves_binomial_number_of_runs(
    n_stages: int, snapshots: int
) -> None:
    # Griewank and Walther 2000: r n - C(s + r, s + 1) runs besides the tapes, with
    # the smallest r for which C(s + r, s) reaches n
    repeats = 0
    while comb(snapshots + repeats, snapshots) < n_stages:
        repeats += 1
    binomial = repeats * n_stages - comb(snapshots + repeats, snapshots + 1)
    assert forward_runs_within(n_stages, snapshots) == binomial + n_stages


@pytest.mark.parametrize("n_stages", [2, 5, 9, 14, 20])
@pytest.mark.parametrize("snapshots", [1, 2, 4])
def test_uniform_chain_needs_as_many_runs_as_checkpoint_schedules(
    n_stages: int, snapshots: int
) -> None:
    actions = Revolve(n_stages, snapshots)
    theirs = sum(a.n1 - a.n0 for a in actions if isinstance(a, Forward))
    assert forward_runs_within(n_stages, snapshots) == theirs


@pytest.mark.parametrize("root", range(2, 9))
def test_square_root_rule_is_the_best_of_every_k(root: int) -> None:
    chain = Chain.uniform(root**2)
    peaks = {
        k: replay(chain, plan_every(chain, k)).peak_bytes for k in range(1, root**2 + 1)
    }
    # input, n / k kept outputs of which one goes, k rebuilt, two gradients
    assert all(
        peak == 1 + root**2 // k - 1 + k + 2
        for k, peak in peaks.items()
        if root**2 % k == 0 and k > 1
    )
    assert replay(chain, plan_sqrt(chain)).peak_bytes == min(peaks.values())
    assert min(peaks.values()) == 2 * root + 2


# -- the simple planners ----------------------------------------------------------


def test_simple_planners_write_the_plans_that_they_name() -> None:
    chain = Chain.uniform(7)
    assert str(plan_store_all(chain)) == "1 2 3 4 5 6 7"
    assert str(plan_every(chain, 1)) == "(1) (2) (3) (4) (5) (6) (7)"
    assert str(plan_every(chain, 3)) == "(1 2 3) (4 5 6) (7)"
    assert str(plan_every(chain, 99)) == "(1 2 3 4 5 6 7)"
    assert str(plan_every(Chain.uniform(4), 2)) == "(1 2) (3 4)"


@given(st.integers(1, 200))
def test_square_root_rule_makes_about_root_n_parentheses(n_stages: int) -> None:
    items = plan_sqrt(Chain.uniform(n_stages)).items
    sizes = [len(item.stages) for item in items if isinstance(item, Plan)]
    assert sum(sizes) == n_stages
    assert max(max(sizes), len(sizes)) <= isqrt(n_stages - 1) + 1


@pytest.mark.parametrize("k", [0, -2, 1.5, "2", True, None])
def test_every_k_needs_a_whole_number(k: object) -> None:
    with pytest.raises(PlanError, match=r"k is .*from 1 up"):
        plan_every(Chain.uniform(3), k)  # type: ignore[arg-type]


# -- laws of a budget -------------------------------------------------------------


@given(chains(), st.integers(0, 80))
def test_best_plan_never_passes_its_budget(chain: Chain, budget: int) -> None:
    smallest_bytes = pareto(chain)[0].peak_bytes
    budget = max(budget, smallest_bytes)
    assert replay(chain, plan_for_budget(chain, budget)).peak_bytes <= budget


@given(chains())
def test_too_small_a_budget_is_told_the_smallest_that_works(chain: Chain) -> None:
    smallest_bytes = pareto(chain)[0].peak_bytes
    with pytest.raises(BudgetTooSmall) as caught:
        plan_for_budget(chain, smallest_bytes - 1)
    assert caught.value.smallest_bytes == smallest_bytes
    assert f"({smallest_bytes:,} bytes)" in str(caught.value)
    plan = plan_for_budget(chain, smallest_bytes)
    assert replay(chain, plan).peak_bytes == smallest_bytes


@given(chains())
def test_more_budget_is_never_slower(chain: Chain) -> None:
    points = pareto(chain)
    assert all(a.peak_bytes < b.peak_bytes for a, b in pairwise(points))
    assert all(a.total_seconds > b.total_seconds for a, b in pairwise(points))


@given(chains())
def test_all_the_memory_in_the_world_stores_everything(chain: Chain) -> None:
    plan = plan_for_budget(chain, "1 TiB")
    fastest = sum(s.forward_seconds + s.backward_seconds for s in chain.stages)
    assert replay(chain, plan).total_seconds == fastest
    assert plan == plan_store_all(chain)


def scaled(chain: Chain, n_bytes: int, seconds: int) -> Chain:
    stages = [
        Stage(
            stage.name,
            n_bytes * stage.output_bytes,
            n_bytes * stage.saved_bytes,
            seconds * stage.forward_seconds,
            seconds * stage.backward_seconds,
            n_bytes * stage.forward_extra_bytes,
            n_bytes * stage.backward_extra_bytes,
            seconds * stage.skipped_seconds,
        )
        for stage in chain.stages
    ]
    return Chain(stages, input_bytes=n_bytes * chain.input_bytes)


@given(chains(), st.integers(1, 1000), st.integers(1, 1000))
def test_scaling_bytes_or_seconds_scales_the_curve(
    chain: Chain, n_bytes: int, seconds: int
) -> None:
    plain = pareto(chain)
    large = pareto(scaled(chain, n_bytes, seconds))
    assert [p.peak_bytes * n_bytes for p in plain] == [p.peak_bytes for p in large]
    assert [p.total_seconds * seconds for p in plain] == [
        p.total_seconds for p in large
    ]
    assert [p.plan for p in plain] == [p.plan for p in large]


@pytest.mark.parametrize("budget", ["64 apples", -1, None, "", float("nan")])
def test_budget_that_is_no_amount_of_memory_is_refused(budget: object) -> None:
    with pytest.raises(UnitError, match="an amount of memory"):
        plan_for_budget(Chain.uniform(2), budget)  # type: ignore[arg-type]


def test_budget_may_be_a_text() -> None:
    chain = Chain.uniform(4, output_bytes=2**20)
    assert plan_for_budget(chain, "6 MiB") == plan_for_budget(chain, 6 * 2**20)
