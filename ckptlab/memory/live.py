"""Which storages are live: every operation is seen, and every storage's end.

A dispatch mode sees each operation below autograd, forward and backward. A storage
is live from the operation that makes it, or, if no operation inside the mode made
it, from the first that uses it; until it is freed, which a weak reference to its
Python object tells. Threads that autograd starts see the mode too; threads of others
do not.

Left out: what a kernel holds while it runs and gives back before it ends, and the
Python numbers in an operation, which PyTorch wraps in tensors of eight bytes.

One thing is put right. Autograd adds the gradients of a tensor that was used twice in
place, but makes a new tensor for the sum while a dispatch mode looks on. What it drops
for that is taken out one operation earlier, as if the sum had been in place.
"""

import sys
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch.autograd.graph import _engine_run_backward
from torch.utils._python_dispatch import TorchDispatchMode

from ckptlab.memory.storage import PLAIN_TYPES, storages, tensors_in

_LIFT = torch.ops.aten.lift_fresh.default  # how the data of torch.tensor() comes in
# these pass by, and are no operations on tensors
_DEVICE_OF = torch.ops.prim.device.default
_ENTER = torch.ops.profiler._record_function_enter_new.default
_EXIT = torch.ops.profiler._record_function_exit._RecordFunction
_WRAPPERS = ("torch._compile", "torch._dynamo.eval_frame")
_STRIDED = torch.strided
_ADD = torch.ops.aten.add.Tensor


class LiveStorages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Live bytes of what the operations inside the mode make and use.

    A subclass says what follows from it, in `on_operation` and `on_record`.

    Attributes:
        n_operations: seen so far.
        skips_meta: tensors on the meta device, which hold nothing, do not count.
    """

    supports_higher_order_operators = True  # as one operation each

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_operations = 0
        self.skips_meta = False
        self._sum_bytes = 0  # of a sum of gradients that was just made
        self._live_bytes = 0
        # by identity, which no other storage has while this one lives
        self._live: dict[int, StorageRecord] = {}
        # weak references call nothing but this list's append: an interrupt that
        # came while Python code ran there would be lost
        self._freed: list[StorageRecord] = []

    @property
    def live_bytes(self) -> int:
        """Now."""
        self._take_out_freed()
        return self._live_bytes

    def on_operation(self, func: Any, made_bytes: int) -> None:
        """What follows when an operation has made storages of that many bytes."""

    def on_record(self, record: "StorageRecord") -> None:
        """What follows when a storage begins to count."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is _DEVICE_OF or func is _ENTER or func is _EXIT:
            return result
        if self._freed:
            self._take_out_freed()
        self.n_operations += 1
        self._sum_bytes = 0
        given = (args, kwargs) if kwargs else args
        made_bytes = self.count(given, is_made=func is _LIFT)
        if getattr(func, "is_view", False):
            if type(result) not in PLAIN_TYPES:  # else its storage is the argument's
                self._leave_out(result)
        else:
            made_bytes += self.count(result, is_made=True)
        if func is _ADD and _is_in_place_sum(args):
            self._sum_bytes = made_bytes
        self.on_operation(func, made_bytes)
        return result

    def count(self, tree: Any, *, is_made: bool = False) -> int:
        """Take in the storages of some tensors; how many bytes the operation made.

        Args:
            is_made: the operation made the storages that are new.
        """
        made_bytes, known = 0, self._live
        for tensor in tensors_in(tree):
            if self.skips_meta and tensor.is_meta:
                continue
            # the usual case is written out, for this runs at every operation
            is_plain = type(tensor) in PLAIN_TYPES and tensor.layout is _STRIDED
            for storage in (
                (tensor.untyped_storage(),) if is_plain else storages(tensor)
            ):
                record = known.get(id(storage))
                if (
                    record is None
                    or record() is not storage
                    or record.bytes != storage.nbytes()
                ):
                    before_bytes = self._live_bytes
                    record = self.record(storage, tensor, is_made=is_made)
                    if record.is_made:
                        made_bytes += self._live_bytes - before_bytes
                record.last_used = self.n_operations
        return made_bytes

    def record(
        self,
        storage: torch.UntypedStorage,
        tensor: torch.Tensor,
        *,
        is_made: bool = False,
    ) -> "StorageRecord":
        """The record of a storage, new if it has none; a resized one gets a new one."""
        record = self._live.get(id(storage))
        if record is None or record() is not storage:
            record = self._begin(storage, tensor, is_made)
        elif record.bytes != storage.nbytes():
            self._end(record)
            record = self._begin(storage, tensor, True)
        return record

    def _begin(
        self, storage: torch.UntypedStorage, tensor: torch.Tensor, is_made: bool
    ) -> "StorageRecord":
        record = StorageRecord(storage, self._freed.append)
        record.shape, record.dtype = _shape(tensor), tensor.dtype
        record.device = tensor.device
        record.is_made, record.made = is_made, self.n_operations
        record.last_used = self.n_operations
        self._live[record.key] = record
        self._live_bytes += record.bytes
        self.on_record(record)
        return record

    def _leave_out(self, views: Any) -> None:
        """A fake view of a real tensor has a storage of its own, already counted."""
        for tensor in tensors_in(views):
            for storage in storages(tensor):
                record = self._live.get(id(storage))
                if record is None or record() is not storage:
                    twin = StorageRecord(storage, self._freed.append)
                    twin.is_made, twin.freed = True, 0
                    self._live[twin.key] = twin

    def _end(self, record: "StorageRecord") -> None:
        if self._live.get(record.key) is record:
            del self._live[record.key]
        if record.freed is None:
            record.freed = self.n_operations + 1
            self._live_bytes -= record.bytes
            if (
                record.bytes == self._sum_bytes
                and record.last_used == self.n_operations
            ):
                record.freed = self.n_operations
                self._sum_bytes = 0

    def _take_out_freed(self) -> None:
        while self._freed:
            self._end(self._freed.pop())


