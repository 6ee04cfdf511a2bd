"""The inputs of a checkpointed function: autograd keeps them, the second run gets them.

They are saved by a node of their own, so that hooks around the checkpoint see them as
they see any saved tensor. In the second run they come without their history: a hook
that the function sets on one does not reach the graph that is being run backward.
"""

import weakref
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ckptlab.errors import RecomputationError
from ckptlab.memory.storage import PLAIN_TYPES


class Inputs:
    """Of one call.

    Attributes:
        leaves: all arguments; only until `settle`.
        tensors: those of them that are tensors; only until `settle`.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.leaves, self._spec = _flatten(args, kwargs)
        self.tensors = [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]
        self._others = [
            _HERE if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves
        ]
        self._needs_gradient = [tensor.requires_grad for tensor in self.tensors]
        self._states = [_State(tensor) for tensor in self.tensors]
        anchor = _Save.apply(_ANCHOR, *self.tensors)  # type: ignore[no-untyped-call]
        self._node = anchor.grad_fn

    def settle(self) -> None:
        """Leave it to autograd and its hooks to keep the tensors."""
        self.leaves, self.tensors = [], []

    def read(self) -> "Anew":
        """The arguments once more.

        Raises:
            RecomputationError: one of the tensors was changed in place.
        """
        try:
            saved = self._node.saved_tensors
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise RecomputationError(f"{_CHANGED}. {error}") from error
        # hooks around the checkpoint switch autograd's own check off
        for tensor, state in zip(saved, self._states, strict=True):
            if state.is_of(tensor) and tensor._version != state.version:
                raise RecomputationError(_CHANGED)
        tensors = [
            _without_history(tensor, needs_gradient)
            for tensor, needs_gradient in zip(saved, self._needs_gradient, strict=True)
        ]
        if self._spec is None:
            return Anew(tensors, {}, tensors)
        following = iter(tensors)
        leaves = [next(following) if leaf is _HERE else leaf for leaf in self._others]
        args, kwargs = tree_unflatten(leaves, self._spec)
        return Anew(args, kwargs, tensors)


class Anew(NamedTuple):
    """Arguments for a second run, and the tensors among them."""

    args: Any
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]


class _State:
    """What tells whether a plain tensor was changed in place since."""

    __slots__ = ("_storage", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._storage: weakref.ref[torch.UntypedStorage] | None = None
        self.version = 0
        is_plain = type(tensor) in PLAIN_TYPES and tensor.layout is torch.strided
        if is_plain and not tensor.is_inference():
            self._storage = weakref.ref(tensor.untyped_storage())
            self.version = tensor._version

    def is_of(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is that one, and not what hooks have made in its place."""
        storage = self._storage
        return storage is not None and storage() is tensor.untyped_storage()


class _Save(torch.autograd.Function):
    """A node that saves the inputs, and that no gradient ever reaches."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("nothing depends on this node")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> torch.Tensor:
        return torch.empty(0)


class _Alias(torch.autograd.Function):
    """An alias that can be changed in place, as a leaf that needs a gradient cannot."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


_HERE = object()  # marks the place of a tensor among the arguments
_ANCHOR = torch.empty(0, requires_grad=True)
_CHANGED = (
    "an argument of the checkpointed function was changed in place after the call "
    "began, so that nothing can be computed again from it; give the function a copy, "
    "or change one"
)


def _flatten(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], TreeSpec | None]:
    """The leaves of the arguments; no tree if there are only tensors in a row."""
    if not kwargs and all(isinstance(leaf, torch.Tensor) for leaf in args):
        return list(args), None
    return tree_flatten((args, kwargs))


def _without_history(tensor: torch.Tensor, needs_gradient: bool) -> torch.Tensor:
    leaf = tensor.detach()
    if not needs_gradient:
        return leaf
    leaf.requires_grad_()
    if tensor.is_leaf:
        return leaf
    with torch.enable_grad():
        alias: torch.Tensor = _Alias.apply(leaf)  # type: ignore[no-untyped-call]
    return alias
