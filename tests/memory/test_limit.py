"""A limit on live bytes: what it counts, what it raises, what is left behind."""

import gc
import threading

import pytest
import torch
from torch import nn

from ckptlab.errors import UnitError
from ckptlab.memory.fake import without_memory
from ckptlab.memory.limit import memory_limit

KIB = 1024


def kib(n: int) -> torch.Tensor:
    return torch.zeros(n * KIB, dtype=torch.uint8)


def test_live_bytes_up_to_the_limit_pass_and_one_more_does_not() -> None:
    with memory_limit("64 KiB"):
        kept = kib(60)
        kib(4)
        kib(4)  # the one before is gone by now
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(4 * KIB + 1, dtype=torch.uint8)
        assert kept.sum() == 0


def test_error_tells_what_was_asked_the_limit_and_what_is_in_use() -> None:
    with memory_limit("64 KiB"):
        kept = kib(40)
        with pytest.raises(torch.OutOfMemoryError) as caught:
            kib(30)
    assert str(caught.value) == (
        "out of memory: tried to allocate 30 KiB; the limit is 64 KiB, 40 KiB of it "
        "in use"
    )
    del kept


def test_program_goes_on_after_the_error_and_what_was_there_is_intact() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with memory_limit("256 KiB"):
        with pytest.raises(torch.OutOfMemoryError):
            model(torch.ones(4096, 64)).sum().backward()
        # a smaller batch fits now: all that the failed step held is gone
        gc.collect()
        model(torch.ones(64, 64)).sum().backward()
    assert all(torch.equal(before[name], v) for name, v in model.state_dict().items())
    assert model[0].weight.grad is not None


def test_backward_pass_counts() -> None:
    x = torch.ones(16 * KIB, requires_grad=True)  # 64 KiB
    with memory_limit("100 KiB"):
        loss = x.sum()
        with pytest.raises(torch.OutOfMemoryError):
            loss.backward()  # the gradient takes as much again


def test_tensor_from_outside_counts_once_an_operation_uses_it() -> None:
    outside = kib(60)
    with memory_limit("64 KiB"):
        kib(60)  # `outside` has not been used
        with pytest.raises(torch.OutOfMemoryError):
            outside + 1
        with pytest.raises(torch.OutOfMemoryError):
            kib(5)
    del outside


def test_views_and_in_place_operations_take_no_memory() -> None:
    with memory_limit("64 KiB"):
        kept = kib(60)
        kept.view(60, -1).t()[3].add_(1)
        kept += 1
        kept.resize_(64 * KIB)
        with pytest.raises(torch.OutOfMemoryError):
            kept.resize_(65 * KIB)


def test_freed_resized_tensor_gives_back_all_of_its_memory() -> None:
    with memory_limit("64 KiB"):
        for _ in range(3):
            grown = torch.empty(0, dtype=torch.uint8)
            grown.resize_(60 * KIB)
            del grown


def test_limits_nest_and_the_tighter_one_speaks() -> None:
    with memory_limit("64 KiB"):
        with memory_limit("16 KiB"), pytest.raises(torch.OutOfMemoryError, match="16"):
            kib(20)
        kept = kib(20)
        with memory_limit("1 MiB"), pytest.raises(torch.OutOfMemoryError, match="64"):
            kib(50)
    del kept


def test_limit_is_a_decorator_anew_at_each_call() -> None:
    @memory_limit("64 KiB")
    def allocate(n: int) -> torch.Tensor:
        return kib(n)

    kept = [allocate(60) for _ in range(3)]
    assert len(kept) == 3
    with pytest.raises(torch.OutOfMemoryError):
        allocate(65)


def test_limit_can_be_entered_again_even_inside_itself() -> None:
    limit = memory_limit("64 KiB")
    for _ in range(2):
        with limit:
            kept = kib(40)
            with limit, pytest.raises(torch.OutOfMemoryError, match="40 KiB of it"):
                kib(30)
            del kept
            kib(60)
    assert repr(limit) == "memory_limit('64 KiB')"


def test_gradients_that_add_up_do_so_in_place() -> None:
    x = torch.ones(16 * KIB, requires_grad=True)  # 64 KiB
    with memory_limit("260 KiB"):  # x, two gradients and their sum's place
        (x[::2].sum() + x[1::2].sum()).backward()
    x.grad = None
    with memory_limit("190 KiB"), pytest.raises(torch.OutOfMemoryError):
        (x[::2].sum() + x[1::2].sum()).backward()


def test_meta_tensors_hold_nothing() -> None:
    with memory_limit("1 KiB"):
        torch.empty(10**9, device="meta").add_(1)


def test_limit_ends_with_its_context_even_after_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError), memory_limit("1 KiB"):
        kib(2)
    with pytest.raises(KeyboardInterrupt), memory_limit("1 KiB"):
        raise KeyboardInterrupt
    kib(4)
    assert torch.utils._python_dispatch._len_torch_dispatch_stack() == 0


def test_other_threads_are_not_limited() -> None:
    sizes = []
    with memory_limit("1 KiB"):
        thread = threading.Thread(target=lambda: sizes.append(kib(4).numel()))
        thread.start()
        thread.join()
    assert sizes == [4 * KIB]


@pytest.mark.parametrize("fake_outside", [True, False])
def test_fake_tensors_are_limited_as_if_they_were_real(fake_outside: bool) -> None:
    contexts = [without_memory(), memory_limit("1 GiB")]
    outer, inner = contexts if fake_outside else reversed(contexts)
    with outer, inner:
        kept = torch.zeros(900, 2**20, dtype=torch.uint8)
        with pytest.raises(torch.OutOfMemoryError, match="tried to allocate 200 MiB"):
            torch.zeros(200, 2**20, dtype=torch.uint8)
        del kept
        torch.zeros(1000, 2**20, dtype=torch.uint8)


def test_many_uses_of_one_model_leave_nothing_on_record() -> None:
    model = nn.Linear(4, 4)
    x = torch.ones(2, 4)

    def use() -> None:
        with memory_limit("1 MiB"):
            model(x).sum().backward()

    use()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        use()
    gc.collect()
    assert len(gc.get_objects()) - before < 50


@pytest.mark.parametrize("limit", ["64 apples", -1, None, float("nan")])
def test_limit_that_is_no_amount_of_memory_is_refused(limit: object) -> None:
    with pytest.raises(UnitError, match="an amount of memory"):
        memory_limit(limit)  # type: ignore[arg-type]
