"""Stages under a plan: the plain run's bits, replay's counts, replay's peak."""

import copy
import subprocess
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ckptlab import models
from ckptlab.errors import ModelError, PlanError, RecomputationError
from ckptlab.memory.profile import profile_chain
from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import plan_every, plan_for_budget, plan_store_all
from ckptlab.planning.replay import replay
from ckptlab.runtime import surroundings
from ckptlab.runtime.execute import apply_plan
from ckptlab.runtime.used import Used
from tests.memory.steps import measured_peak

WIDTH, BATCH = 16, 4


class Twice(nn.Module):
    """Takes and gives a pair."""

    def forward(self, pair: Any) -> Any:
        first, second = pair if isinstance(pair, tuple) else (pair, pair)
        return first.sin(), second * 2


class Once(nn.Module):
    """Takes a pair or a tensor, and gives a tensor."""

    def forward(self, pair: Any) -> torch.Tensor:
        result: torch.Tensor = pair[0] * pair[1] if isinstance(pair, tuple) else pair
        return result.cos()


def linear() -> nn.Module:
    return nn.Sequential(Once(), nn.Linear(WIDTH, WIDTH), nn.ReLU())


def with_dropout() -> nn.Module:
    return nn.Sequential(Once(), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.4))


def with_norm() -> nn.Module:
    return nn.Sequential(Once(), nn.BatchNorm1d(WIDTH), nn.Tanh())


STAGES = st.sampled_from([linear, with_dropout, with_norm, Twice, Once])


@st.composite
def plans(draw: st.DrawFn, first: int, last: int, depth: int = 0) -> str:
    """Any plan for stages first to last, with parentheses up to four deep."""
    items = []
    number = first
    while number <= last:
        end = draw(st.integers(number, last))
        is_whole = (number, end) == (first, last) and depth > 0
        if draw(st.booleans()) and depth < 4 and not is_whole:
            items.append(f"({draw(plans(number, end, depth + 1))})")
            number = end + 1
        else:
            items.append(str(number))
            number += 1
    return " ".join(items)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Any], Plan]:
    kinds = draw(st.lists(STAGES, min_size=1, max_size=8))
    # one that every network has, so that there is something to train
    kinds.insert(draw(st.integers(0, len(kinds))), linear)
    return kinds, Plan.parse(draw(plans(1, len(kinds))))


def step(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor | None]:
    torch.manual_seed(1)
    x = x.clone().requires_grad_()
    value = model(x)
    outputs = value if isinstance(value, tuple) else (value,)
    sum((output * output).sum() for output in outputs).backward()
    return [
        *(output.detach() for output in outputs),
        x.grad,
        *(parameter.grad for parameter in model.parameters()),
        *model.buffers(),
        torch.get_rng_state(),
    ]


@settings(max_examples=150, deadline=None)
@given(cases())
def test_step_under_any_plan_is_the_plain_one_and_runs_what_replay_says(
    case: tuple[list[Any], Plan],
) -> None:
    kinds, plan = case
    layers = nn.Sequential(*[kind() for kind in kinds])
    planned = apply_plan(copy.deepcopy(layers), plan)
    runs: Counter[int] = Counter()
    for number in range(len(kinds)):
        planned.get_submodule(str(number)).register_forward_pre_hook(
            lambda module, given, number=number: runs.update([number + 1])
        )
    x = torch.randn(BATCH, WIDTH)
    for one, other in zip(step(layers, x), step(planned, x), strict=True):
        if one is None:
            assert other is None
        else:
            assert other is not None
            assert torch.equal(one, other)
    ledger = replay(Chain.uniform(len(kinds)), plan)
    assert dict(runs) == ledger.forward_runs


def transformer() -> nn.Sequential:
    return nn.Sequential(*[models.Block(heads=4, hidden=64) for _ in range(12)])


def uneven(last: type[nn.Module] = nn.Sigmoid) -> nn.Sequential:
    """Stages of unlike sizes."""
    widths = [64, 256, 64, 512, 128, 128, 64, 32, 256, 256, 64, 128, 64, 64]
    return nn.Sequential(
        *[
            nn.Sequential(nn.Linear(one, two), nn.Tanh(), nn.Linear(two, two), last())
            for one, two in zip([64, *widths], widths, strict=False)
        ]
    )


