"""The budget explorer: its words and its picture say what `replay` says."""

import re
import xml.etree.ElementTree as ET

import pytest

from ckptlab.course.explorers.budget import N_BUDGETS, explore_budget
from ckptlab.course.explorers.explorer import Explorer
from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import plan_every, plan_store_all
from ckptlab.planning.replay import replay
from ckptlab.units import format_bytes

MEBIBYTE = 2**20
CHAIN = Chain.uniform(16, output_bytes=MEBIBYTE, forward_extra_bytes=MEBIBYTE)
MEASURED = {"k = 4": (10 * MEBIBYTE, 1.4), "all": (19 * MEBIBYTE, 1.0)}


def budgets(explorer: Explorer) -> list[int]:
    values: list[int] = explorer.controls[0]["values"]
    return values


def svg_of(explorer: Explorer) -> ET.Element:
    return ET.fromstring(explorer.picture)


def said_plan(explorer: Explorer) -> Plan:
    match = re.search(r"best plan is ([\d() ]+),", explorer.summary)
    assert match
    return Plan.parse(match[1])


def test_budgets_run_from_the_smallest_that_works_to_storing_all() -> None:
    values = budgets(explore_budget(CHAIN))
    assert len(values) == N_BUDGETS
    assert values == sorted(values)
    assert values[0] == 5 * MEBIBYTE  # two gradients, input, activation, kept input
    assert values[-1] == replay(CHAIN, plan_store_all(CHAIN)).peak_bytes


def test_every_budget_is_drawn_in_words_that_replay_confirms() -> None:
    explorer = explore_budget(CHAIN, MEASURED)
    full_seconds = 16 * 3
    for budget in budgets(explorer):
        explorer.choose(budget=budget)
        ledger = replay(CHAIN, said_plan(explorer))
        assert ledger.peak_bytes <= budget
        assert f"peaks at {format_bytes(ledger.peak_bytes)}" in explorer.summary
        again = sum(ledger.forward_runs.values()) - 16
        assert (f"runs {again} stage" if again else "no stage") in explorer.summary
        if again:
            times = ledger.total_seconds / full_seconds
            assert f"{times:.2f} times" in explorer.summary
        assert svg_of(explorer).get("aria-label") == explorer.summary


def test_best_plan_in_the_memory_of_every_fourth_runs_less_again() -> None:
    explorer = explore_budget(CHAIN)
    every_4 = replay(CHAIN, plan_every(CHAIN, 4))
    budget = min(b for b in budgets(explorer) if b >= every_4.peak_bytes)
    explorer.choose(budget=budget)
    best = replay(CHAIN, said_plan(explorer))
    assert best.total_seconds < every_4.total_seconds


def test_peak_mark_touches_the_highest_point_of_the_step_curve() -> None:
    explorer = explore_budget(CHAIN)
    for budget in budgets(explorer)[::6]:
        explorer.choose(budget=budget)
        circle = re.search(r'<circle cx="[\d.]+" cy="([\d.]+)" r="5"', explorer.picture)
        assert circle
        curve = re.search(r'<path d="(M\d+ [\d.VH]+)" fill="none"', explorer.picture)
        assert curve
        heights = [float(y) for y in re.findall(r"V([\d.]+)", curve[1])]
        assert min(heights) == float(circle[1])
        line = re.search(r'd="M64 ([\d.]+)H548"', explorer.picture)
        assert line
        assert float(line[1]) <= min(heights)  # the budget lies above the curve


def test_point_of_the_plan_lies_on_the_predicted_curve() -> None:
    explorer = explore_budget(CHAIN, MEASURED)
    for budget in budgets(explorer):
        explorer.choose(budget=budget)
        corners = re.search(r'points="([^"]+)"', explorer.picture)
        point = re.search(
            r'<circle cx="([\d.]+)" cy="([\d.]+)" r="7"', explorer.picture
        )
        assert corners
        assert point
        assert f"{point[1]},{point[2]}" in corners[1].split()


def test_measured_points_are_drawn_with_their_names() -> None:
    picture = explore_budget(CHAIN, MEASURED).picture
    assert "<title>k = 4</title>" in picture
    assert "measured" in picture
    assert "measured" not in explore_budget(CHAIN).picture


def test_names_of_measured_points_are_text() -> None:
    explorer = explore_budget(CHAIN, {"<b>": (10 * MEBIBYTE, 1.4)})
    assert "<b>" not in explorer.picture


@pytest.mark.parametrize("n_stages", [1, 2, 60])
def test_chains_of_any_length_fit_the_picture(n_stages: int) -> None:
    stages = [Stage(f"{i}", 10 + i % 3, 60, 1.0, 2.0, 5, 7) for i in range(n_stages)]
    explorer = explore_budget(Chain(stages, input_bytes=10))
    for budget in budgets(explorer):
        explorer.choose(budget=budget)
        assert "could not be drawn" not in explorer.summary
        lines = [
            text.text or ""
            for text in svg_of(explorer).iter("text")
            if text.get("font-weight") == "bold"
        ]
        assert len(lines) <= 2
        assert max(map(len, lines)) <= 68


def test_twin_is_a_table_of_budgets_without_what_differs_between_machines() -> None:
    twin = explore_budget(CHAIN, MEASURED).twin_html()
    assert twin == explore_budget(CHAIN).twin_html()
    assert "<table>" in twin
    assert str(plan_store_all(CHAIN)) in twin
    for times in ("3.48 times", "1.00 times"):  # its ends
        assert times in twin
