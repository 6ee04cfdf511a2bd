"""Models without their memory: built, run, probed, and no data allocated."""

import subprocess
import sys
from contextlib import nullcontext

import psutil
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from ckptlab import models
from ckptlab.errors import RankError
from ckptlab.memory.fake import one_rank_of, without_memory
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


def test_model_of_a_trillion_parameters_is_counted_in_a_gigabyte() -> None:
    """Korthikanti et al. 2022, Table 3: 160 heads, hidden 25600, 128 layers."""
    code = """
import time, torch
from ckptlab import models, parameter_bytes, saved_tensors, without_memory
from tests.benchmarks.giants import resident_peak_bytes
torch.set_default_dtype(torch.bfloat16)
start = time.perf_counter()
with without_memory():
    model = models.GPT(
        heads=160, hidden=25600, layers=128, sequence=2048, vocabulary=51200)
    with saved_tensors(model) as saved:
        model(torch.zeros(1, 2048, dtype=torch.long))
seconds = time.perf_counter() - start
print(parameter_bytes(model), saved.total_bytes, resident_peak_bytes(), seconds)
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    n_parameter_bytes, saved_bytes, resident_bytes, seconds = run.stdout.split()
    assert int(n_parameter_bytes) == pytest.approx(2 * 1.008e12, rel=1e-4)
    # Equation 1 for each layer; what comes before and after them is a hundredth
    sequence, hidden, heads = 2048, 25600, 160
    layer_bytes = sequence * hidden * (34 + 5 * heads * sequence / hidden)
    assert int(saved_bytes) == pytest.approx(128 * layer_bytes, rel=1e-2)
    assert int(resident_bytes) < 10**9
    assert float(seconds) < 60  # about 3 on two cores


def test_tensor_made_outside_is_taken_for_a_fake_one() -> None:
    outside = torch.ones(4, 8)
    model = nn.Linear(8, 2)
    with without_memory():
        made = model(outside)
    assert made.shape == (4, 2)
    assert outside.sum() == 32  # and stays what it is


def test_training_goes_on_in_another_context() -> None:
    with without_memory():
        model = nn.Linear(4, 4)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    with without_memory():
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    assert model.weight.grad is not None


def test_contexts_nest_and_end_with_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), without_memory(), without_memory():
        raise ZeroDivisionError
    assert torch.ones(2).sum().item() == 2
    assert torch.utils._python_dispatch._len_torch_dispatch_stack() == 0


# -- one rank of many -------------------------------------------------------------


@pytest.mark.parametrize("fake", [True, False])
@pytest.mark.parametrize("n_ranks", [1, 2, 8])
def test_rank_holds_its_share_of_a_parallel_model(n_ranks: int, fake: bool) -> None:
    width = 64
    with one_rank_of(n_ranks) as mesh, without_memory() if fake else nullcontext():
        model = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)
        )
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        model = parallelize_module(model, mesh, plan)
        with saved_tensors(model) as saved:
            loss = model(torch.randn(32, width)).sum()
        loss.backward()
    assert mesh.size() == n_ranks
    # of both weights and the first bias a share, the second bias whole
    shares = (2 * 4 * width * width + 4 * width) // n_ranks + width
    assert parameter_bytes(model) == 4 * shares
    # the hidden activation, once: ReLU keeps its output, the next layer its input
    assert saved.total_bytes == 4 * 32 * 4 * width // n_ranks
    assert saved.input_bytes == 4 * 32 * width


def test_process_group_is_gone_afterwards_and_after_an_error() -> None:
    with one_rank_of(4) as mesh:
        assert (dist.get_rank(), dist.get_world_size()) == (0, 4)
        assert mesh.shape == (4,)
    assert not dist.is_initialized()
    with pytest.raises(ZeroDivisionError), one_rank_of(2):
        raise ZeroDivisionError
    assert not dist.is_initialized()


@pytest.mark.parametrize("n_ranks", [0, -1, 1.5, "8", None, True])
def test_impossible_number_of_ranks_is_refused(n_ranks: object) -> None:
    with (
        pytest.raises(RankError, match=r"n_ranks is .*; be one rank of 1"),
        one_rank_of(n_ranks),  # type: ignore[arg-type]
    ):
        pass


def test_process_that_has_a_rank_is_refused_and_keeps_it() -> None:
    with one_rank_of(4):
        with pytest.raises(RankError, match="is rank 0 of 4 already"), one_rank_of(2):
            pass
        assert dist.get_world_size() == 4
