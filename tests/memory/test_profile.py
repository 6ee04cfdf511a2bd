"""A measured chain against the allocator's record and whole runs; what it leaves."""

import random
import time
from collections.abc import Callable, Iterator

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ckptlab import models
from ckptlab.errors import ModelError
from ckptlab.memory import seconds as seconds_module
from ckptlab.memory.fake import without_memory
from ckptlab.memory.profile import profile_chain
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.timeline import memory_timeline
from ckptlab.planning.chain import Chain
from ckptlab.planning.planners import plan_store_all
from ckptlab.planning.replay import replay
from tests.memory.allocator import allocator_record, mark
from tests.memory.steps import measured_peak

WIDTH, BATCH = 64, 32
ACTIVATION_BYTES = 4 * WIDTH * BATCH


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seconds_module, "ENOUGH_SECONDS", 0)


def some_input() -> torch.Tensor:
    return torch.randn(BATCH, WIDTH)


def layer() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())


def blocks(n: int) -> nn.Sequential:
    return nn.Sequential(*[models.Block(heads=4, hidden=WIDTH) for _ in range(n)])


class LSTMStage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.lstm(x)[0]
        return output


STAGES: dict[str, Callable[[], nn.Module]] = {
    "linear and ReLU": layer,
    "softmax": lambda: nn.Softmax(-1),
    "convolution and batch norm": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 16)), nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh()
    ),
    "transformer": lambda: models.Block(heads=4, hidden=WIDTH),
    "LSTM": LSTMStage,
    "checkpointed": lambda: Checkpointed(),
}


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = models.mlp(width=WIDTH, depth=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = checkpoint(
            self.inside, x, use_reentrant=False, preserve_rng_state=False
        )
        return output


@pytest.mark.parametrize("name", STAGES)
def test_saved_bytes_are_what_the_allocator_still_has_out(name: str) -> None:
    stage = STAGES[name]()
    x = torch.randn(2, 16, WIDTH, requires_grad=True)
    outputs = []

    def run() -> None:
        outputs.append(stage(x))
        mark()

    run()  # what a first run allocates for good
    outputs.clear()
    _, [still_out_bytes] = allocator_record(run)
    [measured] = profile_chain([stage], x).stages
    wrapped_bytes = 8 if name == "transformer" else 0  # of a Python number
    assert measured.saved_bytes == still_out_bytes - wrapped_bytes
    assert measured.output_bytes == outputs[0].untyped_storage().nbytes()


def test_saved_bytes_are_what_autograd_keeps() -> None:
    model = blocks(3)
    x = torch.randn(2, 16, WIDTH)
    chain = profile_chain(model, x)
    with saved_tensors(model) as saved:
        model(x)
    # each stage's input is the output of the one before, the last output nobody's yet
    assert chain.input_bytes == saved.input_bytes
    assert (
        sum(stage.saved_bytes for stage in chain.stages)
        == saved.total_bytes + chain.stages[-1].output_bytes
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(*[layer() for _ in range(12)]),
        lambda: blocks(12),
        lambda: nn.Sequential(*[Checkpointed() for _ in range(12)]),
    ],
)
def test_replay_of_a_measured_chain_meets_the_peak_of_the_whole_run(
    make: Callable[[], nn.Sequential],
) -> None:
    model = make()
    x = torch.randn(2, 16, WIDTH, requires_grad=True)
    chain = profile_chain(model, x)
    ledger = replay(chain, plan_store_all(chain))
    measured_bytes = measured_peak(model, x)
    scalars_bytes = 8  # the loss and its gradient
    assert 0 <= measured_bytes - ledger.peak_bytes <= scalars_bytes


