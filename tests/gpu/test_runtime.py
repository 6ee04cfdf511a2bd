"""Checkpoints and plans on a GPU give what the plain run gives."""

import copy

import pytest
import torch
from torch import nn

from ckptlab import models
from ckptlab.memory.profile import profile_chain
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import plan_every
from ckptlab.planning.replay import replay
from ckptlab.runtime.execute import apply_plan
from ckptlab.runtime.recompute import checkpoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
]


def step(model: nn.Module, x: torch.Tensor, *, cast: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    with torch.autocast("cuda", torch.bfloat16, enabled=cast):
        loss = model(x).square().sum()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [loss.detach(), *gradients, torch.cuda.get_rng_state()]


def transformer(n_blocks: int) -> nn.Sequential:
    blocks = [models.Block(heads=8, hidden=256, dropout=0.2) for _ in range(n_blocks)]
    return nn.Sequential(*blocks).cuda()


@pytest.mark.parametrize("cast", [True, False])
def test_step_under_a_plan_is_the_plain_one(cast: bool) -> None:
    model = transformer(6)
    planned = apply_plan(copy.deepcopy(model), "1 (2 (3 4) 5) (6)")
    x = torch.randn(4, 64, 256, device="cuda")
    for one, other in zip(
        step(model, x, cast=cast), step(planned, x, cast=cast), strict=True
    ):
        assert torch.equal(one, other)


def test_peak_of_the_allocator_follows_the_plan() -> None:
    model = transformer(12)
    x = torch.randn(8, 256, 256, device="cuda")
    chain = profile_chain(model, x)

    def peak_bytes(plan: Plan) -> int:
        model.zero_grad()
        planned = apply_plan(model, plan)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        planned(x).sum().backward()
        return torch.cuda.max_memory_allocated() - before

    store_all, every = (
        Plan.parse(" ".join(map(str, range(1, 13)))),
        plan_every(chain, 3),
    )
    peak_bytes(store_all)  # the workspaces of the libraries come with the first
    saved_bytes = peak_bytes(store_all) - peak_bytes(every)
    predicted = replay(chain, store_all).peak_bytes - replay(chain, every).peak_bytes
    assert saved_bytes == pytest.approx(predicted, rel=0.1)


def test_function_with_tensors_on_both_devices() -> None:
    layer = nn.Linear(64, 64).cuda()

    def function(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.dropout(layer(x)).cpu()
        return (nn.functional.dropout(hidden) * scale).exp()

    x = torch.randn(8, 64, device="cuda", requires_grad=True)
    scale = torch.randn(64, requires_grad=True)

    def gradients(run: object) -> list[torch.Tensor]:
        torch.manual_seed(0)
        return list(torch.autograd.grad(run(x, scale).sum(), [x, scale]))

    plain = gradients(function)
    again = gradients(lambda x, scale: checkpoint(function, x, scale))
    for one, other in zip(plain, again, strict=True):
        assert torch.equal(one, other)
