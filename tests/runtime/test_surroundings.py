"""What a second run finds: as in the first one, or an error that says what changed."""

import functools
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils import parametrizations

from ckptlab.errors import RecomputationError
from ckptlab.memory.fake import one_rank_of
from ckptlab.runtime.recompute import checkpoint

WIDTH, BATCH = 8, 4


def some_input() -> torch.Tensor:
    return torch.randn(BATCH, WIDTH, requires_grad=True)


def gradient_of(run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    torch.manual_seed(0)
    random.seed(0)
    numpy.random.seed(0)
    x = some_input()
    run(x).sum().backward()
    assert x.grad is not None
    return x.grad


def same_gradient(function: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    return torch.equal(
        gradient_of(function), gradient_of(lambda x: checkpoint(function, x))
    )


# -- random numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        random.random,
        numpy.random.randn,
        lambda: torch.rand((), generator=torch.Generator().manual_seed(1)),
    ],
)
def test_numbers_drawn_elsewhere_meanwhile_are_no_matter(draw: Any) -> None:
    def run(wrap: Any) -> Any:
        def inside(x: torch.Tensor) -> torch.Tensor:
            output = wrap(lambda y: y.sin() * draw(), x)
            torch.rand(3)  # PyTorch's own generator goes on
            return output

        return inside

    plain = gradient_of(run(lambda function, x: function(x)))
    assert torch.equal(plain, gradient_of(run(checkpoint)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: numpy.random.default_rng(0),
        lambda: numpy.random.RandomState(0),
        lambda: random.Random(0),
    ],
)
def test_generators_of_python_and_numpy_draw_the_same_again(make: Any) -> None:
    plain, mine = make(), make()
    expected = gradient_of(lambda x: (x * plain.random()).sin())
    found = gradient_of(lambda x: checkpoint(lambda y: (y * mine.random()).sin(), x))
    assert torch.equal(expected, found)
    assert plain.random() == mine.random()


def test_normal_number_that_numpy_has_in_store_is_drawn_again() -> None:
    def run(wrap: Any) -> torch.Tensor:
        def inside(x: torch.Tensor) -> torch.Tensor:
            numpy.random.randn()  # makes two numbers and stores the other
            return wrap(lambda y: (y * numpy.random.randn()).sin(), x)

        return gradient_of(inside)

    assert torch.equal(run(lambda f, x: f(x)), run(checkpoint))


# -- buffers -----------------------------------------------------------------------


class Scales(nn.Module):
    def __init__(self, size: int = WIDTH) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("scale", torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.linear(x) * (self.scale[:WIDTH] * 2)
        return hidden.sin()


@pytest.mark.parametrize("size", [WIDTH, 2**16])
def test_buffer_that_is_changed_between_the_passes_is_noticed(size: int) -> None:
    model = Scales(size)
    output = checkpoint(model, some_input())
    model.scale.mul_(3)
    with pytest.raises(
        RecomputationError, match="buffer 'scale' of Scales was changed"
    ):
        output.sum().backward()


def test_power_iteration_between_the_passes_is_noticed() -> None:
    model = parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)).eval()
    output = checkpoint(lambda x: model(x).sin(), some_input())
    model.train()
    model(some_input().detach())
    with pytest.raises(RecomputationError, match="was changed in place"):
        output.sum().backward()