def test_transient_bytes_are_those_above_what_is_kept() -> None:
    def forward_transient(x: torch.Tensor) -> torch.Tensor:
        big = torch.cat([x.detach()] * 8)
        return x * big[:BATCH].clone()  # big is gone after this

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            big = torch.cat([gradient] * 8)
            return big[:BATCH].clone()

    x = some_input().requires_grad_()
    chain = profile_chain([forward_transient, Backward.apply], x)
    first, second = chain.stages
    assert first.saved_bytes == 2 * ACTIVATION_BYTES  # the factor and the product
    assert first.forward_extra_bytes == 8 * ACTIVATION_BYTES - 0
    assert second.backward_extra_bytes == 7 * ACTIVATION_BYTES
    assert second.forward_extra_bytes == first.backward_extra_bytes == 0


def test_gradients_of_parameters_do_not_count_nor_does_a_first_stage_without_any() -> (
    None
):
    wide = nn.Linear(WIDTH, 64 * WIDTH)
    narrow = nn.Sequential(wide, nn.Linear(64 * WIDTH, WIDTH))
    [stage] = profile_chain([narrow], torch.randn(1, WIDTH)).stages
    weight_bytes = 4 * 64 * WIDTH * WIDTH
    assert stage.backward_extra_bytes < weight_bytes // 8
    frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
    chain = profile_chain([frozen, layer()], some_input())
    assert chain.stages[0].backward_seconds == 0 < chain.stages[1].backward_seconds
    assert chain.stages[0].saved_bytes == ACTIVATION_BYTES


@pytest.mark.parametrize("kind", ["Sequential", "ModuleList", "list", "repeated"])
def test_stages_may_come_as_any_list_of_callables(kind: str) -> None:
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)]
    stages = {
        "Sequential": nn.Sequential(*layers),
        "ModuleList": nn.ModuleList(layers),
        "list": layers,
        "repeated": nn.Sequential(layers[0], layers[1], layers[0]),
    }[kind]
    chain = profile_chain(stages, some_input())  # type: ignore[arg-type]
    assert [stage.name for stage in chain.stages] == [
        "0: Linear",
        "1: ReLU",
        "2: Linear",
    ]
    assert chain.input_bytes == ACTIVATION_BYTES
    names = nn.Sequential()
    names.add_module("first", layers[0])
    assert profile_chain(names, some_input()).stages[0].name == "first: Linear"
    chain = profile_chain([layers[0], torch.relu], some_input())
    assert chain.stages[1].name == "1: relu"


def test_stages_may_take_and_give_tuples_and_several_inputs() -> None:
    def split(
        x: torch.Tensor, scale: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return x * scale, scale

    def join(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return pair[0] + pair[1]

    x, scale = some_input().requires_grad_(), torch.ones(1)
    chain = profile_chain([split, join], x, scale)
    assert chain.input_bytes == ACTIVATION_BYTES + 4
    # the scale is handed on, not made
    assert [s.output_bytes for s in chain.stages] == [ACTIVATION_BYTES] * 2


def test_view_or_in_place_stage_counts_its_output() -> None:
    model = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True), nn.Unflatten(1, (8, 8))
    )
    for stage in profile_chain(model, some_input()).stages:
        assert stage.output_bytes == stage.saved_bytes == ACTIVATION_BYTES


def test_seconds_are_of_the_stage_and_grow_with_its_work() -> None:
    class Slow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(200):
                x = x.sin()
            return x

    chain = profile_chain([nn.Tanh(), Slow()], some_input().requires_grad_())
    fast, slow = chain.stages
    assert slow.forward_seconds > 10 * fast.forward_seconds > 0
    assert slow.backward_seconds > 10 * fast.backward_seconds > 0


