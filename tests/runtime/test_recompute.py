"""checkpoint() gives what the plain run gives, bit for bit, or says why it cannot."""

import copy
import functools
import gc
import random
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import psutil
import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from torch.utils.checkpoint import (
    create_selective_checkpoint_contexts,
)

from ckptlab import models
from ckptlab.errors import RecomputationError
from ckptlab.memory.fake import without_memory
from ckptlab.memory.saved import saved_tensors
from ckptlab.runtime.recompute import checkpoint
from tests.memory.allocator import allocator_record

WIDTH, BATCH = 16, 4


def some_input(**options: Any) -> torch.Tensor:
    return torch.randn(BATCH, WIDTH, **{"requires_grad": True, **options})


# -- everything that a run leaves behind --------------------------------------------


def flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from flat(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flat(item)


def trace(
    module: nn.Module,
    run: Callable[..., Any],
    arguments: dict[str, Any],
    backward: Callable[[torch.Tensor], object],
) -> list[Any]:
    """Outputs, gradients, buffers and random states after a step from one seed."""
    module = copy.deepcopy(module)
    arguments = {
        name: value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else copy.deepcopy(value)
        for name, value in arguments.items()
    }
    torch.manual_seed(3)
    random.seed(3)
    numpy.random.seed(3)
    outputs = [t for t in flat(run(module, **arguments)) if t.is_floating_point()]
    losses = [(t * t).sum() for t in outputs if t.requires_grad]
    backward(functools.reduce(torch.add, losses))
    return [
        *(output.detach() for output in outputs),
        *(output.requires_grad for output in outputs),
        *(tensor.grad for tensor in flat(arguments)),
        *(parameter.grad for parameter in module.parameters()),
        *module.buffers(),
        torch.get_rng_state(),
        random.getstate(),
        str(numpy.random.get_state()),
        [part.training for part in module.modules()],
    ]


def assert_same(plain: list[Any], other: list[Any]) -> None:
    assert len(plain) == len(other)
    for one, two in zip(plain, other, strict=True):
        if isinstance(one, torch.Tensor):
            assert isinstance(two, torch.Tensor)
            assert one.dtype == two.dtype
            assert torch.equal(one, two)
        else:
            assert one == two


# -- models ------------------------------------------------------------------------


class Row(nn.Sequential):
    """nn.Sequential, whose argument is named like that of the others."""

    def forward(self, x: torch.Tensor) -> Any:
        return super().forward(x)


class Containers(nn.Module):
    """Takes and gives all that fits into containers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, *, scale: float = 1.5) -> Any:
        inside = {"x": [x, (None, 3)], "name": "x"}
        hidden = self.linear(inside["x"][0]) * scale  # type: ignore[index]
        return {"out": (hidden.relu(), None), "count": torch.tensor(3), "text": "t"}


class Detours(nn.Module):
    """Detached, in-place, view and repeated outputs, and one that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.linear(x)
        hidden = hidden.exp()
        detached = hidden.detach() * 2
        changed = (hidden * 3).mul_(detached).sigmoid_()
        return changed, changed.view(-1)[::2], x, detached, hidden.t()


class Draws(nn.Module):
    """Random numbers of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(5)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(x.shape, generator=self.generator)
        x = self.dropout(x) * (noise + 0.1) * random.random() * numpy.random.rand()
        x = x * random.gauss(0, 1) * numpy.random.randn()
        return functional.rrelu(x, training=True).sin()

    def __deepcopy__(self, memo: Any) -> "Draws":
        return Draws()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        return self.lstm(x[None])


class PowerIteration(nn.Module):
    """A buffer that the forward pass changes and uses."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        hidden: torch.Tensor = self.linear(x)
        return hidden.tanh() * self.calls


class SavesOwn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        x, y = ctx.saved_tensors
        x, y = ctx.saved_tensors  # twice, as is allowed
        return gradient * (y + x * y)


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = SavesOwn.apply(x)
        return output.sin()


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.adapter = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.base(x) + self.adapter(x)
        return hidden.relu()


class DifferentiatesInside(nn.Module):
    """Computes a gradient in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = models.mlp(width=WIDTH, depth=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            [force] = torch.autograd.grad(
                self.energy(x).square().sum(), x, create_graph=True
            )
        return force


def dropout_mlp() -> nn.Module:
    return Row(
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(WIDTH, 3),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "MLP with dropout": dropout_mlp,
    "batch norm": lambda: Row(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU()
    ),
    "convolution": lambda: Row(
        nn.Unflatten(1, (1, WIDTH)), nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.GELU()
    ),
    "transformer": lambda: Row(
        nn.Unflatten(0, (1, BATCH)), models.Block(heads=2, hidden=WIDTH, dropout=0.2)
    ),
    "LSTM": Recurrent,
    "containers": Containers,
    "detours": Detours,
    "random numbers": Draws,
    "power iteration": PowerIteration,
    "custom function": Custom,
    "frozen weights": Frozen,
    "gradient inside": DifferentiatesInside,
}


# -- features ----------------------------------------------------------------------


def retained_twice(loss: torch.Tensor) -> None:
    loss.backward(retain_graph=True)
    loss.backward()


def double_backward(loss: torch.Tensor) -> None:
    leaves = [
        node.variable
        for node in _nodes(loss)
        if hasattr(node, "variable") and node.variable.requires_grad
    ]
    gradients = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    torch.stack(
        [(g * g).sum() for g in gradients if g is not None and g.requires_grad]
    ).sum().backward()


def _nodes(tensor: torch.Tensor) -> list[Any]:
    seen, todo = [], [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.append(node)
            todo += [following for following, _ in node.next_functions]
    return seen


def outer_hooks(module: nn.Module, **arguments: Any) -> Any:
    with saved_tensors_hooks(lambda t: (t, 1), lambda packed: packed[0]):
        return checkpoint(module, **arguments)


def offloaded(module: nn.Module, **arguments: Any) -> Any:
    with save_on_cpu():
        return checkpoint(module, **arguments)


def probed(module: nn.Module, **arguments: Any) -> Any:
    with saved_tensors(module):
        return checkpoint(module, **arguments)


def inner_hooks(module: nn.Module, **arguments: Any) -> Any:
    def inside(**arguments: Any) -> Any:
        with save_on_cpu():
            return module(**arguments)

    return checkpoint(inside, **arguments)


def under_autocast(run: Callable[..., Any], module: nn.Module, **arguments: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return run(module, **arguments)


def nested(module: nn.Module, **arguments: Any) -> Any:
    def inside(**arguments: Any) -> Any:
        return checkpoint(module, **arguments)

    return checkpoint(inside, **arguments)


def after_another_layer(
    run: Callable[..., Any], module: nn.Module, x: torch.Tensor
) -> Any:
    return run(module, x=(x * 2).sin())


def plain(module: nn.Module, **arguments: Any) -> Any:
    return module(**arguments)


@dataclass(frozen=True)
class Feature:
    checkpointed: Callable[..., Any] = checkpoint
    plain: Callable[..., Any] = plain
    backward: Callable[[torch.Tensor], object] = torch.Tensor.backward
    leaves_out: tuple[str, ...] = ()


FEATURES: dict[str, Feature] = {
    "backward": Feature(),
    "no early stop": Feature(functools.partial(checkpoint, early_stop=False)),
    "debug": Feature(functools.partial(checkpoint, debug=True)),
    "values compared": Feature(
        functools.partial(checkpoint, determinism_check="values")
    ),
    "nothing compared": Feature(
        functools.partial(checkpoint, determinism_check="none")
    ),
    "graph retained": Feature(backward=retained_twice),
    "double backward": Feature(
        # of these PyTorch differentiates no second time, or not by its own function
        backward=double_backward,
        leaves_out=("LSTM", "custom function", "random numbers", "gradient inside"),
    ),
    "nested": Feature(nested),
    "nested three times": Feature(
        lambda module, **arguments: checkpoint(
            lambda **inner: nested(module, **inner), **arguments
        )
    ),
    "hooks outside": Feature(outer_hooks),
    "hooks inside": Feature(inner_hooks),
    "offloaded": Feature(offloaded),
    "probed": Feature(probed),
    "input is no leaf": Feature(
        functools.partial(after_another_layer, checkpoint),
        functools.partial(after_another_layer, plain),
    ),
    "autocast": Feature(
        functools.partial(under_autocast, checkpoint),
        functools.partial(under_autocast, plain),
    ),
    "selective, nothing kept": Feature(
        functools.partial(
            checkpoint,
            context_fn=functools.partial(create_selective_checkpoint_contexts, []),
        ),
    ),
    "selective, products kept": Feature(
        functools.partial(
            checkpoint,
            context_fn=functools.partial(
                create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default]
            ),
        ),
        # PyTorch's contexts serve one backward pass, and keep no tensor that changes
        leaves_out=("gradient inside", "MLP with dropout"),
    ),
}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("model", MODELS)
def test_everything_equals_the_plain_run_bit_for_bit(model: str, feature: str) -> None:
    what = FEATURES[feature]
    if model in what.leaves_out:
        return
    module = MODELS[model]()
    arguments = {"x": some_input()}
    assert_same(
        trace(module, what.plain, arguments, what.backward),
        trace(module, what.checkpointed, arguments, what.backward),
    )


# -- other ways to ask for gradients -----------------------------------------------


def gradients_of(run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    torch.manual_seed(0)
    x = some_input()
    run(x).sum().backward()
    assert x.grad is not None
    return x.grad


def test_partial_backward_recomputes_and_keeps_nothing() -> None:
    first, second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def function(x: torch.Tensor) -> torch.Tensor:
        return second(first(x).exp()).sin()

    x = some_input()
    expected = torch.autograd.grad(function(x).sum(), second.weight)
    output = checkpoint(function, x)
    recomputed = []
    inside = second.register_forward_hook(
        lambda module, given, made: recomputed.append(
            weakref.ref(given[0].untyped_storage())
        )
    )
    found = torch.autograd.grad(output.sum(), second.weight, retain_graph=True)
    assert torch.equal(expected[0], found[0])
    assert [storage() for storage in recomputed] == [None]
    inside.remove()
    output.sum().backward()
    assert second.weight.grad is not None
    assert torch.equal(second.weight.grad, expected[0])


def test_second_backward_through_a_freed_graph_is_refused_as_ever() -> None:
    output = checkpoint(torch.exp, some_input())
    output.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        output.sum().backward()


def test_saved_tensors_can_be_looked_at_from_outside() -> None:
    x = some_input()
    output = checkpoint(torch.sin, x)
    for _ in range(2):
        assert torch.equal(output.grad_fn._saved_self, x)  # type: ignore[union-attr]


def test_looking_in_from_outside_keeps_nothing() -> None:
    seen: list[weakref.ref[Any]] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        hidden = x.sin()
        seen.append(weakref.ref(hidden.untyped_storage()))
        return hidden.cos().exp()

    output = checkpoint(function, some_input())
    assert output.grad_fn is not None
    output.grad_fn._saved_result  # noqa: B018
    assert [storage() for storage in seen] == [None, None]


def test_backward_pass_after_a_failed_one_computes_anew() -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        hidden = x.sin()
        if hidden.requires_grad:
            hidden.register_hook(fail_once)
        return hidden.exp()

    failures = [ArithmeticError]

    def fail_once(gradient: torch.Tensor) -> None:
        if failures:
            raise failures.pop()

    x = some_input()
    output = checkpoint(function, x)
    with pytest.raises(ArithmeticError):
        output.sum().backward(retain_graph=True)
    output.sum().backward()
    assert len(calls) == 3
    assert x.grad is not None
    assert torch.equal(x.grad, x.cos() * x.sin().exp())


def test_function_is_called_as_it_is_where_no_gradient_is_wanted() -> None:
    calls = []

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.append(torch.is_grad_enabled())
        return x.exp()

    with torch.no_grad():
        assert not checkpoint(function, some_input()).requires_grad
    assert not checkpoint(function, some_input(requires_grad=False)).requires_grad
    assert calls == [False, True]


def test_hook_set_inside_runs_once() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.register_hook(lambda gradient: gradient * 2)
        return x.sin().exp()

    def same(x: torch.Tensor) -> torch.Tensor:
        return x

    for given in (same, torch.clone):  # a leaf, and none
        expected = gradients_of(lambda x, given=given: function(given(x)))
        found = gradients_of(lambda x, given=given: checkpoint(function, given(x)))
        assert torch.equal(found, expected)


@pytest.mark.parametrize("hooks", ["none", "copying", "keeping", "checkpoint"])
def test_input_changed_in_place_inside_is_right_from_a_copy_and_refused_else(
    hooks: str,
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.mul_(2).sin().exp()

    def run(x: torch.Tensor) -> torch.Tensor:
        if hooks == "none":
            return checkpoint(function, x * 1)
        if hooks == "checkpoint":
            return checkpoint(lambda y: checkpoint(function, y * 1) + 1, x)
        copies = hooks == "copying"
        with saved_tensors_hooks(lambda t: t.clone() if copies else t, lambda t: t):
            return checkpoint(function, x * 1)

    if hooks in ("copying", "checkpoint"):
        assert torch.equal(gradients_of(run), gradients_of(lambda x: function(x * 1)))
    else:
        with pytest.raises(RecomputationError, match="changed in place"):
            gradients_of(run)


def test_recomputed_tensor_that_the_function_changes_is_refused_as_in_a_plain_run() -> (
    None
):
    def function(x: torch.Tensor) -> torch.Tensor:
        hidden = x.exp()  # whose gradient needs it as it is
        result = hidden.sin()
        hidden.mul_(2)
        return result.tanh()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients_of(function)
    with pytest.raises(RecomputationError, match="changed in place"):
        gradients_of(lambda x: checkpoint(function, x))


# -- early stopping ----------------------------------------------------------------


def count_calls(module: nn.Module) -> list[str]:
    calls: list[str] = []
    for name, part in module.named_modules():
        part.register_forward_pre_hook(
            lambda m, given, name=name: calls.append("+" + name)
        )
        part.register_forward_hook(
            lambda m, g, made, name=name: calls.append("-" + name)
        )
    return calls


@pytest.mark.parametrize("early_stop", [True, False])
def test_second_run_ends_with_the_last_tensor_that_is_needed(early_stop: bool) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    calls = count_calls(model)
    checkpoint(model, some_input(), early_stop=early_stop).sum().backward()
    whole = ["+", "+0", "-0", "+1", "-1", "+2", "-2", "-"]
    assert calls == [*whole, *(whole[:-2] if early_stop else whole)]


def test_checkpoint_that_ends_another_one_is_not_run_in_its_recomputation() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    calls = count_calls(model)

    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(model[1:], model[0](x))

    checkpoint(function, some_input()).sum().backward()
    starts = [call for call in calls if call.startswith("+")]
    assert [starts.count(f"+{number}") for number in range(3)] == [2, 2, 2]


@pytest.mark.parametrize("last", [True, False])
def test_tensor_that_is_filled_after_it_is_saved_is_waited_for(last: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = functional.rrelu(x.sin(), training=True)
        return x if last else x.cos() + 1

    expected = gradients_of(function)
    for _ in range(20):  # memory that was used before makes the noise garbage
        torch.randn(BATCH, WIDTH)
        assert torch.equal(gradients_of(lambda x: checkpoint(function, x)), expected)


def test_gradient_asked_for_inside_right_after_such_an_operation() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        hidden = functional.rrelu(x.sin(), training=True)
        [slope] = torch.autograd.grad(hidden.sum(), x, create_graph=True)
        return (slope * hidden).cos()

    expected = gradients_of(lambda x: function(x * 1))
    found = gradients_of(lambda x: checkpoint(function, x * 1))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("is_given", [True, False])
def test_mask_that_is_filled_is_not_waited_for(is_given: bool) -> None:
    given = torch.rand(BATCH, WIDTH) > 0.5

    def function(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if not is_given:
            mask = torch.zeros(BATCH, WIDTH).bernoulli_().bool().logical_not_()
        return x.sin().masked_fill(mask, 0)

    output = checkpoint(function, some_input(), given)
    with CountsOperations() as again:
        output.sum().backward()
    fills = again.counts["aten.masked_fill.Scalar"]
    assert fills == 1  # of the gradient


def test_function_that_catches_exceptions_does_not_catch_the_stop() -> None:
    caught = []

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            return x.sin().exp()
        except Exception as error:
            caught.append(error)
            return x

    expected = gradients_of(function)
    assert torch.equal(gradients_of(lambda x: checkpoint(function, x)), expected)
    assert caught == []


# -- memory ------------------------------------------------------------------------


def test_no_activation_outlives_its_use_without_the_garbage_collector() -> None:
    seen: list[weakref.ref[Any]] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        hidden = x.sin()
        seen.append(weakref.ref(hidden.untyped_storage()))
        return hidden.exp().cos()

    gc.disable()
    try:
        output = checkpoint(function, some_input())
        assert seen[0]() is None  # gone with the first pass
        output.sum().backward(retain_graph=True)
        assert seen[1]() is None  # and after the backward pass
        end = weakref.ref(output.untyped_storage())
        del output
        assert end() is None
    finally:
        gc.enable()


def test_what_no_slot_waits_for_is_not_kept_in_the_second_run() -> None:
    seen: list[weakref.ref[Any]] = []
    alive: list[bool] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        unused = x.exp()  # saves its result, for a graph that nobody has
        seen.append(weakref.ref(unused.untyped_storage()))
        del unused
        return x.sin().cos()

    x = some_input()
    x.register_hook(lambda gradient: alive.append(seen[1]() is not None))
    checkpoint(function, x).sum().backward()
    assert alive == [False]


def test_input_is_kept_by_autograd_for_probes_and_offloading_to_see() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    with saved_tensors(model) as saved:
        _output = checkpoint(model, some_input() * 2)
    assert (saved.total_bytes, saved.input_bytes) == (0, 4 * BATCH * WIDTH)


def test_peak_is_not_above_that_of_pytorchs_function() -> None:
    width = 2000
    layers = [nn.Sequential(nn.BatchNorm1d(width), nn.Tanh()) for _ in range(8)]
    x = torch.randn(BATCH, width)

    def peak_bytes(wrap: Callable[..., Any]) -> int:
        def train() -> None:
            hidden = x
            for layer in layers:
                hidden = wrap(layer, hidden)
            hidden.sum().backward()
            for layer in layers:
                layer.zero_grad()

        train()
        return allocator_record(train)[0]

    theirs = peak_bytes(functools.partial(torch_checkpoint, use_reentrant=False))
    assert peak_bytes(checkpoint) <= theirs


def test_hundred_thousand_steps_do_not_grow_memory() -> None:
    x = some_input()

    def train(n: int) -> None:
        for _ in range(n):
            checkpoint(torch.sin, x).sum().backward()

    train(2000)
    gc.collect()
    before_bytes = psutil.Process().memory_info().rss
    train(100_000)
    assert psutil.Process().memory_info().rss - before_bytes < 4 * 2**20


def test_fake_tensors_are_recomputed_too() -> None:
    with without_memory():
        model = models.Block(heads=4, hidden=10**5)
        x = torch.randn(1, 10**4, 10**5)
        with saved_tensors(model) as saved:
            output = checkpoint(model, x)
        output.sum().backward()
    assert saved.total_bytes == 0
    assert all(parameter.grad is not None for parameter in model.parameters())


# -- random numbers and surroundings -----------------------------------------------


@pytest.mark.parametrize("how", ["argument", "keyword", "closure", "partial"])
def test_generator_of_the_users_draws_the_same_again(how: str) -> None:
    def function(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return (x * torch.rand(WIDTH, generator=generator)).sin()

    def run(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        if how == "argument":
            return checkpoint(function, x, generator)
        if how == "keyword":
            return checkpoint(function, x, generator=generator)
        if how == "partial":
            return checkpoint(functools.partial(function, generator=generator), x)
        return checkpoint(lambda y: function(y, generator), x)

    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    expected = gradients_of(lambda x: function(x, generators[0]))
    assert torch.equal(gradients_of(lambda x: run(x, generators[1])), expected)
    assert torch.equal(generators[0].get_state(), generators[1].get_state())


def test_numpy_generator_of_another_kind_draws_the_same_again() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * numpy.random.rand()).sin()

    before = numpy.random.get_bit_generator()
    try:
        numpy.random.set_bit_generator(numpy.random.PCG64(1))
        expected = gradients_of(function)
        numpy.random.set_bit_generator(numpy.random.PCG64(1))
        assert torch.equal(gradients_of(lambda x: checkpoint(function, x)), expected)
    finally:
        numpy.random.set_bit_generator(before)


def test_random_state_is_left_alone_if_the_caller_says_so() -> None:
    draws: list[float] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        draws.append(torch.rand(()).item())
        return x.sin()

    checkpoint(function, some_input(), preserve_rng_state=False).sum().backward()
    assert draws[0] != draws[1]
    draws.clear()
    checkpoint(function, some_input()).sum().backward()
    assert draws[0] == draws[1]


def test_default_dtype_and_attention_kernels_are_those_of_the_first_pass() -> None:
    seen: list[Any] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(
            (torch.get_default_dtype(), torch.backends.cuda.flash_sdp_enabled())
        )
        return (x * torch.ones(WIDTH)).sin()

    x = some_input(dtype=torch.float64)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            output = checkpoint(function, x)
    finally:
        torch.set_default_dtype(torch.float32)
    output.sum().backward()
    assert seen == [(torch.float64, False)] * 2
    assert torch.get_default_dtype() is torch.float32
    assert torch.backends.cuda.flash_sdp_enabled()


def test_training_mode_is_that_of_the_first_pass() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Tanh())
    expected = gradients_of(model)
    torch.manual_seed(0)
    x = some_input()
    output = checkpoint(model, x)
    model.eval()
    output.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, expected)
    assert not model[0].training


# -- what changes between the two passes -------------------------------------------


def test_change_in_place_between_the_passes_is_refused() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    scale = torch.ones(WIDTH)
    model = nn.Sequential(layer, nn.Tanh())
    frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)

    def closing_over(x: torch.Tensor) -> torch.Tensor:
        return (layer(x) * scale).tanh()

    x = some_input()
    hidden = x * 2
    cases: list[tuple[Any, tuple[Any, ...], dict[str, Any], torch.Tensor]] = [
        (model, (hidden,), {}, hidden),
        (lambda x, y: (x * y).tanh(), (x,), {"y": scale}, scale),
        (closing_over, (x,), {}, scale),
        (closing_over, (x,), {}, layer.bias),
        (model, (x,), {}, layer.bias),
        (model, (x,), {}, layer.weight),
        (model.forward, (x,), {}, layer.bias),
        (functools.partial(closing_over), (x,), {}, layer.weight),
        (lambda x: frozen(x).tanh(), (x,), {}, frozen.bias),
    ]
    for function, args, kwargs, changed in cases:
        output = checkpoint(function, *args, **kwargs)
        with torch.no_grad():
            changed.mul_(2)
        with pytest.raises(RecomputationError, match="in place"):
            output.sum().backward()


def test_function_that_changes_what_it_closes_over_is_refused_at_once() -> None:
    total = torch.zeros(())

    def function(x: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        return x.sin()

    with pytest.raises(RecomputationError, match="make that tensor a buffer"):
        checkpoint(function, some_input())


def test_large_buffer_that_changes_is_refused_and_one_that_does_not_is_free() -> None:
    class Remembers(nn.Module):
        def __init__(self, changes: bool) -> None:
            super().__init__()
            self.register_buffer("table", torch.zeros(2**15))
            self.changes = changes

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.changes:
                self.table.add_(1)
            return x.sin()

    checkpoint(Remembers(False), some_input()).sum().backward()
    with pytest.raises(RecomputationError, match="changes buffer 'table' of Remembers"):
        checkpoint(Remembers(True), some_input())


class Differs:
    """A function whose second run is another one."""

    def __init__(self, *runs: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.runs = iter(runs)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return next(self.runs)(x)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (lambda x: x + 1, "saved 2 tensors in the first pass and 0 now"),
        (
            lambda x: x[:2].sin().exp(),
            r"saved tensor 1 of 2 was float32\[4, 16\] on cpu in the first pass and is "
            r"float32\[2, 16\] on cpu now",
        ),
        (lambda x: x.double().sin().exp(), r"is float64\[4, 16\] on cpu now"),
        (lambda x: x.to("meta").sin().exp(), r"is float32\[4, 16\] on meta now"),
    ],
)
def test_second_run_that_differs_is_an_error_with_both_sides(
    second: Callable[[torch.Tensor], torch.Tensor], told: str
) -> None:
    output = checkpoint(Differs(lambda x: x.sin().exp(), second), some_input())
    with pytest.raises(RecomputationError, match=told) as caught:
        output.sum().backward()
    assert "Usual causes" in str(caught.value)
    assert "debug=True" in str(caught.value)


def test_second_run_that_saves_more_is_an_error_where_it_runs_to_the_end() -> None:
    function = Differs(torch.sin, lambda x: x.sin().exp())
    output = checkpoint(function, some_input(), early_stop=False)
    with pytest.raises(RecomputationError, match=r"saved 1 tensors .* and more now"):
        output.sum().backward()


def test_bytes_that_a_kernel_leaves_unwritten_are_not_compared() -> None:
    class SavesBytes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            work_space = torch.full((64,), next(fillings), dtype=torch.uint8)
            ctx.save_for_backward(work_space)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            assert ctx.saved_tensors[0].shape == (64,)
            return gradient

    fillings = iter((1, 2))
    x = some_input().requires_grad_()
    checkpoint(SavesBytes.apply, x, determinism_check="values").sum().backward()
    assert x.grad is not None


def test_other_values_of_the_same_shape_are_found_if_asked_for() -> None:
    runs = (lambda x: x.sin().exp(), lambda x: x.cos().exp())
    checkpoint(Differs(*runs), some_input()).sum().backward()  # nothing tells
    output = checkpoint(Differs(*runs), some_input(), determinism_check="values")
    with pytest.raises(RecomputationError, match=r"contents .* now"):
        output.sum().backward()


def test_debug_shows_which_operations_differ() -> None:
    function = Differs(lambda x: x.sin().exp(), lambda x: x.cos()[:2].exp())
    output = checkpoint(function, some_input(), debug=True, early_stop=False)
    with pytest.raises(RecomputationError) as caught:
        output.sum().backward()
    assert "-aten.sin.default(float32[4, 16]) -> float32[4, 16]" in str(caught.value)
    assert "+aten.cos.default(float32[4, 16]) -> float32[4, 16]" in str(caught.value)


# -- faults ------------------------------------------------------------------------


def leaves_nothing_behind() -> bool:
    return (
        torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        and torch.utils._python_dispatch._len_torch_dispatch_stack() == 0
        and torch.is_grad_enabled()
    )


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
@pytest.mark.parametrize("failing_run", [0, 1])
def test_error_in_either_run_leaves_nothing_behind(
    error: type[BaseException], failing_run: int
) -> None:
    calls = []

    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(x)
            x = functional.dropout(self.norm(x)) * random.random() * numpy.random.rand()
            if len(calls) == failing_run + 1:
                raise error
            return x.sin()

    model = Fails()
    x = some_input()
    if failing_run == 0:
        with pytest.raises(error):
            checkpoint(model, x)
    else:
        output = checkpoint(model, x)
        before = [b.clone() for b in model.buffers()]
        states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1]
        with pytest.raises(error):
            output.sum().backward()
        for buffer, content in zip(model.buffers(), before, strict=True):
            assert torch.equal(buffer, content)
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        assert (numpy.random.get_state()[1] == states[2]).all()
    assert leaves_nothing_behind()
    gradients_of(lambda x: checkpoint(torch.sin, x))  # and all goes on


def test_eight_threads_at_once_get_the_right_gradients() -> None:
    model = models.mlp(width=WIDTH, depth=3)
    wrong: list[object] = []

    def train(seed: int) -> None:
        try:
            generator = torch.Generator().manual_seed(seed)
            for _ in range(200):
                x = torch.randn(BATCH, WIDTH, generator=generator).requires_grad_()
                [expected] = torch.autograd.grad(model(x).sum(), x)
                [found] = torch.autograd.grad(checkpoint(model, x).sum(), x)
                if not torch.equal(expected, found):
                    wrong.append((expected, found))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("when", ["first pass", "second pass"])
def test_numbers_that_another_thread_draws_in_between_are_noticed(when: str) -> None:
    passes = ["first pass", "second pass"]

    def function(x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x)
        if passes.pop(0) == when:
            thread = threading.Thread(target=torch.rand, args=(1,))
            thread.start()
            thread.join()
        return functional.dropout(x).sin()

    output = checkpoint(function, some_input())
    with pytest.raises(RecomputationError, match="another thread"):
        output.sum().backward()


def test_transforms_of_torch_func_are_refused() -> None:
    with pytest.raises(RecomputationError, match=r"inside torch\.func transforms"):
        torch.func.grad(lambda x: checkpoint(torch.sin, x).sum())(some_input())


def test_check_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RecomputationError, match="determinism_check is 'strict'"):
        checkpoint(torch.sin, some_input(), determinism_check="strict")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("is_outside", [True, False])
def test_compiled_functions_work_inside_and_around(is_outside: bool) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    expected = gradients_of(model)

    def checkpointed(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(model, x) * 1

    if is_outside:
        run: Any = torch.compile(checkpointed, backend="aot_eager")
    else:
        compiled = torch.compile(model, backend="aot_eager")
        run = functools.partial(checkpoint, compiled)
    assert torch.allclose(gradients_of(run), expected)


class CountsOperations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def test_selective_policy_decides_which_operations_run_again() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    contexts = functools.partial(
        create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default]
    )
    for options, products in (({}, 1), ({"context_fn": contexts}, 0)):
        output = checkpoint(model, some_input(), **options)
        with CountsOperations() as again:
            output.sum().backward()
        assert again.counts["aten.addmm.default"] == products
        assert again.counts["aten.tanh.default"] == 1
