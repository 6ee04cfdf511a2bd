"""The solve against the true trade-offs: exact, sampled, long and deep chains."""

from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.planning import frontier
from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.frontier import Frontier
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import pareto
from ckptlab.planning.replay import replay
from tests.planning.cases import random_chain
from tests.planning.exact import true_trade_offs


def blocks(n_blocks: int, *, noise: float = 0.0) -> Chain:
    """Transformer blocks split in two between an embedding and a head."""
    chance = np.random.default_rng(0)

    def stage(
        name: str, saved_bytes: int, seconds: float, extra_bytes: int = 0
    ) -> Stage:
        took = seconds * (1 + noise * chance.random())
        return Stage(name, 8 << 20, saved_bytes, took, 2 * took, extra_bytes)

    middle = [
        part
        for _ in range(n_blocks)
        for part in (
            stage("attention", (96 << 20) + 4096, 1.0, 48 << 20),
            stage("mlp", 80 << 20, 1.3),
        )
    ]
    ends = stage("embedding", 8 << 20, 0.1), stage("head", 392 << 20, 3.0)
    return Chain([ends[0], *middle, ends[1]], input_bytes=8192)


def worst_loss(chain: Chain, *, less_memory: float) -> float:
    """How much slower than what is possible with that much less memory, at worst."""
    true_bytes, true_seconds = true_trade_offs(chain)
    budgets = (true_bytes * (1 + less_memory)).astype(int)
    found = Frontier(chain)
    losses = []
    for budget, seconds in zip(budgets, true_seconds, strict=True):
        ledger = replay(chain, found.plan(int(budget)))
        assert ledger.peak_bytes <= budget
        losses.append(ledger.total_seconds / seconds - 1)
    return max(losses)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 1000))
def test_chain_of_few_units_of_memory_is_solved_exactly(n: int, seed: int) -> None:
    chain = random_chain(n, seed)
    found = Frontier(chain)
    true_bytes, true_seconds = true_trade_offs(chain)
    np.testing.assert_array_equal(found.peak_bytes, true_bytes)
    np.testing.assert_array_equal(found.total_seconds, true_seconds)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_stages", [10, 24, 40])
def test_sampled_chain_is_within_a_percent_of_the_optimum(
    n_stages: int, seed: int
) -> None:
    chain = random_chain(n_stages, seed, largest=10**7)
    assert worst_loss(chain, less_memory=0.01) < 0.01
    assert Frontier(chain).smallest_bytes == true_trade_offs(chain)[0][0]


def test_transformer_blocks_are_within_a_percent_of_the_optimum() -> None:
    assert worst_loss(blocks(14), less_memory=0) < 0.01
    assert worst_loss(blocks(14, noise=0.1), less_memory=0.01) < 0.01


def test_chain_with_grids_of_ends_is_within_a_few_percent_of_the_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frontier, "WIDTHS", (8,))
    monkeypatch.setattr(frontier, "MOST_TAILS", 20)
    for n_stages in (33, 40):  # one level's last block is shorter, or none is
        chain = random_chain(n_stages, 1, largest=10**7)
        assert 0.0001 < worst_loss(chain, less_memory=0.1) < 0.04


