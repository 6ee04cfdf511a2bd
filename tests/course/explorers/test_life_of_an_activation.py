"""The explorer of one activation's life: every moment, in words and in the picture."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from ckptlab import explore_life_of_an_activation, plot_lives_of_activations
from ckptlab.course import palette
from ckptlab.course.explorers.explorer import Explorer

# layers 2 to 4 are inside a checkpoint; the output of layer 4 is kept at first
LIVES = {
    "Layer 1": [(1, 20)],
    "Layer 2": [(2, 4), (12, 19)],
    "Layer 3": [(3, 6), (13, 17)],
    "Layer 4": [(5, 11), (14, 18)],
    "Layer 5": [(7, 10)],
}
MOMENTS = {
    "produced": 3,
    "discarded": 6,
    "backward": 8,
    "again": 13,
    "used": 16,
    "freed": 17,
}
LIVE_BYTES = [1024 * (step + 1) for step in range(21)]


@pytest.fixture
def explorer() -> Explorer:
    return explore_life_of_an_activation(
        LIVES, followed="Layer 3", moments=MOMENTS, live_bytes=LIVE_BYTES
    )


def states(picture: str) -> list[str]:
    """The word under each layer's square."""
    words = "not yet|again|made|kept|gone|freed"
    return re.findall(rf">({words})</text>", picture)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("produced", ["kept", "made", "made", "not yet", "not yet"]),
        ("discarded", ["kept", "gone", "gone", "kept", "not yet"]),
        ("backward", ["kept", "gone", "gone", "kept", "kept"]),
        ("again", ["kept", "again", "again", "gone", "freed"]),
        ("used", ["kept", "again", "again", "again", "freed"]),
        ("freed", ["kept", "again", "freed", "again", "freed"]),
    ],
)
def test_squares_say_where_each_activation_is(
    explorer: Explorer, moment: str, expected: list[str]
) -> None:
    explorer.choose(moment=moment)
    assert states(explorer.picture) == expected


@pytest.mark.parametrize("moment", MOMENTS)
def test_sentence_names_what_is_in_memory_and_how_much(
    explorer: Explorer, moment: str
) -> None:
    explorer.choose(moment=moment)
    step = MOMENTS[moment]
    assert f"After operation {step} of 20" in explorer.summary
    assert f"Live in all: {step + 1} KiB" in explorer.summary
    told = explorer.summary.partition("In memory now:")[2]
    alive = {
        layer.lower()
        for layer, spans in LIVES.items()
        if any(step in range(*span) for span in spans)
    }
    assert set(re.findall(r"layer \d", told)) == alive


@pytest.mark.parametrize("moment", MOMENTS)
def test_as_many_squares_are_filled_as_activations_are_in_memory(
    explorer: Explorer, moment: str
) -> None:
    explorer.choose(moment=moment)
    root = ElementTree.fromstring(explorer.picture)
    squares = [rect for rect in root.iter("rect") if rect.get("width") == "26"]
    fills = [rect.get("fill") for rect in squares]
    n_alive = sum(
        MOMENTS[moment] in range(*span) for spans in LIVES.values() for span in spans
    )
    assert len(squares) == 5
    assert len(squares) - fills.count("none") == n_alive
    assert root.get("role") == "img"
    assert root.get("aria-label") == explorer.summary


def test_green_bar_spans_the_second_life(explorer: Explorer) -> None:
    root = ElementTree.fromstring(explorer.picture)
    (bar,) = (r for r in root.iter("rect") if r.get("fill") == palette.RECOMPUTED)
    left, width = float(bar.get("x", "")), float(bar.get("width", ""))
    per_operation = (560 - 16) / 20
    assert left == pytest.approx(8 + 13 * per_operation, abs=0.1)
    assert width == pytest.approx(4 * per_operation, abs=0.1)


def test_dot_stands_on_the_curve(explorer: Explorer) -> None:
    explorer.choose(moment="again")
    root = ElementTree.fromstring(explorer.picture)
    (dot,) = root.iter("circle")
    (curve,) = (p for p in root.iter("path") if len(p.get("d", "")) > 200)
    corner = f"H{dot.get('cx')}V{dot.get('cy')}"
    assert corner in curve.get("d", "")


def test_frame_holds_the_layers_that_live_twice(explorer: Explorer) -> None:
    root = ElementTree.fromstring(explorer.picture)
    (frame,) = (r for r in root.iter("rect") if r.get("rx") == "8")
    left = float(frame.get("x", ""))
    right = left + float(frame.get("width", ""))
    inside = [
        text.text
        for text in root.iter("text")
        if (text.text or "").startswith("Layer")
        and left < float(text.get("x", "")) < right
    ]
    assert inside == ["Layer 2", "Layer 3", "Layer 4"]


def test_twin_lists_every_moment_and_says_what_is_simplified(
    explorer: Explorer,
) -> None:
    twin = explorer.twin_html()
    rows = re.findall(r'<th scope="row">\d\. [^<]+</th><td>(\d+)</td>', twin)
    assert [int(row) for row in rows] == list(MOMENTS.values())
    assert "Simplified: a layer is one box." in twin


def test_figure_counts_what_is_alive_when_the_backward_pass_starts() -> None:
    picture = plot_lives_of_activations(LIVES, backward_starts=8)
    assert picture.finding == (
        "3 of 5 activations are in memory when the backward pass starts"
    )
    words = re.findall(r">(kept|discarded|made again)</text>", picture.svg)
    assert sorted(words) == sorted(
        ["kept"] * 3 + ["discarded"] * 2 + ["made again"] * 3
    )
