"""The explorer of four layers, against counts that ask nothing of `replay`."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import product

import pytest

from ckptlab import explore_four_layers
from ckptlab.course import palette
from ckptlab.course.explorers.explorer import Explorer
from ckptlab.course.explorers.four_layers import plan_that_keeps

CASES = list(product((False, True), repeat=3))
SVG = "{http://www.w3.org/2000/svg}"
PLANS = {
    (False, False, False): "(1 2 3 4)",
    (False, False, True): "(1 2 3) 4",
    (False, True, False): "(1 2) (3 4)",
    (False, True, True): "(1 2) 3 4",
    (True, False, False): "1 (2 3 4)",
    (True, False, True): "1 (2 3) 4",
    (True, True, False): "1 2 (3 4)",
    (True, True, True): "1 2 3 4",
}


def expected_peak(kept: list[int]) -> int:
    """Backward through each segment: what is kept below it, all of it, and three more.

    The three are the input, and the gradients of one layer's output and input.
    """
    below = [0, *kept[:-1]]
    sizes = [last - first for first, last in zip(below, kept, strict=True)]
    return max(3 + place + size for place, size in enumerate(sizes))


def chosen(explorer: Explorer, switches: tuple[bool, ...]) -> list[int]:
    explorer.choose(**{f"layer_{n}": on for n, on in enumerate(switches, start=1)})
    return [n for n, on in enumerate((*switches, True), start=1) if on]


def texts(picture: str) -> list[str]:
    root = ElementTree.fromstring(
        picture.replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ')
    )
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return explore_four_layers()


@pytest.mark.parametrize("switches", CASES)
def test_sentence_says_plan_count_recomputations_and_peak(
    explorer: Explorer, switches: tuple[bool, ...]
) -> None:
    kept = chosen(explorer, switches)
    again = [n for n in range(1, 5) if n not in kept]
    start, _, rest = explorer.summary.partition(" in memory when")
    made, _, peak = rest.partition("With the input")
    assert start.startswith(f"Plan {PLANS[switches]}: {len(kept)} activation")
    of_layers, _, made_again = made.partition(";")
    assert re.findall(r"\d", of_layers) == list(map(str, kept))
    assert re.findall(r"\d", made_again) == list(map(str, again))
    assert ("nothing is made again" in made_again) == (not again)
    assert f"{expected_peak(kept)} are live at the peak" in peak
    assert ("runs again at once" in peak) == (kept == [4])


@pytest.mark.parametrize("switches", CASES)
def test_picture_shows_which_are_kept_and_every_run(
    explorer: Explorer, switches: tuple[bool, ...]
) -> None:
    kept = chosen(explorer, switches)
    shown = texts(explorer.picture)
    assert f"Plan: {PLANS[switches]}" in shown
    assert shown.count("kept") == len(kept)
    assert shown.count("discarded") == 4 - len(kept)
    assert explorer.picture.count("stroke-dasharray") - 1 == 4 - len(kept)
    assert f"▼{expected_peak(kept)}" in shown
    assert f"backward pass, begins with {len(kept)} kept" in shown
    n_again = sum(
        last - first
        for first, last in zip([0, *kept[:-1]], kept, strict=True)
        if last - first > 1
    )
    assert shown.count("run") == shown.count("back") == 4
    assert shown.count("redo") == n_again
    assert explorer.picture.count(f'fill="{palette.RECOMPUTED}"') == n_again
    assert f'aria-label="{explorer.summary}"' in explorer.picture


@pytest.mark.parametrize("switches", CASES)
def test_bars_are_as_high_as_their_numbers(
    explorer: Explorer, switches: tuple[bool, ...]
) -> None:
    chosen(explorer, switches)
    bars = re.findall(
        r'height="([\d.]+)" fill="#\w+"/>\n<text [^>]*>▼?(\d+)<', explorer.picture
    )
    assert len(bars) >= 9
    for height, number in bars:
        assert float(height) == pytest.approx(128 / 7 * int(number), abs=0.1)


def test_twin_lists_all_eight_settings(explorer: Explorer) -> None:
    twin = explorer.twin_html()
    rows = re.findall(r'<th scope="row">(.*?)</th>.*?<td>(\d)</td></tr>', twin)
    assert {plan: int(peak) for plan, peak in rows} == {
        plan: expected_peak([n for n, on in enumerate((*switches, True), 1) if on])
        for switches, plan in PLANS.items()
    }


def test_last_layer_is_kept_whatever_is_asked() -> None:
    assert str(plan_that_keeps([], n_layers=1)) == "1"
    assert str(plan_that_keeps([], n_layers=3)) == "(1 2 3)"
    assert plan_that_keeps([3, 6, 7], n_layers=8).kept == (3, 6, 7, 8)
