"""Record a training step as it runs: its operations, its storages, whose they are.

The half of the timeline that runs inside the step, and so the half that must be
quick; `memory.timeline` makes sense of the record afterwards.

An operation in a backward pass belongs to the module whose forward pass put it there.
Autograd gives a node the same sequence number in both passes, which tells.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ckptlab.memory.live import LiveStorages, StorageRecord
from ckptlab.memory.running import RunningModules
from ckptlab.memory.storage import storages, tensors_in

Phase = Literal["forward", "backward", "recompute", "optimizer"]
Role = Literal["parameter", "gradient", "optimizer"]

_ONES_LIKE = torch.ops.aten.ones_like.default


class Operation(NamedTuple):
    """One that ran, the module that it ran for, and when."""

    function: Any
    module: str
    phase: Phase

    @property
    def name(self) -> str:
        """PyTorch's name of it, such as "addmm"."""
        packet = getattr(self.function, "overloadpacket", self.function)
        return str(getattr(packet, "__name__", packet))


class Owner(NamedTuple):
    """What a storage is to a parameter, and the module of that parameter."""

    role: Role
    module: str


class Recorder(LiveStorages):  # type: ignore[no-untyped-call]
    """Records what runs while it is watching.

    Attributes:
        records: every storage, in the order in which they were seen; those that
            belong to parameters have an `Owner`.
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None
    ) -> None:
        super().__init__()
        self._operations: list[tuple[Any, str, Phase]] = []  # plain, to be quick
        self.records: list[StorageRecord] = []
        self._model = model
        self._optimizers = [] if optimizer is None else [optimizer]
        self._running = RunningModules()
        self._thread = threading.get_ident()
        self._depth_outside = 0  # modules running when the backward pass began
        self._is_in_optimizer = False
        self._is_open = True
        self._task = -1
        self._modules_by_node: dict[int, str] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record what runs inside."""
        with ExitStack() as stack:
            self._running.watch(self._model, stack)
            hooks = (
                register_optimizer_step_pre_hook(self._before_optimizer),
                register_optimizer_step_post_hook(self._after_optimizer),
            )
            for hook in hooks:
                stack.callback(hook.remove)
            self._own_all()
            stack.callback(self._close)
            stack.enter_context(self)
            yield

    @property
    def version(self) -> tuple[int, ...]:
        """Changes whenever the record has."""
        if self._is_open:
            self._own_all()
        return self.n_operations, len(self.records), self.live_bytes

    @property
    def device_types(self) -> set[str]:
        """Of the devices that hold parameters; all that were seen if there are none."""
        types = {parameter.device.type for _, parameter in self._parameters()}
        return types or {record.device.type for record in self.records}

    def module_of(self, record: StorageRecord) -> str:
        """Whose parameter a storage belongs to, or else what made or used it first."""
        if record.owner:
            owner: Owner = record.owner
            return owner.module
        return self._operations[record.made - 1][1] if record.made else ""

    def _close(self) -> None:
        self._own_all()
        self._take_out_freed()
        self._is_open = False

    def _take_out_freed(self) -> None:
        if self._is_open:  # what goes after the end was alive at the end
            super()._take_out_freed()

    # -- operations ------------------------------------------------------------------

    @property
    def operations(self) -> list[Operation]:
        """In the order in which they ran; number 1 comes first."""
        return [Operation(*operation) for operation in self._operations]

    def on_operation(self, func: Any, made_bytes: int) -> None:
        """Note the operation, and for which module it ran."""
        names = self._running.names
        is_here = threading.get_ident() == self._thread
        phase = self._phase(len(names), is_here)
        if phase == "backward":
            self._follow_backward()
            node = torch._C._current_autograd_node()
            module = self._modules_by_node.get(node._sequence_nr(), "") if node else ""
        else:
            module = names[-1] if names else ""
            if is_here:
                node_number = torch._C._autograd._get_sequence_nr() - 1
                self._modules_by_node.setdefault(node_number, module)
        self._operations.append((func, module, phase))

    def on_record(self, record: StorageRecord) -> None:
        """Keep what is known of the storage beyond its end."""
        self.records.append(record)

    def _phase(self, depth: int, is_here: bool) -> Phase:
        """With so many modules running, in the thread of the context or another."""
        if not _is_in_backward():
            self._depth_outside = depth
            # a closure that the optimizer calls runs with gradients
            is_step = (
                self._is_in_optimizer and not depth and not torch.is_grad_enabled()
            )
            return "optimizer" if is_step else "forward"
        # a module that the backward pass runs, or operations that it wants to
        # differentiate though nobody asked for a graph of gradients
        if depth > (self._depth_outside if is_here else 0) or (
            torch.is_grad_enabled()
            and not torch._C._autograd._get_current_graph_task_keep_graph()
        ):
            return "recompute"
        return "backward"

    def _follow_backward(self) -> None:
        task = torch._C._current_graph_task_id()
        if task == self._task:
            return
        self._task = task
        # gradients may not live to see the next operation
        torch.autograd.Variable._execution_engine.queue_callback(self._own_gradients)
        # the gradient that backward() starts from, a 1, counts to the backward pass
        if self._operations:
            function, module, phase = self._operations[-1]
            if phase == "forward" and function is _ONES_LIKE:
                self._operations[-1] = function, module, "backward"

    # -- whose storages they are -----------------------------------------------------

    def _before_optimizer(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> None:
        if threading.get_ident() == self._thread:
            if not any(optimizer is known for known in self._optimizers):
                self._optimizers.append(optimizer)
            if _is_in_backward():
                self._own_gradients()  # which may not live to see its end
            self._is_in_optimizer = True

    def _after_optimizer(
        self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any
    ) -> None:
        if threading.get_ident() == self._thread:
            self._is_in_optimizer = False

    def _own_all(self) -> None:
        names = {}
        for name, parameter in self._parameters():
            names[id(parameter)] = name
            self._own(parameter, "parameter", name)
        for name, tensor in self._model.named_buffers():
            self._own(tensor, "parameter", name)
        self._own_gradients()
        for optimizer in self._optimizers:
            for owner, state in optimizer.state.items():
                name = names.get(id(owner), "")
                for tensor in tensors_in(state):
                    self._own(tensor, "optimizer", name)

    def _own_gradients(self) -> None:
        for name, parameter in self._parameters():
            if parameter.grad is not None:
                self._own(parameter.grad, "gradient", name)

    def _parameters(self) -> Iterable[tuple[str, torch.nn.Parameter]]:
        """The model's, and those of others that its optimizers step."""
        known = set()
        for name, parameter in self._model.named_parameters():
            known.add(id(parameter))
            yield name, parameter
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) not in known:
                        yield "", parameter

    def _own(self, tensor: torch.Tensor, role: Role, parameter_name: str) -> None:
        for storage in storages(tensor):
            record = self.record(storage, tensor)
            if record.owner is None:
                record.owner = Owner(role, parameter_name.rpartition(".")[0])
                if not record.is_made:  # it was there before, if noticed only now
                    record.made = 0


def _is_in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