def _is_in_place_sum(args: Any) -> bool:
    """Whether autograd itself adds two gradients, and would do so in place."""
    if torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled():
        return False
    if all(tensor._is_view() or not tensor.is_contiguous() for tensor in args[:2]):
        return False
    caller: FrameType | None = sys._getframe(2)  # of the dispatch, through its wrappers
    while caller is not None and caller.f_globals["__name__"] in _WRAPPERS:
        caller = caller.f_back
    # elsewhere it is the backward pass of somebody's own function that adds
    return caller is None or caller.f_code is _engine_run_backward.__code__


def _shape(tensor: torch.Tensor) -> torch.Size:
    """Of a nested tensor with strides, which has none, an empty one."""
    is_ragged = tensor.is_nested and tensor.layout is torch.strided
    return torch.Size() if is_ragged else tensor.shape


class StorageRecord(ref[torch.UntypedStorage]):
    """A storage on record, which is not kept alive by that.

    Attributes:
        bytes: its size.
        shape, dtype, device: of the first tensor seen with it.
        is_made: an operation inside the mode made it.
        made: number of the operation that made it, or else used it first.
        last_used: number of the last operation so far that took or gave it.
        freed: number of the first operation that came too late for it; None while
            it lives.
        owner: whose it is, for a subclass that wants to know.
    """

    __slots__ = (
        "bytes",
        "device",
        "dtype",
        "freed",
        "is_made",
        "key",
        "last_used",
        "made",
        "owner",
        "shape",
    )

    bytes: int
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    is_made: bool
    made: int
    last_used: int
    freed: int | None
    owner: Any
    key: int

    def __init__(self, storage: torch.UntypedStorage, on_end: Any) -> None:
        super().__init__(storage, on_end)  # type: ignore[call-arg]
        self.key, self.bytes = id(storage), storage.nbytes()
        self.freed = self.owner = None
