"""The probes on a GPU, beside what its allocator says."""

import pytest
import torch
from torch import nn

from ckptlab import models
from ckptlab.memory.limit import memory_limit
from ckptlab.memory.profile import profile_chain
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.timeline import memory_timeline

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]


def block() -> nn.Module:
    return models.Block(heads=8, hidden=512).cuda()


def test_timeline_explains_the_allocators_peak() -> None:
    model = block()
    x = torch.randn(8, 256, 512, device="cuda")
    model(x).sum().backward()  # the workspaces of the libraries come with the first
    model.zero_grad()
    with memory_timeline(model) as timeline:
        model(x).sum().backward()
    [allocator] = timeline.allocators
    assert allocator.peak_bytes == torch.cuda.max_memory_allocated()
    assert allocator.peak_bytes == (
        timeline.peak_bytes + allocator.rounding_bytes + allocator.unseen_bytes
    )
    assert 0 <= allocator.rounding_bytes < 512 * len(timeline.alive_at_peak)
    assert 0 <= allocator.unseen_bytes < timeline.peak_bytes // 4


def test_timeline_of_a_gpu_leaves_out_what_is_on_the_cpu() -> None:
    model = models.mlp(width=512, depth=4).cuda()
    x = torch.randn(256, 512, device="cuda")
    with memory_timeline(model) as plain:
        model(x).sum().backward()
    model.zero_grad()
    with memory_timeline(model) as offloaded:
        with torch.autograd.graph.save_on_cpu():
            loss = model(x).sum()
        loss.backward()
    assert offloaded.peak_bytes < plain.peak_bytes


def test_probes_count_on_a_gpu_what_they_count_on_a_cpu() -> None:
    def count(device: str) -> tuple[int, int, int, list[int]]:
        model = models.Block(heads=8, hidden=256).to(device)
        x = torch.randn(4, 64, 256, device=device)
        with saved_tensors(model) as saved:
            model(x)
        with memory_timeline(model) as timeline:
            loss = model(x).sum()
        del loss
        chain = profile_chain([model, model], x)
        stages = [stage.saved_bytes for stage in chain.stages]
        return (saved.total_bytes, saved.input_bytes, timeline.peak_bytes, stages)

    assert count("cuda") == count("cpu")


def test_limit_holds_on_a_gpu() -> None:
    with memory_limit("1 MiB"), pytest.raises(torch.OutOfMemoryError, match="2 MiB"):
        torch.zeros(2 * 2**20, dtype=torch.uint8, device="cuda")


def test_profile_leaves_the_random_state_of_the_gpu() -> None:
    before = torch.cuda.get_rng_state()
    profile_chain([block()], torch.randn(2, 64, 512, device="cuda"))
    assert torch.equal(torch.cuda.get_rng_state(), before)
