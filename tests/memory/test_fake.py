"""Models without their memory: built, run, probed, and no data allocated."""

import psutil
import pytest
import torch
from torch import nn

from ckptlab import models
from ckptlab.memory.fake import without_memory
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.storage import count_bytes, parameter_bytes


def rss_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def small_gpt() -> nn.Module:
    return models.GPT(heads=2, hidden=16, layers=2, sequence=32, vocabulary=64)


def test_model_of_many_terabytes_is_built_run_and_trained_in_no_memory() -> None:
    with without_memory():
        nn.Linear(8, 8)  # what loads at the first use is not counted
    before = rss_bytes()
    with without_memory():
        model = nn.Sequential(nn.Linear(10**6, 10**6), nn.ReLU())
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(32, 10**6)).sum().backward()
        optimizer.step()
    assert parameter_bytes(model) == 4 * (10**12 + 10**6)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert count_bytes(gradients) == parameter_bytes(model)
    assert rss_bytes() - before < 200 * 2**20


@pytest.mark.parametrize("train", [True, False])
def test_probe_finds_the_same_on_fake_tensors_as_on_real_ones(train: bool) -> None:
    def measure() -> tuple[int, int, list[str]]:
        model = small_gpt().train(train)
        tokens = torch.zeros(2, 32, dtype=torch.long)
        with saved_tensors(model) as saved:
            loss = model(tokens).sum()
        loss.backward()
        return saved.total_bytes, saved.input_bytes, [repr(t) for t in saved.tensors]

    real = measure()
    with without_memory():
        fake = measure()
    assert fake == real
    assert fake[0] > 0


def test_tensor_made_outside_is_taken_for_a_fake_one() -> None:
    outside = torch.ones(4, 8)
    model = nn.Linear(8, 2)
    with without_memory():
        made = model(outside)
    assert made.shape == (4, 2)
    assert outside.sum() == 32  # and stays what it is


def test_contexts_nest_and_end_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), without_memory(), without_memory():
        raise ZeroDivisionError
    assert torch.ones(2).sum().item() == 2
    assert torch.utils._python_dispatch._len_torch_dispatch_stack() == 0
