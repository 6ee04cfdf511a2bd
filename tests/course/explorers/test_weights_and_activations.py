"""The lines that the explorer follows are what a model of every shape measures."""

import itertools
import re
from functools import cache

import pytest
import torch
from torch.nn.functional import cross_entropy

from ckptlab import models, parameter_bytes, saved_tensors
from ckptlab.course.explorers.explorer import Explorer
from ckptlab.course.explorers.weights_and_activations import (
    explore_weights_and_activations,
)
from ckptlab.units import format_bytes


@cache
def measure(batch: int, sequence: int, width: int, depth: int) -> tuple[int, int]:
    with torch.device("meta"):
        model = models.GPT(
            heads=width // 64,
            hidden=width,
            layers=depth,
            sequence=sequence,
            vocabulary=1000,
        )
        tokens = torch.zeros(batch, sequence, dtype=torch.long)
    with saved_tensors(model) as saved:
        loss = cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    assert loss.is_meta
    return parameter_bytes(model), saved.total_bytes


@pytest.fixture(scope="module")
def explorer() -> Explorer:
    return explore_weights_and_activations(measure)


@pytest.mark.parametrize(
    ("batch", "sequence", "width", "depth"),
    list(itertools.product((1, 4, 64), (64, 2048), (192, 3072), (2, 12))),
)
def test_sentence_says_what_the_whole_model_measures(
    explorer: Explorer, batch: int, sequence: int, width: int, depth: int
) -> None:
    explorer.choose(batch=batch, sequence=sequence, width=width, depth=depth)
    weights, activations = measure(batch, sequence, width, depth)
    start = f"Weights {format_bytes(weights)}, activations {format_bytes(activations)}."
    assert explorer.summary.startswith(start)
    crossover = int(
        re.findall(r"batch size ([\d,]+)\.", explorer.summary)[0].replace(",", "")
    )
    assert measure(crossover, sequence, width, depth)[1] > weights
    assert (
        crossover == 1 or measure(crossover - 1, sequence, width, depth)[1] <= weights
    )


def test_longer_bar_fills_the_scale_and_the_other_its_share(explorer: Explorer) -> None:
    explorer.choose(batch=4, sequence=64, width=192, depth=2)
    weights, activations = measure(4, 64, 192, 2)
    bars = [
        float(w) for w in re.findall(r'<rect .*?width="([\d.]+)"', explorer.picture)
    ]
    assert max(bars) == pytest.approx(360, abs=0.1)
    assert bars[0] / bars[1] == pytest.approx(weights / activations, rel=0.01)
