"""The timeline against the allocator's own record, and what it says of a step."""

import gc
import threading
import weakref
from collections.abc import Callable

import psutil
import pytest
import torch
from torch import nn
from torch.optim.optimizer import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
)
from torch.utils.checkpoint import checkpoint

import ckptlab
from ckptlab import models
from ckptlab.errors import ModelError
from ckptlab.memory import timeline as timeline_module
from ckptlab.memory.fake import without_memory
from ckptlab.memory.limit import memory_limit
from ckptlab.memory.recorder import Recorder
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.storage import parameter_bytes
from ckptlab.memory.timeline import Timeline, memory_timeline
from tests.memory.allocator import allocator_record, mark
from tests.memory.steps import CASES, TrainingStep

WIDTH, BATCH = 64, 32
ACTIVATION_BYTES = 4 * WIDTH * BATCH


def run_under_timeline(step: TrainingStep) -> Timeline:
    with memory_timeline(step.model) as timeline:
        step.run()
    return timeline


def grown_bytes(timeline: Timeline) -> list[int]:
    """Live bytes after each operation, counted from the start."""
    start_bytes = timeline.steps[0].live_bytes
    return [step.live_bytes - start_bytes for step in timeline.steps[1:]]


class _MarkingRecorder(Recorder):
    """Marks the end of each operation in the allocator's record."""

    def on_operation(self, func: object, made_bytes: int) -> None:
        super().on_operation(func, made_bytes)
        mark()


@pytest.fixture(autouse=True)
def no_garbage_of_others() -> None:
    gc.collect()


@pytest.mark.parametrize("case", CASES)
def test_peak_is_the_allocators_own_to_the_byte(case: str) -> None:
    step = CASES[case]()
    plain_bytes, _ = allocator_record(step.run)  # nothing watches
    step = CASES[case]()
    gc.collect()
    measured_bytes = max(grown_bytes(run_under_timeline(step)))
    missing_bytes = plain_bytes - measured_bytes
    if step.missing_bytes is None:
        assert 0 < missing_bytes < plain_bytes
    else:
        assert missing_bytes == step.missing_bytes


@pytest.mark.parametrize("case", CASES)
def test_live_bytes_after_every_operation_are_the_allocators(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "Recorder", _MarkingRecorder)
    step = CASES[case]()
    gc.collect()
    timelines = []
    watched_bytes, at_marks = allocator_record(
        lambda: timelines.append(run_under_timeline(step))
    )
    measured = grown_bytes(timelines[0])
    assert len(measured) == len(at_marks) > 10
    # the timeline takes a sum of gradients as done in place, which it is when nobody
    # watches, but the allocator has just seen it being done out of place
    unseen = [
        there - here
        for there, here, step in zip(
            at_marks, measured, timelines[0].steps[1:], strict=True
        )
        if (step.operation, step.phase) != ("add", "backward")
    ]
    if step.unseen_bytes:
        assert {n_bytes % step.unseen_bytes for n_bytes in unseen} == {0}
        assert 0 <= min(unseen) < max(unseen) <= 4 * step.unseen_bytes
    else:
        assert set(unseen) == {0}
    if step.missing_bytes == 0:
        assert watched_bytes == max(at_marks)  # and nothing higher in between


# -- what it says of a step -------------------------------------------------------


def mlp_step() -> tuple[nn.Module, torch.optim.Optimizer, Timeline]:
    """One whole step of a three-layer MLP under Adam, whose state exists already."""
    model = models.mlp(width=WIDTH, depth=3)
    optimizer = torch.optim.Adam(model.parameters())

    def run() -> None:
        output = model(torch.randn(BATCH, WIDTH))
        (output * output).sum().backward()
        optimizer.step()

    run()
    optimizer.zero_grad()
    with memory_timeline(model, optimizer) as timeline:
        run()
    return model, optimizer, timeline


def test_every_step_adds_up_from_the_storages_alive_then() -> None:
    _, _, timeline = mlp_step()
    assert timeline.peak_bytes == max(step.live_bytes for step in timeline.steps)
    for number, step in enumerate(timeline.steps):
        alive = [life for life in timeline.lifetimes if life.is_alive_at(number)]
        assert step.number == number
        assert step.live_bytes == sum(life.bytes for life in alive)
    at_peak = timeline.alive_at_peak
    assert [life.bytes for life in at_peak] == sorted(
        (life.bytes for life in at_peak), reverse=True
    )
    for sums in (timeline.by_module(), timeline.by_operation(), timeline.at_peak):
        assert sum(sums.values()) == timeline.peak_bytes