class Appears(nn.Module):
    """Makes its buffer in its first forward pass, and changes it in each."""

    def __init__(self, *, is_registered: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        if is_registered:
            self.register_buffer("scale", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if getattr(self, "scale", None) is None:
            self.register_buffer("scale", torch.ones(WIDTH))
        self.scale = self.scale + 1
        hidden: torch.Tensor = self.linear(x) * self.scale
        return hidden.sin()


@pytest.mark.parametrize("is_registered", [True, False])
def test_buffer_that_appears_in_the_first_pass_appears_once(
    is_registered: bool,
) -> None:
    def run(wrap: Any) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        model = Appears(is_registered=is_registered)
        return gradient_of(lambda x: wrap(model, x)), model.scale

    for one, other in zip(run(lambda f, x: f(x)), run(checkpoint), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("n_features", [WIDTH, 20_000])
@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_batch_norm_are_updated_once(
    n_features: int, training: bool
) -> None:
    def run(wrap: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.BatchNorm1d(n_features).train(training)
        x = torch.randn(BATCH, n_features, requires_grad=True)
        wrap(model, x).sin().sum().backward()
        assert x.grad is not None
        return [x.grad, *model.buffers()]

    for one, other in zip(run(lambda f, x: f(x)), run(checkpoint), strict=True):
        assert torch.equal(one, other)


def test_statistics_that_change_between_the_passes_are_those_of_the_first() -> None:
    model = nn.BatchNorm1d(WIDTH).eval()
    expected = gradient_of(lambda x: model(x).sin())

    def run(x: torch.Tensor) -> torch.Tensor:
        output = checkpoint(lambda y: model(y).sin(), x)
        model.train()(torch.randn(BATCH, WIDTH))  # tells nobody that it changes them
        return output

    assert torch.equal(gradient_of(run), expected)


def test_buffer_with_two_names_is_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            buffer = torch.zeros(WIDTH)
            self.register_buffer("one", buffer)
            self.register_buffer("other", buffer)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.one.add_(1)
            return (x * (self.other * 1)).sin()

    plain, mine = Tied(), Tied()
    assert torch.equal(gradient_of(plain), gradient_of(lambda x: checkpoint(mine, x)))
    assert torch.equal(plain.one, mine.one)


@pytest.mark.parametrize(
    "where", ["argument", "keyword", "default", "ordered", "set", "list of functions"]
)
def test_modules_are_found_wherever_a_function_has_them(where: str) -> None:
    norm = nn.BatchNorm1d(WIDTH)

    def use(module: Any, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = module(x)
        return result.sin()

    def default(x: torch.Tensor, *, module: Any = norm) -> torch.Tensor:
        return use(module, x)

    ordered = OrderedDict(norm=norm)
    several = {norm}
    x = some_input()
    output = {
        "argument": lambda: checkpoint(use, norm, x),
        "keyword": lambda: checkpoint(lambda x, m: use(m[0], x), x, m=[norm]),
        "default": lambda: checkpoint(default, x),
        "ordered": lambda: checkpoint(lambda x: use(ordered["norm"], x), x),
        "set": lambda: checkpoint(lambda x: use(next(iter(several)), x), x),
        "list of functions": lambda: checkpoint(
            lambda x, fs: fs[0](x).sin(), x, [lambda y: norm(y)]
        ),
    }[where]()
    before = norm.running_mean.clone()
    output.sum().backward()
    assert torch.equal(norm.running_mean, before)


# -- what is replaced between the passes -------------------------------------------


def test_module_or_parameter_that_is_replaced_is_noticed() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    changes: list[Callable[[], object]] = [
        lambda: model.__setitem__(0, nn.Linear(WIDTH, WIDTH)),
        lambda: setattr(model[0], "weight", nn.Linear(WIDTH, WIDTH).weight),
    ]
    for change in changes:
        output = checkpoint(model, some_input())
        change()
        with pytest.raises(RecomputationError, match="for another"):
            output.sum().backward()


def test_functional_call_around_a_checkpoint_is_noticed() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.linear, x.sin()).sin()

    weights = dict(Model().named_parameters())
    output = functional_call(Model(), weights, some_input())
    with pytest.raises(RecomputationError, match="for another"):
        output.sum().backward()


def test_variable_of_a_loop_that_is_bound_late_is_noticed() -> None:
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(3)]
    hidden = some_input()
    for layer in layers:
        hidden = checkpoint(lambda x: layer(x).sin(), hidden)  # noqa: B023
    with pytest.raises(RecomputationError, match="lambda x, i=i"):
        hidden.sum().backward()
    hidden = some_input()
    for number in range(3):
        hidden = checkpoint(lambda x: layers[number](x).sin(), hidden)  # noqa: B023
    with pytest.raises(RecomputationError, match="for another"):
        hidden.sum().backward()
    for layer in layers:
        hidden = checkpoint(lambda x, layer=layer: layer(x).sin(), hidden.detach())
    hidden.sum().backward()


@pytest.mark.parametrize("kind", ["tensor", "number", "in a dictionary"])
def test_variable_that_is_bound_anew_is_noticed(kind: str) -> None:
    factor: Any = torch.ones(WIDTH) if kind == "tensor" else 2.0
    factors = {"a": factor}

    def function(x: torch.Tensor) -> torch.Tensor:
        return (x * (factors["a"] if kind == "in a dictionary" else factor)).sin()

    output = checkpoint(function, some_input())
    factor = torch.zeros(WIDTH) if kind == "tensor" else 5.0
    factors["a"] = factor
    with pytest.raises(RecomputationError, match="for another"):
        output.sum().backward()


def test_function_may_keep_count_and_collect_in_its_closure() -> None:
    count, collected = 0, []

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        hidden = x.sin()
        collected.append(hidden.detach())
        return hidden.exp()

    hidden = some_input()
    for _ in range(3):
        hidden = checkpoint(function, hidden)
    hidden.sum().backward()
    assert count == 6


def test_optimizer_inside_the_backward_pass_of_a_whole_model_is_fine() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, x: torch.Tensor, wrap: Any) -> torch.Tensor:
            for number in range(3):
                x = wrap(lambda y, i=number: self.layers[i](y).sin(), x)
            return x

    def train(wrap: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Model()
        for parameter in model.parameters():
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            parameter.register_post_accumulate_grad_hook(
                lambda p, optimizer=optimizer: optimizer.step()
            )
        model(some_input(), wrap).sum().backward()
        return [p.detach() for p in model.parameters()]

    for one, other in zip(train(lambda f, x: f(x)), train(checkpoint), strict=True):
        assert torch.equal(one, other)


# -- tensors and modules of unusual kinds ------------------------------------------


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize(
    "to_sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr]
)
def test_sparse_arguments(to_sparse: Any) -> None:
    matrix = to_sparse(torch.eye(BATCH))
    assert torch.equal(
        gradient_of(lambda x: torch.sparse.mm(matrix, x).sin()),
        gradient_of(
            lambda x: checkpoint(lambda m, y: torch.sparse.mm(m, y).sin(), matrix, x)
        ),
    )


@pytest.mark.parametrize("make", [nn.LazyLinear, nn.LazyBatchNorm1d])
def test_lazy_modules(make: Any) -> None:
    def run(wrap: Any) -> torch.Tensor:
        torch.manual_seed(0)
        layer = nn.LazyLinear(WIDTH) if make is nn.LazyLinear else nn.LazyBatchNorm1d()
        model = nn.Sequential(layer, nn.Tanh())
        return gradient_of(lambda x: wrap(model, x))

    assert torch.equal(run(lambda f, x: f(x)), run(checkpoint))


def test_hooks_that_rebuild_tensors_where_old_ones_lay() -> None:
    def unpack(packed: torch.Tensor) -> torch.Tensor:
        rebuilt = torch.empty_like(packed)
        rebuilt.copy_(packed)
        return rebuilt

    def run(wrap: Any) -> torch.Tensor:
        torch.manual_seed(0)
        x = torch.randn(256, 256, requires_grad=True)
        with saved_tensors_hooks(lambda t: t.detach().clone(), unpack):
            hidden = x
            for _ in range(6):
                hidden = wrap(lambda y: (y.sin() + 1).cos(), hidden + 0)
            loss = hidden.sum()
        del hidden
        loss.backward()
        assert x.grad is not None
        return x.grad

    assert torch.equal(run(lambda f, x: f(x)), run(checkpoint))


def test_strict_fake_mode_of_pytorch() -> None:
    with FakeTensorMode():
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh())
        x = torch.randn(BATCH, WIDTH, requires_grad=True)
        checkpoint(model, x).sum().backward()
    assert x.grad is not None


def test_inference_tensors_in_closures_and_buffers() -> None:
    with torch.inference_mode():
        offset = torch.ones(WIDTH)
    assert same_gradient(lambda x: (x + offset).sin())
    model = Scales()
    model.register_buffer("scale", offset)
    # PyTorch saves no inference tensor, so it must not be multiplied with
    model.forward = lambda x: (model.linear(x) + model.scale).sin()  # type: ignore[method-assign]
    assert same_gradient(model)


def test_embedding_that_renormalizes_its_weights() -> None:
    def run(wrap: Any) -> torch.Tensor:
        torch.manual_seed(0)
        embedding = nn.Embedding(10, WIDTH, max_norm=1.0)
        wrap(lambda i: embedding(i).sin(), torch.arange(6)).sum().backward()
        assert embedding.weight.grad is not None
        return embedding.weight.grad

    assert torch.equal(run(lambda f, x: f(x)), run(checkpoint))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_forward_mode_differentiation_passes_through() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.randn(WIDTH), torch.ones(WIDTH))
        plain = forward_ad.unpack_dual(dual.sin().exp()).tangent
        output = checkpoint(lambda x: x.sin().exp(), dual)
        assert torch.equal(forward_ad.unpack_dual(output).tangent, plain)


@pytest.mark.parametrize("kind", ["conjugate", "jagged", "distributed", "half"])
def test_values_of_any_kind_can_be_compared(kind: str) -> None:
    x = torch.randn(BATCH, WIDTH, requires_grad=True)
    check = functools.partial(checkpoint, determinism_check="values")
    if kind == "conjugate":
        x = torch.randn(BATCH, dtype=torch.complex64, requires_grad=True)
        check(lambda q: (q.conj() * q).sin() * q.imag, x).abs().sum().backward()
    elif kind == "jagged":
        rows = [torch.randn(2, WIDTH), torch.randn(3, WIDTH)]
        jagged = torch.nested.nested_tensor(
            rows, layout=torch.jagged, requires_grad=True
        )
        check(lambda t: t.sin().exp(), jagged).values().sum().backward()
        x = jagged
    elif kind == "distributed":
        from torch.distributed.tensor import DTensor, Replicate

        with one_rank_of(2) as mesh:
            whole = DTensor.from_local(x, mesh, [Replicate()])
            check(lambda t: t.sin().exp(), whole).to_local().sum().backward()
    else:
        check(lambda t: t.bfloat16().sin().exp(), x).sum().backward()
    assert x.grad is not None


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
@pytest.mark.parametrize("early_stop", [True, False])
def test_scripted_modules(early_stop: bool) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    scripted = torch.jit.script(model)
    for _ in range(3):  # until TorchScript has settled how it runs
        expected = gradient_of(scripted)
    found = gradient_of(lambda x: checkpoint(scripted, x, early_stop=early_stop))
    torch.testing.assert_close(found, expected)


def test_precision_of_products_is_that_of_the_first_pass() -> None:
    seen: list[str] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return functional.gelu(x)

    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        output = checkpoint(function, some_input())
    finally:
        torch.set_float32_matmul_precision(before)
    output.sum().backward()
    assert seen[0] == seen[1] == "medium"
    assert torch.get_float32_matmul_precision() == before
