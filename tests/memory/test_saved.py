"""saved_tensors() against known cases, and against the allocator's own record."""

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from ckptlab import models
from ckptlab.errors import ModelError
from ckptlab.memory.saved import saved_tensors

ROWS, WIDTH = 6, 10
ELEMENTS = ROWS * WIDTH


class Call(nn.Module):
    """A function as a module, so that its input is an input of a model."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor, **kwargs: torch.Tensor) -> torch.Tensor:
        return self.function(*args, **kwargs)


def some_input(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(ROWS, WIDTH, dtype=dtype, requires_grad=True)


# -- what each operation keeps, by hand -------------------------------------------

KNOWN = {
    # name: (module, bytes of activations, bytes of kept inputs, (operation, role))
    "linear": (nn.Linear(WIDTH, 7), 0, 4 * ELEMENTS, None),
    "relu": (nn.ReLU(), 4 * ELEMENTS, 0, ("relu", "output")),
    "gelu": (nn.GELU(), 0, 4 * ELEMENTS, None),
    "native dropout": (
        models.Dropout(0.5),
        ELEMENTS,
        0,
        ("native_dropout", "output"),
    ),
    "layer norm": (
        nn.LayerNorm(WIDTH),
        2 * 4 * ROWS,
        4 * ELEMENTS,
        ("layer_norm", "inside"),
    ),
    "softmax": (nn.Softmax(-1), 4 * ELEMENTS, 0, ("softmax", "output")),
    "sigmoid in place": (
        Call(lambda x: (x * 1).sigmoid_()),
        4 * ELEMENTS,
        0,
        ("sigmoid", "output"),
    ),
    "square of a view": (Call(lambda x: x.t()[:3].square()), 0, 4 * ELEMENTS, None),
    "expand": (
        Call(lambda x: x.sum().expand(1000).exp()),
        4 * 1000,
        0,
        ("exp", "output"),
    ),
    "addition": (Call(lambda x: x + 1), 0, 0, None),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_operations_keep_known_bytes(name: str) -> None:
    module, activation_bytes, input_bytes, first = KNOWN[name]
    with saved_tensors(module) as saved:
        _output = module(some_input())
    assert (saved.total_bytes, saved.input_bytes) == (activation_bytes, input_bytes)
    if first:
        assert (saved.tensors[0].operation, saved.tensors[0].role) == first


def test_attention_keeps_its_square_three_times() -> None:
    heads, seq, width = 2, 16, 8
    attention = models.Attention(heads=heads, hidden=width, dropout=0.5)
    x = torch.randn(3, seq, width)
    with saved_tensors(attention) as saved:
        _output = attention(x)
    square = 3 * heads * seq * seq
    # softmax output 4, its dropout mask 1, the dropped-out weights 4 bytes an element
    squares = [t.bytes for t in saved.tensors if t.shape[-2:] == (seq, seq)]
    assert sorted(squares) == [square, 4 * square, 4 * square]
    # query, key and value, and the input of the projection
    assert saved.total_bytes == sum(squares) + 4 * 4 * x.numel()
    assert saved.input_bytes == 4 * x.numel()


# -- by storage -------------------------------------------------------------------


def test_views_of_one_storage_count_once() -> None:
    def use_views(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.square().sum() + y.t().square().sum() + y[1:].square().sum()

    module = Call(use_views)
    with saved_tensors(module) as saved:
        _output = module(some_input())
    assert saved.total_bytes == 4 * ELEMENTS


def test_tied_weights_are_no_activations() -> None:
    model = models.GPT(heads=1, hidden=8, layers=1, sequence=4, vocabulary=1000)
    with saved_tensors(model) as saved:
        _output = model(torch.zeros(1, 4, dtype=torch.long))
    assert max(tensor.bytes for tensor in saved.tensors) < 1000 * 8 * 4


def test_transposed_weight_is_still_a_weight() -> None:
    weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
    module = Call(lambda x: x @ weight.t())  # not registered with the module
    with saved_tensors(module) as saved:
        _output = module(some_input())
    assert (saved.total_bytes, saved.input_bytes) == (0, 4 * ELEMENTS)


def test_buffers_are_no_activations() -> None:
    norm = nn.BatchNorm1d(WIDTH).eval()
    with saved_tensors(norm) as saved:
        _output = norm(some_input())
    assert saved.total_bytes == 0


def test_lazy_parameters_are_no_activations() -> None:
    model = nn.Sequential(nn.LazyLinear(WIDTH), nn.LazyLinear(3))
    with saved_tensors(model) as saved:
        _output = model(some_input())
    assert saved.total_bytes == 4 * ELEMENTS


def test_weights_swapped_in_for_one_call_are_no_activations() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    swapped = {
        name: torch.randn_like(weight).requires_grad_()
        for name, weight in layer.named_parameters()
    }
    with saved_tensors(layer) as saved:
        _output = torch.func.functional_call(
            layer, {n: w * 1 for n, w in swapped.items()}, some_input()
        )
    assert (saved.total_bytes, saved.input_bytes) == (0, 4 * ELEMENTS)


def test_in_place_activation_adds_nothing() -> None:
    plain = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    in_place = nn.Sequential(plain[0], nn.ReLU(inplace=True), plain[2])
    totals = []
    for model in (plain, in_place):
        with saved_tensors(model) as saved:
            _output = model(some_input())
        totals.append(saved.total_bytes)
    assert totals == [4 * ELEMENTS, 4 * ELEMENTS]


def test_bfloat16_takes_two_bytes_an_element() -> None:
    module = nn.Softmax(-1)
    with saved_tensors(module) as saved:
        _output = module(some_input(torch.bfloat16))
    assert saved.total_bytes == 2 * ELEMENTS
    assert saved.tensors[0].dtype == torch.bfloat16


def test_autocast_copies_of_weights_are_counted_for_they_are_memory() -> None:
    layer = nn.Linear(WIDTH, WIDTH, bias=False)
    with torch.autocast("cpu", torch.bfloat16), saved_tensors(layer) as saved:
        _output = layer(some_input())
    # the weight and the input, both in bfloat16
    assert saved.total_bytes == 2 * WIDTH * WIDTH + 2 * ELEMENTS


def test_empty_tensor_is_listed_with_no_bytes() -> None:
    module = nn.ReLU()
    with saved_tensors(module) as saved:
        _output = module(torch.empty(0, 5, requires_grad=True))
    assert [tensor.bytes for tensor in saved.tensors] == [0]


def test_nothing_is_saved_without_gradients() -> None:
    model = models.mlp(width=WIDTH, depth=3)
    with saved_tensors(model) as saved, torch.no_grad():
        _output = model(some_input())
    assert saved.tensors == []
    assert (saved.total_bytes, saved.input_bytes) == (0, 0)


def test_inputs_given_by_keyword_and_in_containers_are_inputs() -> None:
    class Pair(nn.Module):
        def forward(
            self, pair: dict[str, torch.Tensor], *, more: torch.Tensor
        ) -> torch.Tensor:
            return pair["x"].square() + more.square()

    model = Pair()
    with saved_tensors(model) as saved:
        _output = model({"x": some_input()}, more=some_input())
    assert (saved.total_bytes, saved.input_bytes) == (0, 2 * 4 * ELEMENTS)


def test_input_that_was_saved_before_the_model_ran_is_still_its_input() -> None:
    layer = nn.Linear(WIDTH, WIDTH)
    with saved_tensors(layer) as saved:
        _output = layer(some_input().relu())
    assert (saved.total_bytes, saved.input_bytes) == (0, 4 * ELEMENTS)


# -- by module and by operation ---------------------------------------------------


def test_modules_and_operations_are_named_and_add_up() -> None:
    model = models.GPT(heads=2, hidden=16, layers=2, sequence=8, vocabulary=20)
    tokens = torch.zeros(1, 8, dtype=torch.long)
    with saved_tensors(model) as saved:
        loss = cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    assert loss.requires_grad
    by_module, by_operation = saved.by_module(), saved.by_operation()
    assert sum(by_module.values()) == sum(by_operation.values()) == saved.total_bytes
    assert list(by_module.values()) == sorted(by_module.values(), reverse=True)
    assert by_module["blocks.1.mlp.1"] == by_operation["gelu"] / 2
    assert "cross_entropy" in by_operation
    assert "unknown" not in by_operation


def test_custom_autograd_functions_are_told_as_unknown() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            made = x * 2
            ctx.save_for_backward(made)
            return made.clone()

    module = Call(Double.apply)
    with saved_tensors(module) as saved:
        _output = module(some_input())
    assert saved.by_operation() == {"unknown": 4 * ELEMENTS}
    assert saved.tensors[0].role == "unknown"


def test_a_module_used_twice_is_counted_twice() -> None:
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), relu, nn.Linear(WIDTH, WIDTH), relu)
    with saved_tensors(model) as saved:
        _output = model(some_input())
    assert saved.by_module() == {"1": 2 * 4 * ELEMENTS}


def test_two_models_in_one_context_are_told_apart() -> None:
    first, second = models.mlp(width=WIDTH, depth=2), models.mlp(width=WIDTH, depth=2)
    with saved_tensors(first, second) as saved:
        _output = second(first(some_input()))
    assert set(saved.by_module()) == {"1:1", "2:1"}
    # what lies between them is an input of the second
    assert saved.input_bytes == 2 * 4 * ELEMENTS


def test_second_model_that_was_not_named_still_has_weights() -> None:
    first, second = models.mlp(width=WIDTH, depth=1), models.mlp(width=WIDTH, depth=1)
    with saved_tensors(first) as saved:
        _output = second(first(some_input()))
    assert saved.total_bytes == 4 * ELEMENTS


# -- against the allocator --------------------------------------------------------

# A Python number in an operation (the division in attention) is saved as a tensor of
# eight bytes that PyTorch shows to no hook.
WRAPPED_NUMBERS = {"gpt": 2}

ALLOCATED = {
    "mlp": lambda: (models.mlp(width=64, depth=4), torch.randn(32, 64)),
    "gpt": lambda: (
        models.GPT(heads=2, hidden=32, layers=2, sequence=16, vocabulary=50),
        torch.randint(50, (3, 16)),
    ),
    "cnn with batch norm": lambda: (
        nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 7 * 7, 5),
        ),
        torch.randn(4, 3, 16, 16),
    ),
    "shared layer": lambda: (
        (lambda layer: nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh()))(
            nn.Linear(32, 32)
        ),
        torch.randn(8, 32),
    ),
}


@pytest.mark.filterwarnings("ignore:.*profiler.*")
@pytest.mark.parametrize("name", ALLOCATED)
def test_bytes_equal_what_the_allocator_still_holds_after_the_forward_pass(
    name: str,
) -> None:
    model, x = ALLOCATED[name]()

    def forward() -> torch.Tensor:
        return model(x).exp().sum()

    forward()  # what is made once only, such as caches, comes first
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        loss = forward()
    events = profiler.profiler.kineto_results.events()  # type: ignore[union-attr]
    held_bytes = sum(event.nbytes() for event in events if event.name() == "[memory]")
    del loss
    with saved_tensors(model) as saved:
        loss = forward()
    unseen_bytes = 8 * WRAPPED_NUMBERS.get(name, 0) + loss.untyped_storage().nbytes()
    assert saved.total_bytes + unseen_bytes == held_bytes


@pytest.mark.parametrize("name", ALLOCATED)
def test_meta_device_keeps_the_same_bytes(name: str) -> None:
    model, x = ALLOCATED[name]()
    totals = []
    for device in ("cpu", "meta"):
        model, x = model.to(device), x.to(device)
        with saved_tensors(model) as saved:
            _output = model(x)
        totals.append((saved.total_bytes, saved.input_bytes))
    # a pool on the meta device keeps indices of the size that it has on the CPU
    assert totals[0] == totals[1]


# -- the fullest moment -----------------------------------------------------------


def test_backward_inside_the_context_does_not_blur_the_figures() -> None:
    model = models.mlp(width=WIDTH, depth=3)
    with saved_tensors(model) as saved:
        for _ in range(3):
            model(some_input()).square().sum().backward()
    assert saved.total_bytes == 3 * 4 * ELEMENTS
    assert len(saved.tensors) == 3


def test_result_thrown_away_is_not_kept() -> None:
    module = nn.ReLU()
    with saved_tensors(module) as saved:
        for _ in range(5):
            module(some_input())
    assert saved.total_bytes == 4 * ELEMENTS


def test_two_results_held_at_once_are_both_kept() -> None:
    module = nn.ReLU()
    with saved_tensors(module) as saved:
        _outputs = [module(some_input()) for _ in range(5)]
    assert saved.total_bytes == 5 * 4 * ELEMENTS


def test_figures_stay_after_the_graph_is_gone() -> None:
    module = nn.ReLU()
    with saved_tensors(module) as saved:
        output = module(some_input())
    del output
    assert saved.total_bytes == 4 * ELEMENTS


def test_checkpointed_part_keeps_its_input_alone() -> None:
    model = models.mlp(width=WIDTH, depth=4)
    with saved_tensors(model) as saved:
        loss = checkpoint(model, some_input(), use_reentrant=False).square().sum()
        loss.backward()
    # the output, which square() keeps; the chain's input; nothing between
    assert (saved.total_bytes, saved.input_bytes) == (4 * ELEMENTS, 4 * ELEMENTS)


# -- it changes nothing -----------------------------------------------------------


def grads(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def test_gradients_are_the_same_bit_for_bit() -> None:
    model = models.GPT(heads=2, hidden=16, layers=2, sequence=8, vocabulary=20)
    tokens = torch.zeros(2, 8, dtype=torch.long)
    torch.manual_seed(0)
    model(tokens).exp().sum().backward()
    plain = grads(model)
    model.zero_grad()
    torch.manual_seed(0)
    with saved_tensors(model):
        loss = model(tokens).exp().sum()
    loss.backward()
    assert all(map(torch.equal, plain, grads(model)))


def test_second_derivatives_work_through_the_probe() -> None:
    x = some_input()
    with saved_tensors(Call(torch.exp)):
        (first,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, x.exp())


def test_tensor_changed_in_place_is_still_refused() -> None:
    def forward() -> torch.Tensor:
        y = some_input() * 2
        z = y.square()
        y.add_(1)
        return z.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation") as plain:
        forward().backward()
    with saved_tensors(nn.ReLU()):
        loss = forward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as told:
        loss.backward()
    # autograd's own sentence goes on about which output it was
    for part in ("is at version 1", "expected version 0"):
        assert part in str(plain.value)
        assert part in str(told.value)


def test_nothing_is_left_behind_when_the_forward_pass_raises() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError("half way")

    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), Fails())
    with pytest.raises(ArithmeticError), saved_tensors(model) as saved:
        model(some_input())
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert torch._C._len_torch_function_stack() == 0
    assert saved.total_bytes == 4 * ELEMENTS  # as far as it came
    rest = model[:2]
    with saved_tensors(rest) as again:
        _output = rest(some_input())
    assert again.by_module() == {"1": 4 * ELEMENTS}


def test_module_names_recover_from_an_error_that_the_model_handles() -> None:
    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ArithmeticError

    class Recovers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fails = Fails()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                return self.fails(x)
            except ArithmeticError:
                return x.exp()

    model = nn.Sequential(Recovers())
    with saved_tensors(model) as saved:
        _output = model(some_input())
    assert saved.by_module() == {"0": 4 * ELEMENTS}


def test_activations_die_with_the_graph_without_the_garbage_collector() -> None:
    module = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    gc.disable()
    try:
        with saved_tensors(module):
            output = module(some_input())
        storage = weakref.ref(output.untyped_storage())
        del output
        assert storage() is None
    finally:
        gc.enable()


def test_hooks_entered_before_still_get_every_tensor() -> None:
    seen: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(tensor.numel())
        return tensor.detach()

    module = nn.Softmax(-1)
    x = some_input()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 2):
        with saved_tensors(module) as saved:
            output = module(x)
        (output * torch.arange(WIDTH)).sum().backward()
    assert saved.total_bytes == 4 * ELEMENTS
    assert ELEMENTS in seen
    doubled = x.grad
    assert doubled is not None
    x.grad = None
    (module(x) * torch.arange(WIDTH)).sum().backward()
    assert not torch.equal(doubled, x.grad)  # the outer unpack hook had its say


def test_save_on_cpu_works_outside_and_takes_over_inside() -> None:
    module = nn.ReLU()
    with torch.autograd.graph.save_on_cpu(), saved_tensors(module) as outside:
        first = module(some_input())
    with saved_tensors(module) as inside, torch.autograd.graph.save_on_cpu():
        second = module(some_input())
    (first + second).sum().backward()
    assert (outside.total_bytes, inside.total_bytes) == (4 * ELEMENTS, 0)


def test_nested_probes_see_the_same_and_each_knows_its_model() -> None:
    model = models.mlp(width=WIDTH, depth=3)
    first, rest = model[:2], model[2:]
    with saved_tensors(model) as outer:
        hidden = first(some_input())
        with saved_tensors(rest) as inner:
            _output = rest(hidden)
    assert (inner.total_bytes, inner.input_bytes) == (4 * ELEMENTS, 4 * ELEMENTS)
    # model itself never ran, so all that was kept is activations here
    assert (outer.total_bytes, outer.input_bytes) == (3 * 4 * ELEMENTS, 0)


class Gate(nn.Module):
    """Holds one thread inside the forward pass until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go = threading.Event(), threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if threading.current_thread().name == "beside":
            self.inside.set()
            assert self.go.wait(10)
        return x.exp()