def test_parameters_gradients_and_optimizer_state_are_told_apart() -> None:
    model, _, timeline = mlp_step()
    n_bytes = parameter_bytes(model)
    state_bytes = 2 * n_bytes + 6 * 4  # two moments, and a count for each parameter
    first, last = timeline.steps[0].bytes_by_kind, timeline.steps[-1].bytes_by_kind
    assert (first["parameter"], first["optimizer"]) == (n_bytes, state_bytes)
    assert (last["parameter"], last["optimizer"]) == (n_bytes, state_bytes)
    assert (first["gradient"], last["gradient"]) == (0, n_bytes)


def test_operations_of_the_optimizer_are_its_own_phase() -> None:
    _, _, timeline = mlp_step()
    phases = [step.phase for step in timeline.steps]
    assert list(dict.fromkeys(phases)) == ["forward", "backward", "optimizer"]
    assert timeline.steps[-1].phase == "optimizer"


class Averaging(torch.optim.Optimizer):
    """Keeps an average of the weights where only it knows."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        super().__init__(parameters, {})
        self.average: torch.Tensor | None = None

    def step(self, closure: object = None) -> None:
        [group] = self.param_groups
        with torch.no_grad():
            self.average = group["params"][0] * 0.5


def test_gradient_that_goes_before_the_next_operation_was_one() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
        model.zero_grad()
    last = timeline.steps[-1].bytes_by_kind
    assert last["gradient"] == parameter_bytes(model)


def test_closure_that_an_optimizer_calls_is_a_forward_pass() -> None:
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(torch.ones(BATCH, WIDTH)) - 1).square().mean()
        loss.backward()
        return loss

    with memory_timeline(model) as timeline:
        optimizer.step(closure)
    phases = {(step.operation, step.phase) for step in timeline.steps}
    assert {("sub", "forward"), ("pow", "forward")} <= phases
    assert not {("sub", "optimizer"), ("pow", "optimizer")} & phases
    assert "optimizer" in {phase for _, phase in phases}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_and_higher_order_operators_pass() -> None:
    ragged = torch.nested.nested_tensor([torch.randn(2, WIDTH), torch.randn(3, WIDTH)])
    model = nn.Linear(WIDTH, WIDTH)
    with memory_timeline(model) as timeline, torch.no_grad():
        model(ragged)
        torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.ones(WIDTH),))
    assert timeline.peak_bytes > parameter_bytes(model) + 4 * 5 * WIDTH
    assert timeline.steps[-1].operation == "cond"


def test_what_an_optimizer_makes_and_keeps_is_its_own() -> None:
    model = nn.Linear(WIDTH, WIDTH)
    optimizer = Averaging(list(model.parameters()))
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
        optimizer.step()
    assert timeline.steps[-1].bytes_by_kind["optimizer"] == 4 * WIDTH * WIDTH


def test_what_goes_before_the_backward_pass_is_temporary() -> None:
    _, _, timeline = mlp_step()
    kinds = [
        (life.module, life.kind)
        for life in timeline.lifetimes
        if life.operation == "addmm"
    ]
    # a ReLU keeps its output; what it was given is gone
    assert kinds == [("0", "temporary"), ("2", "temporary"), ("4", "activation")]


def test_tensors_saved_before_the_context_are_activations() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    output = model(torch.randn(BATCH, WIDTH))
    with memory_timeline(model) as timeline:
        output.sum().backward()
    given = [
        (life.kind, life.shape)
        for life in timeline.lifetimes
        if life.operation == "given" and life.made > 0
    ]
    assert given.count(("activation", (BATCH, WIDTH))) == 3  # input, ReLU, output


def test_memory_of_other_devices_is_left_out() -> None:
    model = nn.Linear(WIDTH, WIDTH)
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH))
        torch.empty(10**9, device="meta").add_(1)
    assert timeline.peak_bytes < 10**6


class Looks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x.abs()  # no node of autograd belongs to it
        return x


def test_node_belongs_to_the_first_module_that_runs_under_its_number() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Looks(), nn.ReLU())
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    backward = [step for step in timeline.steps if step.phase == "backward"]
    assert [step.module for step in backward if step.operation == "mm"] == ["0"]


def test_optimizer_that_nobody_named_counts_as_well() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for is_first_step in (True, False):
        with memory_timeline(model) as timeline:
            model(torch.randn(BATCH, WIDTH)).sum().backward()
            optimizer.step()
        before = timeline.steps[0].bytes_by_kind["optimizer"]
        after = timeline.steps[-1].bytes_by_kind["optimizer"]
        assert before == (0 if is_first_step else parameter_bytes(model))
        assert after == parameter_bytes(model)


def test_activations_when_backward_starts_are_what_autograd_keeps() -> None:
    model = models.Block(heads=4, hidden=WIDTH)
    x = torch.randn(2, 16, WIDTH)
    with saved_tensors(model) as saved:
        model(x).sum()
    with memory_timeline(model) as timeline:
        model(x).sum().backward()
    start = next(step for step in timeline.steps if step.phase == "backward")
    # and the loss, which is alive though nothing keeps it; its gradient is temporary
    expected_bytes = saved.total_bytes + saved.input_bytes + 4
    assert start.bytes_by_kind["activation"] == expected_bytes
    assert start.bytes_by_kind["temporary"] == 4


def test_life_of_one_activation_from_the_operation_that_makes_it_to_its_end() -> None:
    _, _, timeline = mlp_step()
    [life] = [
        life
        for life in timeline.lifetimes
        if (life.operation, life.module) == ("relu", "1")
    ]
    assert (life.kind, life.shape) == ("activation", (BATCH, WIDTH))
    made, used = timeline.steps[life.made], timeline.steps[life.last_used]
    assert (made.operation, made.phase) == ("relu", "forward")
    assert (used.operation, used.phase) == ("threshold_backward", "backward")
    assert life.freed is not None
    assert life.last_used < life.freed <= life.last_used + 3
    assert repr(life).startswith(
        "<8 KiB float32[32, 64]: activation by relu in 1, made "
    )


def test_backward_operations_belong_to_the_module_of_their_forward_pass() -> None:
    _, _, timeline = mlp_step()
    backward = [step for step in timeline.steps if step.phase == "backward"]
    assert [
        step.module for step in backward if step.operation == "threshold_backward"
    ] == ["3", "1"]
    matmuls = [step.module for step in backward if step.operation == "mm"]
    assert matmuls == ["4", "4", "2", "2", "0"]  # the input needs no gradient


def test_what_is_computed_again_is_an_activation_of_the_recomputation() -> None:
    model = models.mlp(width=WIDTH, depth=4)
    x = torch.randn(BATCH, WIDTH, requires_grad=True)
    with memory_timeline(model) as timeline:
        hidden = checkpoint(model[:4], x, use_reentrant=False)
        model[4:](hidden).sum().backward()
    again = [step for step in timeline.steps if step.phase == "recompute"]
    assert [step.operation for step in again].count("relu") == 2
    assert {step.module for step in again if step.operation == "relu"} == {"1", "3"}
    made = [
        life.kind
        for life in timeline.lifetimes
        if life.operation == "relu" and life.made >= again[0].number
    ]
    assert made == ["activation"] * 2


@pytest.mark.parametrize("retain_graph", [True, False])
def test_recomputation_is_recognised_when_the_graph_is_kept(retain_graph: bool) -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with memory_timeline(model) as timeline:
        output = checkpoint(model, torch.randn(BATCH, WIDTH), use_reentrant=False)
        output.sum().backward(retain_graph=retain_graph)
    phases = [step.phase for step in timeline.steps if step.operation == "relu"]
    assert phases == ["forward", "recompute"]


class EnergyAndForce(nn.Module):
    """Differentiates in its own forward pass, as models of molecules do."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = models.mlp(width=WIDTH, depth=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        [force] = torch.autograd.grad(self.energy(x).sum(), x, create_graph=True)
        return force


