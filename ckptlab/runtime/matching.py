"""Is the second run like the first? What is compared, and what is said if it is not."""

import difflib
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ckptlab.errors import RecomputationError
from ckptlab.memory.storage import format_tensor, storages, tensors_in

CHECKS = ("default", "none", "values")
_CAUSES = (
    "Usual causes: the function depends on something that changed in between (a "
    "global, a counter, a cache, the environment), it draws random numbers that "
    "PyTorch, Python and NumPy do not know of, or it runs operations that give "
    "another result each time"
)


class Known(NamedTuple):
    """What is known of a saved tensor once it is gone."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    version: int | None
    value: bytes | None

    def __repr__(self) -> str:
        version = "" if self.version is None else f", changed {self.version} times"
        value = "" if self.value is None else f", contents {self.value.hex()[:8]}"
        tensor = format_tensor(self.dtype, self.shape)
        return f"{tensor} on {self.device}{version}{value}"


class Arguments:
    """Which storages were given to a run, looked up only if somebody asks."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        self._tensors = tensors
        self._ids = set(map(id, tensors))
        self._storages: set[int] | None = None

    def __contains__(self, tensor: torch.Tensor) -> bool:
        if id(tensor) in self._ids:
            return True
        if isinstance(tensor, torch.nn.Parameter):
            return False
        if self._storages is None:
            self._storages = {s._cdata for t in self._tensors for s in storages(t)}
        return any(storage._cdata in self._storages for storage in storages(tensor))


def describe(tensor: torch.Tensor, arguments: Arguments, check: str) -> Known:
    """What to compare of a tensor that autograd saves.

    A version tells of parameters and constants that were changed in place. Of what a
    run itself computes it tells nothing new, and an argument may come as a copy.
    """
    base = tensor if tensor._base is None else tensor._base
    version = value = None
    if base.is_leaf and not base.is_inference() and base not in arguments:
        version = base._version
    if check == "values" and not (
        may_still_be_filled(tensor, arguments) or _is_work_space(tensor, arguments)
    ):
        value = _fingerprint(tensor.detach())
    return Known(tensor.shape, tensor.dtype, tensor.device, version, value)


def _fingerprint(tensor: torch.Tensor) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    if type(tensor) is torch.Tensor and tensor.layout is torch.strided:
        plain = [tensor.resolve_conj().resolve_neg()]
    else:  # the parts that hold what a sparse, jagged or distributed tensor holds
        plain = [
            torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
            for storage in storages(tensor)
        ]
    for part in plain:
        flat = part.cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(flat.numpy().data)
    return digest.digest()


def may_still_be_filled(tensor: torch.Tensor, arguments: Arguments) -> bool:
    """Whether a tensor that is being saved looks as if no kernel has written to it.

    `rrelu` saves its noise before it draws it. Such a tensor was made by nothing that
    autograd follows, was never written to, came from nowhere, and is no mask.
    """
    return (
        not tensor.requires_grad
        and (tensor.is_floating_point() or tensor.is_complex())
        and not isinstance(tensor, torch.nn.Parameter)
        and not tensor.is_inference()
        and tensor._version == 0
        and tensor not in arguments
    )


def _is_work_space(tensor: torch.Tensor, arguments: Arguments) -> bool:
    """Whether a tensor looks like bytes that a kernel saves for its own backward pass.

    An LSTM's are a row of uint8, parts of which nobody ever writes.
    """
    return tensor.dtype == torch.uint8 and tensor.dim() == 1 and tensor not in arguments


def mismatch(number: int, n_tensors: int, first: Known, second: Known) -> str:
    """One sentence on two tensors that should be one, and the usual causes."""
    return (
        f"recomputation differs from the first pass: saved tensor {number + 1} of "
        f"{n_tensors} was {first} in the first pass and is {second} now. {_CAUSES}"
    )


def other_number(first: int, second: int | str) -> str:
    """As `mismatch`, for a second run that saved fewer or more."""
    return (
        f"recomputation differs from the first pass: autograd saved {first} tensors "
        f"in the first pass and {second} now. {_CAUSES}"
    )


class OperationLog:
    """The operations of both runs, for the one who asks where they part."""

    def __init__(self) -> None:
        self._runs: tuple[list[str], list[str]] = ([], [])

    @contextmanager
    def run(self, number: int) -> Iterator[None]:
        """Log the first run (0) or the second (1)."""
        lines = self._runs[number]
        lines.clear()
        with _Log(lines):
            yield

    def difference(self) -> str:
        """Operations of the first pass alone (-) and of the second alone (+)."""
        lines = difflib.unified_diff(
            *self._runs, "first pass", "recomputation", lineterm="", n=2
        )
        return "\n".join(lines) or "the operations and their shapes are the same"


class _Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, lines: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lines = lines

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = ", ".join(_short(tensor) for tensor in tensors_in((args, kwargs)))
        made = ", ".join(_short(tensor) for tensor in tensors_in(result))
        self._lines.append(f"{func}({given}) -> {made}")
        return result


def _short(tensor: torch.Tensor) -> str:
    return format_tensor(tensor.dtype, tensor.shape)


def with_log(message: str, log: OperationLog | None) -> RecomputationError:
    """The error, with the operations that differ if they were logged."""
    if log is None:
        return RecomputationError(
            f"{message}. Pass debug=True to see which operations differ"
        )
    return RecomputationError(f"{message}. The operations:\n{log.difference()}")
