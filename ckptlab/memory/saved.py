"""What autograd keeps after a forward pass: which tensors, how many bytes, for whom.

Autograd hands every tensor that it saves for the backward pass to a pair of
hooks (`torch.autograd.graph.saved_tensors_hooks`). The probe stands there:

1. Bytes are counted by storage. The first save of a storage names it; further
   saves, and views of it, add nothing.
2. Parameters and buffers are not activations, nor are views of them. Tensors
   given to the model as inputs are counted apart: they exist anyway.
3. A storage counts from its first save until autograd has let go of its last
   one. The figures are those of the fullest moment, so a backward pass inside
   the context, or a result thrown away, does not blur them.
4. The probe changes nothing: hooks that were active before still get every
   tensor, and a tensor changed in place is refused in the backward pass as
   autograd itself would (its own check is off while hooks are on).

The operation's name is that of the torch function which the model's code called,
as a `TorchFunctionMode` sees it; the module is the innermost one running.

Left out: Python numbers in an operation, which autograd saves as tensors of eight
bytes and shows to no hook. Left out on purpose: tensors that hooks entered inside the
context take over (a checkpoint, `save_on_cpu`), since autograd no longer keeps those;
and what other threads save. Hooks and modes are thread-local in PyTorch, and the
probe is too.
"""

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from ckptlab.errors import ModelError
from ckptlab.memory.running import RunningModules
from ckptlab.memory.storage import (
    format_tensor,
    require_module,
    storages,
    storages_in,
    sum_bytes,
)
from ckptlab.units import format_bytes

Role = Literal["input", "output", "inside", "unknown"]
UNKNOWN = "unknown"
Storage = torch.UntypedStorage


@dataclass(frozen=True)
class SavedTensor:
    """One storage that autograd keeps, as it looked when it was first saved.

    Attributes:
        bytes: the size of the whole storage; of a view, that of its base.
        shape: of the tensor that was saved.
        dtype: of the tensor that was saved.
        module: qualified name of the innermost module that was running; "" is
            the model itself or code outside of it.
        operation: torch function that was running, such as "linear"; "unknown"
            inside custom autograd functions, compiled and scripted code.
        role: how the operation came by it: "input", "output", or "inside" when
            the operation made it for its own backward pass (a dropout mask).
    """

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    module: str
    operation: str
    role: Role

    def __repr__(self) -> str:
        where = f" in {self.module}" if self.module else ""
        return (
            f"<{format_bytes(self.bytes)} {format_tensor(self.dtype, self.shape)}: "
            f"{self.role} of {self.operation}{where}>"
        )


class SavedTensors:
    """What autograd keeps; `saved_tensors` makes and fills it.

    Readable at any time, inside the context and after it. Holds no tensor.
    """

    def __init__(self) -> None:
        self._events: list[tuple[_Entry, bool]] = []

    @property
    def tensors(self) -> list[SavedTensor]:
        """The activations that autograd keeps, in the order of their first save."""
        return [entry.describe() for entry in self._kept() if not entry.is_input]

    @property
    def inputs(self) -> list[SavedTensor]:
        """The model's inputs that autograd keeps, in the order of their first save."""
        return [entry.describe() for entry in self._kept() if entry.is_input]

    @property
    def total_bytes(self) -> int:
        """Bytes of the activations that autograd keeps; kept inputs come apart."""
        return sum(entry.bytes for entry in self._kept() if not entry.is_input)

    @property
    def input_bytes(self) -> int:
        """Bytes of the model's inputs that autograd keeps."""
        return sum(entry.bytes for entry in self._kept() if entry.is_input)

    def by_module(self) -> dict[str, int]:
        """Bytes of activations by the module that saved them, largest first."""
        return sum_bytes((tensor.module, tensor.bytes) for tensor in self.tensors)

    def by_operation(self) -> dict[str, int]:
        """Bytes of activations by the operation that saved them, largest first."""
        return sum_bytes((tensor.operation, tensor.bytes) for tensor in self.tensors)

    def __repr__(self) -> str:
        return (
            f"SavedTensors({format_bytes(self.total_bytes)} "
            f"in {len(self.tensors)} tensors, "
            f"and {format_bytes(self.input_bytes)} of inputs)"
        )

    def _kept(self) -> "list[_Entry]":
        """The storages held at the fullest moment (rule 3)."""
        held_bytes = most_bytes = fullest = 0
        for moment, (entry, is_kept) in enumerate(self._events, start=1):
            held_bytes += entry.bytes if is_kept else -entry.bytes
            # ">=" on a save lets an empty tensor at the end count as kept
            if held_bytes > most_bytes or (is_kept and held_bytes == most_bytes):
                most_bytes, fullest = held_bytes, moment
        held: dict[int, _Entry] = {}
        for entry, is_kept in self._events[:fullest]:
            if is_kept:
                held[id(entry)] = entry
            else:
                del held[id(entry)]
        return list(held.values())


@contextmanager
def saved_tensors(*models: torch.nn.Module) -> Iterator[SavedTensors]:
    """Record what autograd keeps of everything that runs inside the context.

    Args:
        models: their parameters and buffers are left out, their inputs counted
            apart, their modules named. Parameters of other models are left out
            too, where autograd still knows them as parameters.

    Raises:
        ModelError: something given is not a module, or is a scripted one.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        >>> with saved_tensors(model) as saved:
        ...     loss = model(torch.zeros(2, 8)).sum()
        >>> saved
        SavedTensors(64 B in 1 tensors, and 64 B of inputs)
        >>> saved.tensors
        [<64 B float32[2, 8]: output of relu in 1>]
    """
    if not models:
        raise ModelError(
            "saved_tensors() needs the model to look at; pass saved_tensors(model)"
        )
    probe = _Probe(models)
    with ExitStack() as stack:
        probe.watch_modules(stack)
        stack.enter_context(probe.functions)
        stack.enter_context(
            torch.autograd.graph.saved_tensors_hooks(probe.pack, probe.unpack)
        )
        yield probe.saved