def test_backward_pass_inside_a_forward_pass_is_one() -> None:
    model = EnergyAndForce()
    with memory_timeline(model) as timeline:
        force = model(torch.randn(BATCH, WIDTH, requires_grad=True))
        force.square().sum().backward()
    phases = [step.phase for step in timeline.steps]
    assert "recompute" not in phases
    assert phases.count("backward") > phases.count("forward") > 0
    # what the first backward pass leaves for the second is an activation
    assert {
        life.kind
        for life in timeline.lifetimes
        if life.operation == "threshold_backward"
    } >= {"activation"}


def test_forward_pass_alone_leaves_activations_and_no_gradient() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with memory_timeline(model) as timeline:
        _output = model(torch.randn(BATCH, WIDTH))
    assert timeline.steps[-1].bytes_by_kind["activation"] == 3 * ACTIVATION_BYTES
    del _output
    gc.collect()  # after the end nothing that goes changes the record
    assert timeline.steps[-1].bytes_by_kind["activation"] == 3 * ACTIVATION_BYTES
    with memory_timeline(model) as timeline, torch.no_grad():
        _output = model(torch.randn(BATCH, WIDTH))
    assert timeline.steps[-1].bytes_by_kind["activation"] == ACTIVATION_BYTES
    assert timeline.peak_bytes == parameter_bytes(model) + 3 * ACTIVATION_BYTES