PLANS = ["store all", "every 3", "nested", "tight", "half"]


def plan_of_kind(chain: Chain, kind: str) -> Plan:
    n_stages = len(chain)
    store_all = replay(chain, plan_store_all(chain)).peak_bytes
    if kind == "store all":
        return plan_store_all(chain)
    if kind == "every 3":
        return plan_every(chain, 3)
    if kind == "nested":
        tail = " ".join(map(str, range(9, n_stages + 1)))
        return Plan.parse(f"1 (2 (3 4) 5 (6 (7 8))) ({tail})")
    smallest = min(replay(chain, plan_every(chain, 1)).peak_bytes, store_all)
    budget = smallest if kind == "tight" else (smallest + store_all) // 2
    return plan_for_budget(chain, budget)


@pytest.mark.parametrize("make", [transformer, uneven])
@pytest.mark.parametrize("kind", PLANS)
def test_measured_peak_is_that_of_replay_within_two_percent(
    make: Any, kind: str
) -> None:
    model = make()
    x = torch.randn(2, 32, 64, requires_grad=True)
    chain = profile_chain(model, x)
    plan = plan_of_kind(chain, kind)
    measured_bytes = measured_peak(apply_plan(model, plan), x)
    predicted_bytes = replay(chain, plan).peak_bytes
    assert measured_bytes == pytest.approx(predicted_bytes, rel=0.02)


@pytest.mark.parametrize("kind", PLANS)
def test_measured_peak_is_no_higher_where_a_stage_does_not_keep_its_output(
    kind: str,
) -> None:
    """GELU keeps its input, and replay counts the output until the stage's backward."""
    model = uneven(nn.GELU)
    x = torch.randn(2, 32, 64, requires_grad=True)
    chain = profile_chain(model, x)
    plan = plan_of_kind(chain, kind)
    measured_bytes = measured_peak(apply_plan(model, plan), x)
    predicted_bytes = replay(chain, plan).peak_bytes
    assert 0.85 * predicted_bytes < measured_bytes < predicted_bytes


def test_module_has_the_names_modes_and_moves_of_its_stages() -> None:
    layers = nn.Sequential()
    layers.add_module("first", nn.Linear(WIDTH, WIDTH))
    layers.add_module("norm", nn.BatchNorm1d(WIDTH))
    layers.add_module("again", layers.first)
    model = apply_plan(layers.eval(), "(1 2) 3")
    assert list(model.state_dict()) == list(layers.state_dict())
    assert [*model.parameters()] == [*layers.parameters()]
    assert not model.training
    assert model.train().norm.training
    model.load_state_dict(layers.state_dict())
    assert model.to(torch.float64).first.weight.dtype is torch.float64
    assert model.to("meta").norm.running_mean.device.type == "meta"
    assert len(model) == 3
    assert "plan='(1 2) 3'" in repr(model)


def test_copy_runs_its_own_stages() -> None:
    model = apply_plan(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), "(1 2)")
    other = copy.deepcopy(model)
    with torch.no_grad():
        model.get_submodule("0").weight.zero_()
        model.get_submodule("0").bias.zero_()
    assert model(torch.ones(1, WIDTH)).abs().sum() == 0
    assert other(torch.ones(1, WIDTH)).abs().sum() > 0


def test_stages_may_be_functions_and_the_first_may_take_several_inputs() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    stages = [lambda x, y: x * y, layer, torch.tanh, lambda x: (x, 2.0), lambda p: p[0]]
    model = apply_plan(stages, "(1 2) (3 (4 5))")
    x, y = torch.randn(2, WIDTH), torch.randn(2, WIDTH)
    assert torch.equal(model(x, y), torch.tanh(layer(x * y)))
    assert list(model.state_dict()) == ["1.weight", "1.bias"]
    model(x, y).sum().backward()
    assert layer.weight.grad is not None


def test_stages_may_be_empty_and_have_any_name() -> None:
    layers = nn.Sequential(OrderedDict(plan=nn.Linear(2, 2), empty=nn.Sequential()))
    model = apply_plan(layers, "(1 2)")
    model(torch.ones(1, 2)).sum().backward()
    assert list(model.state_dict()) == ["plan.weight", "plan.bias"]
    assert str(model.plan) == "(1 2)"