class _Entry:
    """A storage on record; `holders` counts the saves that autograd still has."""

    __slots__ = (
        "bytes",
        "dtype",
        "holders",
        "is_input",
        "module",
        "operation",
        "role",
        "shape",
    )

    def __init__(
        self, n_bytes: int, tensor: torch.Tensor, module: str, operation: str
    ) -> None:
        self.bytes = n_bytes
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.module = module
        self.operation = operation
        self.role: Role = "unknown"
        self.is_input = False
        self.holders = 0

    def describe(self) -> SavedTensor:
        return SavedTensor(
            self.bytes, self.shape, self.dtype, self.module, self.operation, self.role
        )


class _Packed:
    """What autograd holds in a tensor's place; when it dies, autograd has let go."""

    __slots__ = ("content", "entries", "probe", "version")

    def __init__(
        self, content: Any, version: int, entries: list[_Entry], probe: "_Probe"
    ) -> None:
        self.content = content
        self.version = version
        self.entries = entries
        self.probe = probe

    def __del__(self) -> None:
        self.probe.release(self.entries)


class _Functions(TorchFunctionMode):
    """Knows which torch function is running, and gives what it saved its role."""

    def __init__(self) -> None:
        super().__init__()
        self.operation = UNKNOWN
        self.fresh: list[tuple[_Entry, Storage]] = []

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.operation = getattr(func, "__name__", UNKNOWN).strip("_")
        self.fresh.clear()
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            self.operation = UNKNOWN
        if self.fresh:
            outputs = {id(storage) for storage in storages_in(result)}
            inputs = {id(storage) for storage in storages_in((args, kwargs))}
            for entry, storage in self.fresh:
                is_output, is_input = id(storage) in outputs, id(storage) in inputs
                entry.role = (
                    "output" if is_output else "input" if is_input else "inside"
                )
            self.fresh.clear()
        return result


class _Probe:
    """The hooks of one context, and the tables that they fill."""

    def __init__(self, models: tuple[torch.nn.Module, ...]) -> None:
        self.saved = SavedTensors()
        self.functions = _Functions()
        self._models = [require_module(model) for model in models]
        self._thread = threading.get_ident()
        self._running = RunningModules()
        # storage -> its entry, and storage -> "weight" or "input"; both forget the dead
        self._entries: MutableMapping[Storage, _Entry] = WeakIdKeyDictionary()
        self._kinds: MutableMapping[Storage, str] = WeakIdKeyDictionary()
        self._outer = torch._C._autograd._top_saved_tensors_default_hooks(False)
        self._mark_weights()

    # -- autograd's side ---------------------------------------------------------

    def pack(self, tensor: torch.Tensor) -> _Packed:
        entries = []
        is_parameter = _is_view_of_parameter(tensor)
        for storage in storages(tensor):
            if not is_parameter and self._kinds.get(storage) != "weight":
                entries.append(self._keep(storage, tensor))
        # a detached alias, for an output that held itself would never be freed
        content = self._outer[0](tensor) if self._outer else tensor.detach()
        return _Packed(content, tensor._version, entries, self)

    def unpack(self, packed: _Packed) -> torch.Tensor:
        if self._outer:
            return self._outer[1](packed.content)
        tensor: torch.Tensor = packed.content
        if tensor._version != packed.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been "
                "modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}] is at version "
                f"{tensor._version}; expected version {packed.version} instead."
            )
        return tensor

    def release(self, entries: list[_Entry]) -> None:
        for entry in entries:
            entry.holders -= 1
            if entry.holders == 0:
                self.saved._events.append((entry, False))

    def _keep(self, storage: Storage, tensor: torch.Tensor) -> _Entry:
        entry = self._entries.get(storage)
        if entry is None:
            entry = _Entry(
                storage.nbytes(), tensor, self._running.name, self.functions.operation
            )
            entry.is_input = self._kinds.get(storage) == "input"
            self._entries[storage] = entry
            self.functions.fresh.append((entry, storage))
        entry.holders += 1
        if entry.holders == 1:
            self.saved._events.append((entry, True))
        return entry

    # -- the models' side --------------------------------------------------------

    def watch_modules(self, stack: ExitStack) -> None:
        """Hook every module to know which is running, and each model for its inputs."""
        for number, model in enumerate(self._models, start=1):
            if isinstance(model, torch.jit.ScriptModule):
                raise ModelError(
                    f"{type(model).__name__} is scripted, and scripted modules take no "
                    "hooks; measure the module it was made from, or wrap it in "
                    "nn.Sequential"
                )
            prefix = f"{number}:" if len(self._models) > 1 else ""
            self._running.watch(model, stack, prefix)
            hook = model.register_forward_pre_hook(self._enter_model, with_kwargs=True)
            stack.callback(hook.remove)

    def _enter_model(
        self, module: torch.nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> None:
        if threading.get_ident() != self._thread:
            return
        self._mark_weights()  # again: lazy and swapped-in parameters exist only now
        for storage in storages_in((args, kwargs)):
            self._kinds.setdefault(storage, "input")
            if storage in self._entries and self._kinds[storage] == "input":
                self._entries[storage].is_input = True

    def _mark_weights(self) -> None:
        for model in self._models:
            for tensors in (model.parameters(), model.buffers()):
                for tensor in tensors:
                    for storage in storages(tensor):
                        self._kinds[storage] = "weight"


def _is_view_of_parameter(tensor: torch.Tensor) -> bool:
    base = tensor if tensor._base is None else tensor._base
    return isinstance(base, torch.nn.Parameter)