def test_optimizer_inside_the_backward_pass_frees_each_gradient_at_once() -> None:
    model = models.mlp(width=WIDTH, depth=4)
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)

        def step_at_once(
            parameter: torch.Tensor, optimizer: torch.optim.Optimizer = optimizer
        ) -> None:
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(step_at_once)
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    gradients = [life for life in timeline.lifetimes if life.kind == "gradient"]
    assert len(gradients) == 8
    most = max(step.bytes_by_kind["gradient"] for step in timeline.steps)
    assert 0 < most <= parameter_bytes(model) // 4


def test_timeline_can_be_read_while_the_step_runs() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with memory_timeline(model) as timeline:
        assert timeline.peak_bytes == parameter_bytes(model)
        assert (len(timeline.steps), timeline.steps[0].operation) == (1, "start")
        loss = model(torch.randn(BATCH, WIDTH)).sum()
        halfway = len(timeline.steps)
        loss.backward()
        assert len(timeline.steps) > halfway > 1
        gradient_bytes = timeline.steps[-1].bytes_by_kind["gradient"]
        assert gradient_bytes == parameter_bytes(model)


def test_repr_tells_the_peak_and_its_kinds() -> None:
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU())
    with memory_timeline(model) as timeline:
        model(torch.ones(256, 256)).sum().backward()
    assert repr(timeline.peak) == "<step 14: 1 MiB live after sum of 0, backward>"
    assert repr(timeline).endswith(
        "peak 1 MiB after operation 14: parameter 257 KiB, gradient 257 KiB, "
        "activation 256 KiB, temporary 256 KiB)"
    )


