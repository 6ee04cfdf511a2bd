"""Which bytes belong to which storage.

A tensor is a view of a storage; a transpose, a slice and the tensor itself share
one. Memory is held by storages, so every probe counts storages, each once,
however many tensors look at it. A storage is its own Python object for as long
as it lives, so it serves as the key of a weak table (`torch.utils.weak`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from ckptlab.errors import ModelError

Stages = torch.nn.Module | Sequence[Callable[..., Any]]

_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}

PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
_SCALARS = (int, float, str, type(None))  # what operations take besides tensors


def storages(tensor: torch.Tensor) -> Iterable[torch.UntypedStorage]:
    """The storages that hold a tensor's bytes.

    Almost always one. Wrapper subclasses (DTensor, jagged tensors) and sparse
    tensors hold theirs in inner tensors; a lazy parameter has none yet.
    """
    if type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided:
        return (tensor.untyped_storage(),)
    return _inner_storages(tensor)


def _inner_storages(tensor: torch.Tensor) -> Iterator[torch.UntypedStorage]:
    if is_lazy(tensor):
        return
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        for inner in (getattr(tensor, name) for name in names):
            if isinstance(inner, torch.Tensor):  # a DTensor names its mesh too
                yield from storages(inner)
    elif tensor.layout in _SPARSE_PARTS:
        for part in _SPARSE_PARTS[tensor.layout]:
            yield from storages(getattr(tensor, part)())
    else:
        yield tensor.untyped_storage()


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """The tensors in nested containers; one may come several times."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    found: list[torch.Tensor] = []
    if isinstance(tree, (tuple, list)):
        for item in tree:
            if isinstance(item, torch.Tensor):
                found.append(item)
            elif not isinstance(item, _SCALARS):
                found += tensors_in(item)
    elif not isinstance(tree, _SCALARS):
        found += [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return found


def storages_in(tree: Any) -> Iterator[torch.UntypedStorage]:
    """The storages of all tensors in nested containers; one may come several times."""
    for tensor in tensors_in(tree):
        yield from storages(tensor)


def count_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages behind some tensors, each storage once.

    Example:
        >>> matrix = torch.zeros(4, 4)
        >>> count_bytes([matrix, matrix.t(), matrix[0]])
        64
    """
    unique = {
        id(storage): storage for tensor in tensors for storage in storages(tensor)
    }
    return sum(storage.nbytes() for storage in unique.values())


def leaves_behind(
    tensors: Iterable[torch.Tensor], first_node: int = 0
) -> list[torch.Tensor]:
    """The leaves of autograd's graph behind some tensors.

    Args:
        first_node: sequence number of the oldest node that is followed.
    """
    leaves = []
    todo = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen: set[Any] = set(todo)
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.append(variable)
        elif node._sequence_nr() >= first_node:
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    todo.append(following)
    return leaves


def format_tensor(dtype: torch.dtype, shape: Iterable[int]) -> str:
    """Dtype and shape as text.

    Example:
        >>> format_tensor(torch.float32, (2, 8))
        'float32[2, 8]'
    """
    return f"{str(dtype).removeprefix('torch.')}{list(shape)}"


def sum_bytes(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Bytes by name, largest first, from pairs in which a name may come again."""
    sums: dict[str, int] = {}
    for name, n_bytes in pairs:
        sums[name] = sums.get(name, 0) + n_bytes
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def parameter_bytes(model: torch.nn.Module) -> int:
    """Bytes of a model's parameters, tied weights once; buffers are not counted.

    Raises:
        ModelError: `model` is not a `torch.nn.Module`.

    Example:
        >>> parameter_bytes(torch.nn.Linear(10, 5))
        220
    """
    return count_bytes(require_module(model).parameters())


def require_module(model: object) -> torch.nn.Module:
    """The model itself, or a ModelError that says what was given in its place."""
    if isinstance(model, torch.nn.Module):
        return model
    kind = (
        f"the class {model.__name__}"
        if isinstance(model, type)
        else type(model).__name__
    )
    raise ModelError(
        f"a model must be a torch.nn.Module, but {kind} was given; "
        "pass the built module, and wrap a bare function in a module first"
    )


def named_stages(stages: object) -> list[tuple[str, Callable[..., Any]]]:
    """The stages of a model by name, as `nn.Sequential` names them.

    Raises:
        ModelError: they are no stages, or none.
    """
    named: list[tuple[str, Any]]
    if isinstance(stages, (torch.nn.Sequential, torch.nn.ModuleList)):
        named = list(stages._modules.items())  # a module may be there twice
    elif isinstance(stages, (list, tuple)):
        named = [(str(number), stage) for number, stage in enumerate(stages)]
    else:
        raise ModelError(
            f"stages are of type {type(stages).__name__}; pass an nn.Sequential, an "
            "nn.ModuleList or a list of callables"
        )
    if not named:
        raise ModelError("stages are empty; pass at least one")
    for name, stage in named:
        if not callable(stage):
            raise ModelError(
                f"stage {name} is of type {type(stage).__name__} and cannot be called; "
                "pass a module or a function"
            )
    return named
