"""A stage run by itself: what it is given, and what its backward pass is asked for."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from ckptlab.memory.storage import leaves_behind, tensors_in

StageFunction = Callable[..., Any]


class Fresh(NamedTuple):
    """Arguments that a stage may do anything to, and the leaves that they come from."""

    arguments: Any
    leaves: list[torch.Tensor]


def fresh_copy(arguments: Any) -> Fresh:
    """Of the arguments of a stage."""
    leaves = []

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        leaf = _detach(tensor)
        if leaf.requires_grad:
            leaves.append(leaf)
        return leaf.clone()

    return Fresh(tree_map_only(torch.Tensor, copy, arguments), leaves)


def detached(output: Any) -> Any:
    """What the next stage is given, without the graph behind it."""
    return tree_map_only(torch.Tensor, _detach, output)


def ends_of(output: Any) -> list[torch.Tensor]:
    """The tensors that a backward pass begins with."""
    return [tensor for tensor in tensors_in(output) if tensor.requires_grad]


def parameters_behind(ends: list[torch.Tensor], fresh: Fresh) -> list[torch.Tensor]:
    """The leaves that the ends come from, without the arguments'."""
    given = set(map(id, fresh.leaves))
    return [leaf for leaf in leaves_behind(ends) if id(leaf) not in given]


def _detach(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().requires_grad_(tensor.requires_grad)