def test_allocators_peak_is_explained_to_the_byte() -> None:
    """Here for a CPU, which rounds nothing; tests/gpu holds it to a real allocator."""
    model = nn.Linear(WIDTH, WIDTH)
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    assert timeline.allocators == []
    peak_bytes = timeline.peak_bytes + 10_000
    told = timeline_module._allocator_peak(timeline, torch.device("cpu"), peak_bytes)
    rounded = sum(-(-life.bytes // 512) * 512 for life in timeline.alive_at_peak)
    assert told.rounding_bytes == rounded - timeline.peak_bytes > 0
    assert told.unseen_bytes == peak_bytes - rounded
    assert repr(told).startswith("<allocator of cpu: peak ")


# -- fake tensors -----------------------------------------------------------------


@pytest.mark.parametrize("built", ["inside", "in another context", "outside"])
def test_fake_tensors_give_the_same_timeline_as_real_ones(built: str) -> None:
    def build() -> nn.Module:
        return models.Block(heads=4, hidden=WIDTH)

    def measure(model: nn.Module) -> Timeline:
        with memory_timeline(model) as timeline:
            output = model(torch.zeros(2, 16, WIDTH))
            (output * output).sum().backward()
        return timeline

    real = measure(build())
    with without_memory():
        model = build()
    if built == "outside":
        model = build()
    with without_memory():
        fake = measure(build() if built == "inside" else model)
    assert fake.steps == real.steps
    assert [life.freed for life in fake.lifetimes] == [
        life.freed for life in real.lifetimes
    ]


def test_limit_and_timeline_stack() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with (
        memory_timeline(model) as timeline,
        pytest.raises(torch.OutOfMemoryError),
        memory_limit("48 KiB"),
    ):
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    assert timeline.peak_bytes >= 48 * 2**10


# -- faults -----------------------------------------------------------------------


def leaves_nothing_behind(model: nn.Module) -> bool:
    hooks = [
        *(m._forward_hooks for m in model.modules()),
        *(m._forward_pre_hooks for m in model.modules()),
        _global_optimizer_pre_hooks,
        _global_optimizer_post_hooks,
    ]
    return (
        not any(hooks) and torch.utils._python_dispatch._len_torch_dispatch_stack() == 0
    )


class FailsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
def test_error_ends_the_timeline_and_the_record_up_to_there_is_right(
    error: type[BaseException],
) -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with pytest.raises(error), memory_timeline(model) as timeline:  # noqa: PT012
        _output = model(torch.randn(BATCH, WIDTH))
        raise error
    assert leaves_nothing_behind(model)
    assert timeline.peak_bytes == parameter_bytes(model) + 3 * ACTIVATION_BYTES


def test_interrupt_in_the_backward_pass_gets_through() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with pytest.raises(KeyboardInterrupt), memory_timeline(model) as timeline:
        FailsInBackward.apply(model(torch.randn(BATCH, WIDTH))).sum().backward()
    assert leaves_nothing_behind(model)
    assert timeline.steps[-1].phase == "backward"


def test_early_return_ends_the_timeline() -> None:
    model = models.mlp(width=WIDTH, depth=2)

    def measure() -> Timeline:
        with memory_timeline(model) as timeline:
            model(torch.randn(BATCH, WIDTH))
            return timeline

    timeline = measure()
    n_steps = len(timeline.steps)
    model(torch.randn(BATCH, WIDTH))
    assert len(timeline.steps) == n_steps > 1
    assert leaves_nothing_behind(model)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*")
@pytest.mark.parametrize("make", [torch.jit.script, None])
def test_scripted_and_compiled_parts_count(make: object) -> None:
    part = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    plain = nn.Sequential(part, nn.Linear(WIDTH, WIDTH))
    made = make(part) if callable(make) else torch.compile(part, backend="aot_eager")
    model = nn.Sequential(made, plain[1])

    def measure(model: nn.Module) -> Timeline:
        model.zero_grad()
        with memory_timeline(model) as timeline:
            output = model(torch.randn(BATCH, WIDTH))
            (output * output).sum().backward()
        return timeline

    assert measure(model).peak_bytes == measure(plain).peak_bytes


def test_other_threads_are_not_followed_and_not_disturbed() -> None:
    model = models.mlp(width=WIDTH, depth=2)

    def train() -> None:
        for _ in range(20):
            model(torch.randn(BATCH, WIDTH)).sum().backward()

    with memory_timeline(model) as alone:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    thread = threading.Thread(target=train)
    with memory_timeline(model) as timeline:
        thread.start()
        model(torch.randn(BATCH, WIDTH)).sum().backward()
        thread.join()
    operations = [step.operation for step in timeline.steps]
    assert operations.count("addmm") == 2
    assert len(operations) <= len(alone.steps) + 8  # gradients may add up now
    assert leaves_nothing_behind(model)


def test_nested_timelines_see_the_same() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    with memory_timeline(model) as outer, memory_timeline(model) as inner:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    assert outer.steps == inner.steps
    assert outer.lifetimes == inner.lifetimes


@pytest.mark.parametrize("is_outside", [True, False])
def test_hooks_of_others_work_inside_and_outside(is_outside: bool) -> None:
    model = models.mlp(width=WIDTH, depth=2)
    packed = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.numel())
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    x = torch.randn(BATCH, WIDTH)
    with memory_timeline(model) as plain:
        model(x).sum().backward()
    model.zero_grad()
    if is_outside:
        with hooks, memory_timeline(model) as timeline:
            model(x).sum().backward()
    else:
        with memory_timeline(model) as timeline, hooks:
            model(x).sum().backward()
    assert packed
    assert timeline.peak_bytes == plain.peak_bytes
    assert timeline.at_peak == plain.at_peak


def test_gradients_and_random_numbers_are_those_of_the_plain_run() -> None:
    model = models.Block(heads=4, hidden=WIDTH)
    x = torch.randn(2, 16, WIDTH)

    def gradients() -> list[torch.Tensor | None]:
        model.zero_grad()
        torch.manual_seed(0)
        model(x).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    plain = gradients()
    with memory_timeline(model):
        watched = gradients()
    for one, other in zip(plain, watched, strict=True):
        assert one is not None
        assert other is not None
        assert torch.equal(one, other)


def test_timeline_keeps_no_activation_alive() -> None:
    model = models.mlp(width=WIDTH, depth=2)
    gc.disable()
    try:
        with memory_timeline(model) as timeline:
            output = model(torch.randn(BATCH, WIDTH))
            storage = weakref.ref(output.untyped_storage())
            del output
            assert storage() is None
        assert len(timeline.steps) > 1
    finally:
        gc.enable()


def test_ten_thousand_steps_do_not_grow_memory() -> None:
    model = nn.Linear(4, 4)
    x = torch.ones(2, 4)

    def use(n: int) -> None:
        for _ in range(n):
            with memory_timeline(model) as timeline:
                model(x).sum().backward()
            assert timeline.peak_bytes > 0

    use(500)
    gc.collect()
    before_bytes = psutil.Process().memory_info().rss
    use(10_000)
    gc.collect()
    assert psutil.Process().memory_info().rss - before_bytes < 4 * 2**20


# -- bad input --------------------------------------------------------------------


def test_what_is_no_model_or_no_optimizer_is_refused() -> None:
    with pytest.raises(ModelError, match="pass the built module"):  # noqa: SIM117
        with memory_timeline(nn.Linear):  # type: ignore[arg-type]
            pytest.fail("the context must not open")
    model = nn.Linear(2, 2)
    with pytest.raises(ModelError, match=r"optimizer is 0\.1; pass a torch\.optim"):  # noqa: SIM117
        with memory_timeline(model, 0.1):  # type: ignore[arg-type]
            pytest.fail("the context must not open")
    assert leaves_nothing_behind(model)


# -- a recomputation that ends early -------------------------------------------------


class _Checkpointed(nn.Module):
    """A layer, and two more that run again in the backward pass."""

    def __init__(self, recompute: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.recompute = recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.recompute(self.inner, self.first(x))


RECOMPUTE = {
    "PyTorch's": lambda inner, x: checkpoint(inner, x, use_reentrant=False),
    "ckptlab's": ckptlab.checkpoint,
}


@pytest.mark.parametrize("recompute", RECOMPUTE.values(), ids=RECOMPUTE)
def test_recomputation_that_ends_early_leaves_no_module_running(
    recompute: Callable[..., torch.Tensor],
) -> None:
    model = _Checkpointed(recompute)
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    phases = {(step.operation, step.module): step.phase for step in timeline.steps}
    assert phases["addmm", "inner.0"] == "recompute"
    assert phases["relu", "inner.1"] == "recompute"
    assert phases["threshold_backward", "inner.1"] == "backward"
    assert phases["mm", "inner.0"] == "backward"
    assert phases["mm", "first"] == "backward"


@pytest.mark.parametrize("recompute", RECOMPUTE.values(), ids=RECOMPUTE)
def test_what_is_made_again_is_an_activation_and_the_rest_is_not(
    recompute: Callable[..., torch.Tensor],
) -> None:
    model = _Checkpointed(recompute)
    with memory_timeline(model) as timeline:
        model(torch.randn(BATCH, WIDTH)).sum().backward()
    step = next(s for s in timeline.steps if s.operation == "threshold_backward")
    kinds = step.bytes_by_kind
    # the input, the output of `first`, that of the ReLU made again; and the loss
    assert kinds["activation"] == 3 * ACTIVATION_BYTES + 4


def test_module_calls_are_plain_again_after_the_watch() -> None:
    plain = nn.Module._call_impl
    model = nn.Linear(2, 2)
    with memory_timeline(model), saved_tensors(model):
        assert nn.Module._call_impl is not plain
        with pytest.raises(RuntimeError):
            model(torch.ones(3))
    assert nn.Module._call_impl is plain