def test_nothing_is_run_again_where_no_gradient_is_wanted() -> None:
    model = apply_plan(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), "(1 2)")
    calls = []
    model.get_submodule("1").register_forward_hook(lambda *args: calls.append(1))
    with torch.no_grad():
        assert not model(torch.ones(1, WIDTH)).requires_grad
    assert len(calls) == 1


def test_plan_can_be_changed_between_steps() -> None:
    model = apply_plan(nn.Sequential(nn.Tanh(), nn.Tanh()), "1 2")
    model.plan = Plan.parse("(1 2)")
    assert str(model.plan) == "(1 2)"
    with pytest.raises(PlanError, match="stages 1 to 3, but there are stages 1 to 2"):
        model.plan = Plan.parse("1 2 3")
    assert str(model.plan) == "(1 2)"


def nested_plan(depth: int) -> str:
    opened = " ".join(f"({number}" for number in range(1, depth + 1))
    return f"{opened} {depth + 1}" + ")" * depth


def test_plan_runs_as_deep_as_it_is_let_and_is_refused_beyond() -> None:
    limit = sys.getrecursionlimit() // 5
    used = 60  # levels' worth of frames under pytest
    layers = nn.Sequential(*[nn.Linear(2, 2) for _ in range(limit - used + 1)])
    apply_plan(layers, nested_plan(limit - used))(torch.ones(1, 2)).sum().backward()
    assert layers[0].weight.grad is not None
    deeper = nn.Sequential(*[nn.Tanh() for _ in range(limit + 2)])
    with pytest.raises(PlanError, match=rf"nests {limit + 1} deep, .* for {limit};"):
        apply_plan(deeper, nested_plan(limit + 1))


def test_parenthesis_of_modules_is_looked_into_once_and_closures_each_time() -> None:
    looked: list[bool] = []

    class Spy(Used):
        def __init__(self, roots: Iterable[object]) -> None:
            super().__init__(roots)
            looked.append(self.is_variable)

    factor = torch.ones(2)
    with mock.patch.object(surroundings, "Used", Spy):
        apply_plan([nn.Tanh(), nn.Tanh()], "(1 (2))")(torch.ones(1, 2))
        assert looked == [False, False]
        apply_plan([lambda x: x * factor], "(1)")(torch.ones(1, 2))
    assert looked == [False, False, True, True]


_BEYOND = nn.Linear(2, 2)


def _uses_a_global(x: torch.Tensor) -> torch.Tensor:
    return _BEYOND(x).sin()


def _uses_a_global_scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return _BEYOND(x).mul(factor).sin()


class _Hides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = [_BEYOND]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _uses_a_global(x)


@pytest.mark.parametrize(
    "stage",
    [_uses_a_global, _uses_a_global_scaled, partial(_uses_a_global), _Hides()],
    ids=["function", "default", "partial", "module"],
)
@pytest.mark.parametrize("plan", ["(1 2)", "(1 (2))", "((1) 2)"])
def test_parameter_that_no_stage_shows_is_not_changed_unnoticed(
    stage: Callable[[torch.Tensor], torch.Tensor], plan: str
) -> None:
    """A bias is saved nowhere: only the graph tells that it was used."""
    x = torch.ones(1, 2, requires_grad=True)
    loss = apply_plan([stage, stage], plan)(x).sum()
    with torch.no_grad():
        _BEYOND.bias.add_(1)
    with pytest.raises(RecomputationError, match="changed in place"):
        loss.backward()


def test_bad_input_gets_one_sentence() -> None:
    layers = nn.Sequential(nn.Tanh(), nn.Tanh())
    with pytest.raises(PlanError, match="is for stages 1 to 1, but there are stages 1"):
        apply_plan(layers, "1")
    with pytest.raises(PlanError, match="5 is not a plan"):
        apply_plan(layers, 5)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="stages are of type Tanh"):
        apply_plan(nn.Tanh(), "1")
    with pytest.raises(ModelError, match="stages are empty"):
        apply_plan([], "1")


def test_two_processes_train_together(root: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.runtime.data_parallel", str(tmp_path / "meet")],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