@pytest.mark.parametrize(
    "chain",
    [
        blocks(20),
        random_chain(60, 0, largest=10**7),
        random_chain(150, 0, largest=10**7),
        Chain.uniform(300, saved_bytes=7),
    ],
    ids=str,
)
def test_every_point_is_what_the_replay_of_its_plan_finds(chain: Chain) -> None:
    points = pareto(chain)
    for point in points[:: max(1, len(points) // 20)]:
        ledger = replay(chain, point.plan)
        assert ledger.peak_bytes == point.peak_bytes
        assert ledger.total_seconds == pytest.approx(point.total_seconds, rel=1e-12)


def test_plan_of_a_long_chain_is_at_least_as_good_as_its_point() -> None:
    chain = Chain.uniform(1500, saved_bytes=2)
    points = pareto(chain)
    for point in points[:: len(points) // 10]:
        ledger = replay(chain, point.plan)
        assert ledger.peak_bytes <= point.peak_bytes
        assert ledger.total_seconds <= point.total_seconds


@pytest.mark.parametrize("snapshots", [9, 40, 80])
@pytest.mark.parametrize(("n_stages", "most"), [(100, 1), (500, 1), (2000, 1.002)])
def test_long_uniform_chain_meets_revolves_binomial_number(
    n_stages: int, most: float, snapshots: int
) -> None:
    tape_bytes = 100  # more than all snapshots, so that one is held at a time
    chain = Chain.uniform(n_stages, saved_bytes=1 + tape_bytes)
    plan = Frontier(chain).plan(1 + snapshots + (1 + tape_bytes) + 2)
    repeats = 0
    while comb(snapshots + repeats, snapshots) < n_stages:
        repeats += 1
    best = n_stages + repeats * n_stages - comb(snapshots + repeats, snapshots + 1)
    n_runs = sum(replay(chain, plan).forward_runs.values())
    assert best <= n_runs <= most * best


def test_equal_blocks_are_solved_once() -> None:
    alike, unlike = (frontier.Layout(blocks(20, noise=noise), 64) for noise in (0, 0.1))
    assert alike.n_rows < unlike.n_rows / 4


@given(st.lists(st.sampled_from("aab"), min_size=9, max_size=40))
def test_runs_share_a_row_just_when_their_stages_are_equal(names: list[str]) -> None:
    kinds = {"a": (1, 2), "b": (3, 5)}
    stages = [Stage(name, *kinds[name], 1, 2) for name in names]
    layout = frontier.Layout(Chain(stages, input_bytes=7), 4)
    # what a stage costs depends on the bytes of its input too
    costs = list(zip(names, [*"c", *names], strict=False))
    contents: dict[int, set[tuple[object, ...]]] = {}
    for level in range(len(layout.levels)):
        n_starts, n_sizes = layout.rows[level].shape
        for start in range(n_starts - 1):
            for size in range(1, min(n_sizes - 1, n_starts - 1 - start) + 1):
                run = frontier.Run(level, start, size)
                content = tuple(costs[start << level : (start + size) << level])
                # in blocks cut at other places, equal stages are not an equal run
                level_of_row = layout.finest(run).level
                row = layout.row(run)
                contents.setdefault(row, set()).add((level_of_row, *content))
    assert all(len(found) == 1 for found in contents.values())
    assert len(set.union(*contents.values())) == len(contents) == layout.n_rows - 1


def test_block_costs_what_its_stages_cost_one_after_the_other() -> None:
    stages = frontier.Layout(random_chain(23, 0), 32).levels[0]
    starts = np.arange(0, 23, 4)
    blocks = stages.joined(starts)
    for number, start in enumerate(starts):
        size = min(4, 23 - start)
        peak_bytes, seconds = stages.runs_from(np.array([start]), size)
        assert blocks.first_peak_bytes[number] == peak_bytes[0, -1]
        assert blocks.run_seconds[number] == seconds[0, -1]
        kept_bytes, forward, backward = 0.0, 0.0, 0.0
        for stage in range(start, start + size):
            forward = max(forward, kept_bytes + stages.forward_peak_bytes[stage])
            backward = max(backward, kept_bytes + stages.backward_peak_bytes[stage])
            kept_bytes += stages.keep_bytes[stage]
        assert blocks.keep_bytes[number] == kept_bytes
        assert blocks.forward_peak_bytes[number] == forward
        assert blocks.backward_peak_bytes[number] == backward


def test_runs_differ_by_what_comes_before_them() -> None:
    # the gradient of a run's input belongs to its first backward pass
    small, large = (Stage("s", size, 50, 1, 2) for size in (1, 40))
    chain = Chain([small, small, large, small, small, small], input_bytes=1)
    found = Frontier(chain)
    true_bytes, true_seconds = true_trade_offs(chain)
    np.testing.assert_array_equal(found.peak_bytes, true_bytes)
    np.testing.assert_array_equal(found.total_seconds, true_seconds)


def test_parentheses_may_nest_a_thousand_deep() -> None:
    chain = Chain.uniform(1100)
    found = Frontier(chain)
    plan = found.plan(found.smallest_bytes)
    deep = Plan((1,))
    for number in range(2, 1101):
        deep = Plan((deep, number))
    assert str(deep).startswith("(" * 1099)
    assert Plan.parse(str(deep)) == deep
    assert replay(chain, deep).peak_bytes == 5
    assert replay(chain, plan).peak_bytes == found.smallest_bytes == 6  # by rule 4


def test_seconds_of_zero_and_bytes_of_zero_are_planned() -> None:
    nothing = Chain([Stage("a", 0, 0, 0, 0), Stage("b", 0, 0, 0, 0)], input_bytes=0)
    assert str(Frontier(nothing).plan(0)) == "1 2"
