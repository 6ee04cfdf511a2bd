"""The explorer of large models on one GPU, against the paper's formulas by hand."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import product

import pytest

from ckptlab import TransformerShape, explore_models_against_a_gpu, format_bytes
from ckptlab.course import palette
from ckptlab.course.explorers.explorer import Explorer

# Korthikanti et al. 2022, Table 3: heads, hidden, layers, micro-batch, pipeline, m
TABLE_3 = {
    "22B": (64, 6144, 48, 4, 1, 1),
    "175B": (96, 12288, 96, 1, 8, 3),
    "530B": (128, 20480, 105, 1, 35, 3),
    "1T": (160, 25600, 128, 1, 64, 1),
}
TECHNIQUES = (
    "tensor",
    "tensor+sequence",
    "tensor+selective",
    "tensor+sequence+selective",
    "full",
)
GPU_BYTES = 80e9
CASES = list(product(TABLE_3, TECHNIQUES))
S, T, V = 2048, 8, 51200


def expected_bytes(model: str, technique: str) -> tuple[float, float]:
    """State and activations of one GPU, from Table 2 and Section 4.3 of the paper."""
    a, h, layers, b, p, m = TABLE_3[model]
    core = 5 * a * S / (h * T)
    a_layer = {
        "tensor": 10 + 24 / T + core,
        "tensor+sequence": 34 / T + core,
        "tensor+selective": 10 + 24 / T,
        "tensor+sequence+selective": 34 / T,
        "full": 2,
    }[technique]
    interleaving = 1 + (p - 1) / (p * m) if m > 1 else 1
    split = T if "sequence" in technique else 1
    extra = S * b * h * p / split
    if p == 1:
        extra += 4 * S * b * h / split + 4 * S * b * V / T
    n_parameters = layers * (12 * h**2 + 13 * h) + (V + S) * h + 2 * h
    state = 16 * n_parameters / (T * p)
    return state, S * b * h * layers * a_layer * interleaving + extra


@pytest.fixture
def explorer() -> Explorer:
    shapes = {
        name: TransformerShape(
            a, h, layers, S, b, tensor_parallel=T, pipeline_parallel=p
        )
        for name, (a, h, layers, b, p, _) in TABLE_3.items()
    }
    stages = {name: row[-1] for name, row in TABLE_3.items() if row[-1] > 1}
    return explore_models_against_a_gpu(shapes, interleaved_stages=stages)


def bars(picture: str) -> list[tuple[float, float]]:
    """Widths of each row's two bars; the legend's squares left out."""
    widths: dict[str, list[float]] = {palette.WEIGHT: [], palette.KEPT: []}
    for rect in ElementTree.fromstring(picture).iter("rect"):
        if rect.attrib["height"] == "24":
            widths[rect.attrib["fill"]].append(float(rect.attrib["width"]))
    return list(zip(widths[palette.WEIGHT], widths[palette.KEPT], strict=True))


@pytest.mark.parametrize(("model", "technique"), CASES)
def test_sentence_tells_what_the_paper_counts_and_whether_it_fits(
    explorer: Explorer, model: str, technique: str
) -> None:
    explorer.choose(model=model, technique=technique)
    state, activations = expected_bytes(model, technique)
    told = re.findall(r"[\d.]+ [KMG]iB", explorer.summary)
    gap = GPU_BYTES - state - activations
    amounts = (state, activations, state + activations, abs(gap))
    assert told == [format_bytes(amount) for amount in amounts]
    assert explorer.summary.startswith(f"{model}: ")
    assert ("that fits" in explorer.summary) == (gap >= 0)
    assert ("does not fit" in explorer.summary) == (gap < 0)


@pytest.mark.parametrize("model", TABLE_3)
def test_bars_and_line_share_one_scale(explorer: Explorer, model: str) -> None:
    explorer.choose(model=model)
    drawing = ElementTree.fromstring(explorer.picture)
    (line,) = drawing.iter("line")
    left = next(
        float(rect.attrib["x"])
        for rect in drawing.iter("rect")
        if rect.attrib["height"] == "24"
    )
    pixels_a_byte = (float(line.attrib["x1"]) - left) / GPU_BYTES
    found = bars(explorer.picture)
    assert len(found) == len(TECHNIQUES)
    for technique, widths in zip(TECHNIQUES, found, strict=True):
        expected = [n * pixels_a_byte for n in expected_bytes(model, technique)]
        assert widths == pytest.approx(expected, abs=0.2)


@pytest.mark.parametrize(("model", "technique"), CASES)
def test_picture_names_its_sentence_and_marks_the_chosen_row_alone(
    explorer: Explorer, model: str, technique: str
) -> None:
    explorer.choose(model=model, technique=technique)
    drawing = ElementTree.fromstring(explorer.picture)
    assert drawing.attrib["aria-label"] == explorer.summary
    labels = [t.text or "" for t in drawing.iter("text") if t.get("x") == "196"]
    is_marked = [label.strip().startswith("▸") for label in labels]
    assert is_marked == [one == technique for one in TECHNIQUES]


def test_longest_bar_of_all_models_stays_clear_of_the_amounts(
    explorer: Explorer,
) -> None:
    for model in TABLE_3:
        explorer.choose(model=model)
        assert max(sum(pair) for pair in bars(explorer.picture)) <= 270.2


def test_twin_lists_every_model_with_every_technique(explorer: Explorer) -> None:
    cells = re.findall("<td>(.*?)</td>", explorer.twin_html())
    expected = []
    for technique, model in product(TECHNIQUES, TABLE_3):
        total = sum(expected_bytes(model, technique))
        fits = "fits" if total <= GPU_BYTES else "too much"
        expected.append(f"{format_bytes(total)}, {fits}")
    assert cells == expected


def test_memory_of_the_gpu_can_be_chosen() -> None:
    shape = TransformerShape(64, 6144, 48, S, 4, tensor_parallel=T)
    explorer = explore_models_against_a_gpu({"22B": shape}, gpu_memory="141 GB")
    assert "On a GPU with 141 GB that fits" in explorer.summary
