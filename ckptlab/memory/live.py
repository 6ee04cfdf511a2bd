"""Which storages are live: every operation is seen, and every storage's end.

A dispatch mode sees each operation below autograd, forward and backward. A storage
that an operation makes or uses is live from then on until it is freed, which a
weak reference to its Python object tells. Threads that autograd starts see the mode
too; threads of others do not.

Left out: what an operation holds while it runs and gives back before it ends.
"""

from typing import Any
from weakref import ref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ckptlab.memory.storage import storages_in


class LiveStorages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Live bytes of what the operations inside the mode make and use.

    A subclass says what follows from it, in `on_operation`.

    Attributes:
        live_bytes: now.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live_bytes = 0
        # by identity, which no other storage has while this one lives
        self._live: dict[int, _LiveStorage] = {}

    def on_operation(self, func: Any, made_bytes: int) -> None:
        """What follows when an operation has made storages of that many bytes."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.count((args, kwargs))
        result = func(*args, **(kwargs or {}))
        # arguments again, for an operation may resize one
        self.on_operation(func, self.count((result, args, kwargs)))
        return result

    def count(self, tree: Any) -> int:
        """Take in the storages of some tensors; the bytes that are new."""
        before = self.live_bytes
        for storage in storages_in(tree):
            known = self._live.get(id(storage))
            if known is None:
                known = self._live[id(storage)] = _LiveStorage(storage, self._forget)
            n_bytes = storage.nbytes()
            self.live_bytes += n_bytes - known.n_bytes
            known.n_bytes = n_bytes
        return self.live_bytes - before

    def _forget(self, freed: "_LiveStorage") -> None:
        del self._live[freed.key]
        self.live_bytes -= freed.n_bytes


class _LiveStorage(ref[torch.UntypedStorage]):
    """A storage on record, which is not kept alive by that."""

    __slots__ = ("key", "n_bytes")

    key: int
    n_bytes: int

    def __new__(cls, storage: torch.UntypedStorage, on_end: Any) -> "_LiveStorage":
        self = super().__new__(cls, storage, on_end)
        self.key, self.n_bytes = id(storage), 0
        return self