def test_another_thread_in_the_same_model_is_left_alone() -> None:
    model = nn.Sequential(Gate(), nn.ReLU())
    gate = model[0]
    made_here = some_input() * 2
    losses: list[torch.Tensor] = []
    thread = threading.Thread(
        name="beside",
        target=lambda: losses.append(model(made_here.detach()).sum()),
    )
    with saved_tensors(model) as saved:
        thread.start()
        assert gate.inside.wait(10)
        _outside = made_here.square()
        _inside = model(some_input())
        gate.go.set()
        thread.join()
    assert len(losses) == 1
    # what the other thread gave to the model is no input here, and its place no place
    assert saved.by_module() == {
        "": 4 * ELEMENTS,
        "0": 4 * ELEMENTS,
        "1": 4 * ELEMENTS,
    }
    assert saved.input_bytes == 0


def test_dead_storages_are_not_mistaken_for_new_ones() -> None:
    module = nn.ReLU()
    with saved_tensors(module) as saved:
        for _ in range(200):  # the allocator hands the same addresses out again
            module(some_input())
        _outputs = [module(some_input()) for _ in range(3)]
    assert saved.total_bytes == 3 * 4 * ELEMENTS


# -- bad input --------------------------------------------------------------------


def test_what_is_no_model_is_refused_before_anything_runs() -> None:
    with pytest.raises(ModelError, match="pass the built module"), saved_tensors(3):  # type: ignore[arg-type]
        pytest.fail("the context must not open")
    with pytest.raises(ModelError, match="needs the model"), saved_tensors():
        pytest.fail("the context must not open")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
def test_scripted_model_is_refused_with_the_way_out() -> None:
    scripted = torch.jit.script(nn.Linear(WIDTH, WIDTH))
    with (
        pytest.raises(ModelError, match=r"wrap it in nn\.Sequential"),
        saved_tensors(scripted),
    ):
        pytest.fail("the context must not open")
    wrapped = nn.Sequential(scripted, nn.ReLU())
    with saved_tensors(wrapped) as saved:
        _output = wrapped(some_input())
    assert (saved.total_bytes, saved.input_bytes) == (4 * ELEMENTS, 4 * ELEMENTS)


def test_repr_says_bytes_shape_role_and_place() -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU())
    with saved_tensors(model) as saved:
        _output = model(torch.randn(32, 512))
    assert repr(saved) == "SavedTensors(64 KiB in 1 tensors, and 64 KiB of inputs)"
    assert repr(saved.tensors[0]) == "<64 KiB float32[32, 512]: output of relu in 1>"
