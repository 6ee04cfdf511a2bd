"""Figures say what they show, and draw the same bytes for the same numbers."""

import re

from ckptlab import (
    plot_growth_with_tokens,
    plot_live_activations,
    plot_time_against_memory,
)
from ckptlab.course import palette

TOKENS = [256, 512, 1024]
MIB = 2**20


def test_growth_with_tokens_names_its_curves_and_finds_their_ratio() -> None:
    texts, longer = [n * MIB for n in (20, 40, 80)], [n * MIB for n in (20, 50, 250)]
    picture = plot_growth_with_tokens(TOKENS, texts, longer, 27 * MIB)
    assert picture.finding == "In one long text the same tokens keep 3.1 times as much"
    for word in ("weights", "one longer text", "more texts of 256 tokens"):
        assert word in picture.svg
    colors = set(re.findall(r"#[0-9a-f]{6}", picture.svg.lower()))
    assert {palette.KEPT.lower(), palette.WEIGHT.lower()} <= colors
    again = plot_growth_with_tokens(TOKENS, texts, longer, 27 * MIB)
    assert again.svg == picture.svg


def test_live_activations_name_each_peak_and_where_the_backward_pass_begins() -> None:
    runs = {
        "1 2": (([1, 3, 5, 2], 2), ([1, 3, 5, 2], 2)),
        "(1 2)": (([1, 2, 4, 2], 1), ([1, 4, 2], 1)),
    }
    picture = plot_live_activations(runs)
    assert picture.finding == "Activations at the peak: 5 under 1 2, 4 under (1 2)"
    assert picture.svg.count(">peak 5<") == picture.svg.count(">peak 4<") == 2
    assert picture.svg.count(">backward<") == 4
    assert plot_live_activations(runs).svg == picture.svg


def test_time_against_memory_says_what_half_and_least_memory_cost() -> None:
    curve = [(5 * MIB, 3.5), (9 * MIB, 1.25), (12 * MIB, 1.2), (19 * MIB, 1.0)]
    measured = {
        "best plans": {"5 MiB": (5 * MIB, 3.9)},
        "every k": {"k = 2": (12 * MIB, 1.3), "k = 8": (12 * MIB, 1.4)},
    }
    picture = plot_time_against_memory(curve, measured)
    finding = "Half the memory takes 1.25 times the work; the least, 3.5 times"
    assert picture.finding == finding
    for word in ("5 MiB", "k = 8, k = 2", "best plans", "every k", "predicted"):
        assert word in picture.svg
    assert plot_time_against_memory(curve, measured).svg == picture.svg