def test_seconds_after_the_last_saved_tensor_are_those_that_recomputation_skips() -> (
    None
):
    def saves_first(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        time.sleep(0.02)
        return y

    def saves_last(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return x.sin()

    def saves_nothing(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return x + 1

    first, last, nothing = profile_chain(
        [saves_first, saves_last, saves_nothing], some_input().requires_grad_()
    ).stages
    assert 0.015 < first.skipped_seconds <= first.forward_seconds
    assert last.skipped_seconds < 0.015 < last.forward_seconds
    assert 0.015 < nothing.skipped_seconds <= nothing.forward_seconds


def test_stage_that_cannot_be_recomputed_skips_nothing() -> None:
    runs = iter(range(1000))

    def saves_more_each_time(x: torch.Tensor) -> torch.Tensor:
        for _ in range(next(runs)):
            x = x.sin()
        return x.sin()

    [stage] = profile_chain(
        [saves_more_each_time], some_input().requires_grad_()
    ).stages
    assert stage.skipped_seconds == 0
    assert stage.forward_seconds > 0


def test_slow_moment_hits_all_stages_alike() -> None:
    calls: list[int] = []

    def stage(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            calls.append(number)
            return x.sin()

        return run

    profile_chain([stage(number) for number in range(3)], some_input().requires_grad_())
    # a round runs each stage three times: plain, checkpointed, and again
    rounds = calls[-27:]
    assert [rounds.count(number) for number in range(3)] == [9, 9, 9]


def test_chain_of_fake_tensors_has_the_bytes_of_the_real_one() -> None:
    def quantities(chain: Chain) -> list[tuple[int, ...]]:
        return [
            (
                s.output_bytes,
                s.saved_bytes,
                s.forward_extra_bytes,
                s.backward_extra_bytes,
            )
            for s in chain.stages
        ]

    real = profile_chain(blocks(2), torch.randn(2, 16, WIDTH))
    with without_memory():
        fake = profile_chain(blocks(2), torch.randn(2, 16, WIDTH))
    assert quantities(fake) == quantities(real)


def test_casts_of_autocast_belong_to_the_stage_that_makes_them() -> None:
    layers = nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3)])
    x = some_input()
    with torch.autocast("cpu", torch.bfloat16):
        chain = profile_chain(layers, x)
        with memory_timeline(layers) as timeline:
            _output = layers(x)
    kept = timeline.steps[-1].bytes_by_kind["activation"]
    assert sum(s.saved_bytes for s in chain.stages) + chain.input_bytes == kept


def test_jagged_and_lazy_stages_can_be_measured() -> None:
    jagged = torch.nested.nested_tensor(
        [torch.randn(2, WIDTH), torch.randn(3, WIDTH)], layout=torch.jagged
    )
    assert profile_chain(layer(), jagged).stages[0].output_bytes >= 4 * 5 * WIDTH
    stages = [nn.Linear(WIDTH, WIDTH), nn.LazyBatchNorm1d()]
    assert profile_chain(stages, some_input()).stages[1].backward_seconds > 0


# -- what it leaves ---------------------------------------------------------------


class Meddles(nn.Module):
    """Changes everything that a stage might."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.dropout = nn.Dropout()
        self.register_buffer("replaced", torch.zeros(3))
        self.fails = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.norm(x)) + random.random() + numpy.random.rand()
        self.replaced = self.replaced + 1
        self.eval()
        if self.fails:
            raise KeyboardInterrupt
        self.train()
        return x


def everything(model: Meddles) -> Iterator[object]:
    yield torch.get_rng_state().tolist()
    yield random.getstate()
    yield numpy.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    yield {name: value.tolist() for name, value in model.state_dict().items()}
    yield {name: id(buffer) for name, buffer in model.named_buffers()}
    yield [module.training for module in model.modules()]
    yield [parameter.grad for parameter in model.parameters()]
    yield [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    yield torch.is_grad_enabled()
    yield torch.utils._python_dispatch._len_torch_dispatch_stack()


@pytest.mark.parametrize("fails", [False, True])
def test_all_is_as_before_even_if_a_stage_fails(fails: bool) -> None:
    model = Meddles()
    model.dropout.eval()
    x = some_input()
    model.fails = fails
    with torch.no_grad():
        before = list(everything(model))
        if fails:
            with pytest.raises(KeyboardInterrupt):
                profile_chain([nn.Tanh(), model], x)
        else:
            profile_chain([nn.Tanh(), model], x)
        assert list(everything(model)) == before
    assert not x.requires_grad


class Adds(nn.Module):
    """Uses a buffer of any kind."""

    def __init__(self, buffer: torch.Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("buffer", buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.linear(x) + self.buffer
        return hidden


def test_buffers_that_cannot_be_written_to_are_left_alone() -> None:
    with torch.inference_mode():
        frozen = torch.zeros(WIDTH)
    for buffer in (torch.zeros(1, WIDTH).expand(BATCH, WIDTH), frozen):
        stage = Adds(buffer)
        profile_chain([stage], some_input())
        assert stage.buffer is buffer


def test_real_buffers_stay_as_they_are_under_fake_tensors() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    with without_memory():
        profile_chain(model, some_input())
    assert model[1].num_batches_tracked == 0
    assert torch.equal(model[1].running_mean, torch.zeros(WIDTH))


def test_gradients_that_were_there_stay_and_no_hook_of_a_parameter_runs() -> None:
    model = layer()
    model(some_input()).sum().backward()
    weight = model[0].weight
    assert weight.grad is not None
    before, content = weight.grad, weight.grad.clone()
    weight.register_post_accumulate_grad_hook(lambda _: pytest.fail("a hook ran"))
    profile_chain(model, some_input())
    assert weight.grad is before
    assert torch.equal(before, content)


def test_input_stays_as_it_is_under_a_stage_that_changes_it_in_place() -> None:
    x = some_input()
    content = x.clone()
    profile_chain([nn.ReLU(inplace=True), nn.Linear(WIDTH, WIDTH)], x)
    assert torch.equal(x, content)


def test_graph_that_waits_for_its_backward_pass_can_still_run_it() -> None:
    model = nn.BatchNorm1d(WIDTH).eval()  # whose gradient needs the running statistics
    loss = model(some_input()).sum()
    profile_chain([model.train()], some_input())
    loss.backward()


def test_profile_is_the_same_under_inference_mode() -> None:
    layers = [layer(), layer()]
    chain = profile_chain(layers, some_input())
    with torch.inference_mode():
        inside = profile_chain(layers, some_input())
    assert [s.saved_bytes for s in inside.stages] == [
        s.saved_bytes for s in chain.stages
    ]
    assert inside.stages[0].backward_seconds > 0


# -- progress and bad input --------------------------------------------------------


def test_progress_shows_only_when_it_takes_long(
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile_chain(layer(), some_input())
    assert capsys.readouterr().err == ""


def test_progress_shows_what_takes_longer_than_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seconds_module, "LEAST_RUNS", 1)

    class Sleeps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            time.sleep(0.2)
            return x.sin()

    profile_chain([Sleeps()] * 3, some_input().requires_grad_())
    assert "profile_chain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        (nn.Linear(WIDTH, WIDTH), "stages are of type Linear; pass an nn.Sequential"),
        (nn.Sequential(), "stages are empty; pass at least one"),
        ([], "stages are empty; pass at least one"),
        ([nn.ReLU(), 3], "stage 1 is of type int and cannot be called"),
        (
            nn.Sequential(nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8)),
            r"stage 1: Linear cannot run on what 0: Linear gives it, "
            r"\(a float32\[32, 8\]\): mat1 and mat2",
        ),
        (nn.Sequential(nn.Linear(3, 3)), r"cannot run on what the call gives it"),
        (
            [nn.GRU(WIDTH, 8), nn.Flatten()],
            "stage 1: Flatten cannot run on what 0: GRU",
        ),
        ([nn.Linear(WIDTH, 8), lambda x: x[0]["a"]], "stage 1: <lambda> cannot run on"),
        ([lambda x: None], "returned a NoneType and no tensor"),
        ([nn.ReLU()], "no stage needs a gradient"),
    ],
)
def test_stages_that_cannot_be_measured_get_one_clear_sentence(
    stages: object, told: str
) -> None:
    with pytest.raises(ModelError, match=told):
        profile_chain(stages, some_input())  # type: ignore[arg-type]


def test_call_without_inputs_is_refused() -> None:
    with pytest.raises(ModelError, match="pass the inputs of the first stage"):
        profile_chain(layer())
