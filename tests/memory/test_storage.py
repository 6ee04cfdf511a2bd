"""Storages are counted, not the tensors that look at them."""

import pytest
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from ckptlab.errors import ModelError
from ckptlab.memory.storage import count_bytes, parameter_bytes, storages


def test_views_count_once() -> None:
    base = torch.zeros(10, 10)
    views = [base, base.t(), base[2:4], base.view(100), base.expand(3, 10, 10)]
    assert count_bytes(views) == 400


def test_a_view_holds_its_whole_base() -> None:
    assert count_bytes([torch.zeros(1000)[:1]]) == 4000


def test_empty_tensor_has_no_bytes() -> None:
    assert count_bytes([torch.empty(0, 5)]) == 0


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.bfloat16, 2), (torch.bool, 1), (torch.complex128, 16)]
)
def test_bytes_follow_the_dtype(dtype: torch.dtype, size: int) -> None:
    assert count_bytes([torch.zeros(7, dtype=dtype)]) == 7 * size


def test_tied_weights_count_once() -> None:
    first, second = torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)
    second.weight = first.weight
    assert parameter_bytes(torch.nn.Sequential(first, second)) == 8 * 8 * 4


def test_buffers_are_not_parameters() -> None:
    assert parameter_bytes(torch.nn.BatchNorm1d(5)) == 2 * 5 * 4


def test_meta_tensors_have_the_bytes_that_they_would_have() -> None:
    with torch.device("meta"):
        huge = torch.nn.Linear(100_000, 100_000, bias=False)
    assert parameter_bytes(huge) == 4 * 100_000**2


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_tensors_count_indices_and_values() -> None:
    dense = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    coo = dense.to_sparse_coo()
    assert count_bytes([coo]) == 2 * 2 * 8 + 2 * 4
    csr = dense.to_sparse_csr()
    parts = [csr.crow_indices(), csr.col_indices(), csr.values()]
    assert count_bytes([csr]) == count_bytes(parts) > 0


def test_jagged_tensors_count_their_inner_tensors() -> None:
    jagged = torch.nested.nested_tensor(
        [torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged
    )
    assert count_bytes([jagged.values()]) <= count_bytes([jagged])
    assert jagged.values().untyped_storage() in set(storages(jagged))


def test_distributed_tensors_count_the_local_shard() -> None:
    distributed.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (8,))
        shards = distribute_tensor(torch.zeros(64, 16), mesh, [Shard(0)])
        assert count_bytes([shards]) == 64 * 16 * 4 // 8
    finally:
        distributed.destroy_process_group()


def test_lazy_parameters_have_no_storage_yet() -> None:
    assert parameter_bytes(torch.nn.LazyLinear(5)) == 0


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(torch.nn.Linear, "the class Linear"), (print, "builtin"), (None, "NoneType")],
)
def test_what_is_no_model_is_refused_in_one_sentence(wrong: object, told: str) -> None:
    with pytest.raises(ModelError, match=told) as caught:
        parameter_bytes(wrong)  # type: ignore[arg-type]
    assert "pass the built module" in str(caught.value)
