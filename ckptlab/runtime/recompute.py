"""checkpoint(): discard what the backward pass will need, then compute it again.

The idea. Autograd hands every tensor that it saves to a pair of hooks, and asks them
for it in the backward pass. In the first pass the hooks keep an empty slot in place of
each tensor. When the backward pass asks for the first of them, the function runs once
more from its inputs; what autograd saves in this second run is, in the same order, what
the slots stand for.

1. The inputs are kept by an autograd node of their own (`runtime.inputs`). So hooks
   around the checkpoint (a probe, offloading, another checkpoint) get them like any
   saved tensor.
2. A slot lives as long as autograd's graph needs it. The second run keeps a tensor only
   for a slot that lives, until it is asked for or the backward pass ends.
3. The second run stops once the last tensor has been saved: what the function computes
   after that, nobody needs. An operation may save a tensor that its kernel has yet to
   fill; if the last one looks like that, the run stops at the next one, or at the end.
4. The second run finds what the first one found (`runtime.surroundings`), and each of
   its tensors is compared with what is known of its slot.
5. A checkpoint inside another one is a function that saves its inputs. Its slots are
   its own; the outer slots hold its inputs.

The method is that of Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Literal, NamedTuple, NoReturn

import torch
import torch._C._dynamo.eval_frame as eval_frame
from torch.autograd.graph import saved_tensors_hooks

from ckptlab.errors import RecomputationError
from ckptlab.memory.storage import tensors_in
from ckptlab.runtime.inputs import Inputs
from ckptlab.runtime.matching import (
    CHECKS,
    Arguments,
    Known,
    OperationLog,
    describe,
    may_still_be_filled,
    mismatch,
    other_number,
    with_log,
)
from ckptlab.runtime.randomness import CPU, as_bytes
from ckptlab.runtime.surroundings import Surroundings

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
Check = Literal["default", "none", "values"]


# Dynamo would trace the hooks instead of running them
@torch._disable_dynamo  # type: ignore[attr-defined]
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], Contexts] | None = None,
    determinism_check: Check = "default",
    early_stop: bool = True,
    debug: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function returns; what it saves for the backward pass is recomputed.

    Takes the place of `torch.utils.checkpoint.checkpoint(..., use_reentrant=False)`.

    Args:
        function: a module or any callable that does the same when called twice. A lazy
            module is run as it is when it first finds its shape.
        args, kwargs: its arguments; tensors in nested containers are found.
        preserve_rng_state: the second run draws the random numbers of the first, from
            PyTorch, Python and NumPy and from generators given or closed over.
        context_fn: makes two contexts, one for each run, such as PyTorch's
            `create_selective_checkpoint_contexts`.
        determinism_check: what is compared between the runs: "default" shape, dtype,
            device and version, "values" the values too (not of rows of uint8, where
            kernels leave bytes unwritten), "none" the number alone.
        early_stop: the second run ends with the last tensor that is needed.
        debug: keep a list of the operations of both runs, for the error message.

    Unchecked: what the function reaches through globals or plain objects, and what it
    changes outside of tensors, is not put back.

    Raises:
        RecomputationError: in the forward or backward pass, when the second run cannot
            be, or was not, like the first.

    Example:
        >>> layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
        >>> x = torch.ones(4, 8)
        >>> checkpoint(layer, x).sum().backward()
        >>> checkpointed = layer[0].weight.grad.clone()
        >>> layer.zero_grad()
        >>> layer(x).sum().backward()
        >>> torch.equal(layer[0].weight.grad, checkpointed)
        True
    """
    _check_call(determinism_check)
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    contexts = (_NOTHING, _NOTHING) if context_fn is None else context_fn()
    log = OperationLog() if debug else None
    options = _Options(
        determinism_check, preserve_rng_state, early_stop, contexts[1], log
    )
    return _Run(function, args, kwargs, options).first_pass(args, kwargs, contexts[0])


def _check_call(determinism_check: str) -> None:
    if determinism_check not in CHECKS:
        raise RecomputationError(
            f"determinism_check is {determinism_check!r}; pass one of "
            f"{', '.join(map(repr, CHECKS))}"
        )
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RecomputationError(
            "checkpoint() cannot run inside torch.func transforms (grad, vmap, jvp), "
            "which hide what autograd saves; call it outside of them"
        )


class _Options(NamedTuple):
    check: Check
    keeps_random_state: bool
    early_stop: bool
    second_context: AbstractContextManager[Any]
    log: OperationLog | None


class _Slot:
    """Stands in autograd's graph for a tensor that is not there."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int) -> None:
        self.number = number


class _Stop(BaseException):
    """Ends the second run; no `except Exception` of the function's own stops it."""


class _Run:
    """One call of a checkpointed function, and what its second run needs."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: _Options,
    ) -> None:
        self.function, self.options = function, options
        self.inputs = Inputs(args, kwargs)  # rule 1
        self.surroundings = Surroundings(
            function,
            self.inputs.leaves,
            keeps_random_state=options.keeps_random_state,
            keeps_statistics=options.check == "values",
        )
        self.arguments = Arguments(self.inputs.tensors)
        self.is_first_pass = True
        self.slots: list[weakref.ref[_Slot]] = []
        self.known: list[Known] = []
        self.recomputed: dict[int, tuple[torch.Tensor, int]] = {}  # with its version
        self.task = -1  # the backward pass that they were recomputed for
        self.drawn: torch.Tensor | None = None  # state at the last tensor
        self.lock = threading.RLock()  # each device runs its backward pass in a thread

    def first_pass(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: AbstractContextManager[Any],
    ) -> Any:
        """Run the function, and keep no more than its inputs."""
        if self.surroundings.is_to_be_initialized:  # by this call, and by no second one
            return self.function(*args, **kwargs)
        log = self.options.log
        with (
            saved_tensors_hooks(self.pack, self.unpack),
            _NOTHING if log is None else log.run(0),
            context,
        ):
            result = self.function(*args, **kwargs)
        self.is_first_pass = False
        self.inputs.settle()
        self.arguments = Arguments([])
        self.surroundings.settle(tensors_in(result))
        if not self.surroundings.draws:
            self.drawn = None
        return result

    def pack(self, tensor: torch.Tensor) -> _Slot:
        """The hook of the first pass."""
        slot = _Slot(len(self.slots))
        self.slots.append(weakref.ref(slot))
        self.known.append(describe(tensor, self.arguments, self.options.check))
        if self.options.keeps_random_state:
            self.drawn = torch.default_generator.get_state()
        return slot

    def unpack(self, slot: _Slot) -> torch.Tensor:
        """The hook of the backward pass, which runs the function again if need be."""
        with self.lock:
            task = torch._C._current_graph_task_id()
            if task != self.task or slot.number not in self.recomputed:
                self._recompute()
                self.task = task
            tensor, version = self.recomputed.pop(slot.number)
            if task == -1:  # somebody looks into the graph, and no pass will end
                self.recomputed.clear()
            if tensor._version != version:
                raise RecomputationError(
                    "a tensor that the backward pass needs was changed in place after "
                    f"it was computed again: {self.known[slot.number]}; change a copy"
                )
            return tensor

    def _recompute(self) -> None:
        self.recomputed.clear()
        if torch._C._current_graph_task_id() != -1:
            # rule 2: what this pass does not ask for goes with its end
            this = weakref.ref(self)
            torch.autograd.Variable._execution_engine.queue_callback(
                lambda: _forget(this)
            )
        again = self.inputs.read()
        second = _SecondRun(self, again.tensors)
        log = self.options.log
        undo = self.surroundings.enter()
        try:
            with (
                saved_tensors_hooks(second.pack, _identity),
                _NOTHING if log is None else log.run(1),
                self.options.second_context,
                torch.enable_grad(),
                suppress(_Stop),
            ):
                self.function(*again.args, **again.kwargs)
            second.check_number()
        except BaseException:
            # TorchScript turns the stop into an error of its own
            if not second.is_stopped:
                self.recomputed.clear()
                raise
        finally:
            while undo:
                undo.pop()()


class _SecondRun:
    """The hook of a second run, and how far it is."""

    def __init__(self, run: _Run, tensors: list[torch.Tensor]) -> None:
        self._run = run
        self._arguments = Arguments(tensors)
        self._number = 0
        self._node_in_doubt = -1
        self._is_complete = False
        self.is_stopped = False

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        """Keep what a slot still waits for, and stop after the last one (rule 3)."""
        run, number = self._run, self._number
        if self._is_complete:
            self._stop()
        self._number += 1
        if number == len(run.slots):
            self._fail(other_number(number, "more"))
        self._compare(number, tensor)
        if run.slots[number]() is not None:
            kept = tensor.detach()
            run.recomputed[number] = kept, kept._version
        if may_still_be_filled(tensor, self._arguments):
            self._node_in_doubt = torch._C._autograd._get_sequence_nr()
        if self._number == len(run.slots):
            self._check_random_numbers()
            # the first pass still runs if it asks for gradients itself
            if run.options.early_stop or run.is_first_pass:
                if self._node_in_doubt != torch._C._autograd._get_sequence_nr():
                    self._stop()
                self._is_complete = True
        return tensor.detach()

    def _stop(self) -> NoReturn:
        self.is_stopped = True
        raise _Stop

    def check_number(self) -> None:
        """After the run: it must not have saved too little."""
        if self._number < len(self._run.slots):
            self._fail(other_number(len(self._run.slots), self._number))

    def _compare(self, number: int, tensor: torch.Tensor) -> None:
        check, first = self._run.options.check, self._run.known[number]
        if check != "none":
            second = describe(tensor, self._arguments, check)
            if second != first:
                self._fail(mismatch(number, len(self._run.slots), first, second))

    def _check_random_numbers(self) -> None:
        drawn = self._run.drawn
        if drawn is not None and as_bytes(drawn) != CPU.read():
            self._fail(
                "recomputation drew other random numbers than the first pass, probably "
                "because another thread drew some in between; give each thread a "
                "torch.Generator of its own, or run the checkpoint where no other "
                "thread draws"
            )

    def _fail(self, message: str) -> NoReturn:
        raise with_log(message, self._run.options.log)


_NOTHING = nullcontext()


def _hide_from_dynamo(*hooks: Callable[..., Any]) -> None:
    """Compiled code that saves tensors calls the hooks, and would compile them too."""
    skip = eval_frame._FrameAction.SKIP
    for hook in hooks:
        eval_frame.set_code_exec_strategy(
            hook.__code__, eval_frame._FrameExecStrategy(skip, skip)
        )


_hide_from_dynamo(_Run.pack, _Run.unpack, _SecondRun.pack)


def _forget(run: "weakref.ref[_Run]") -> None:
    this = run()
    if this is not None:
        this.recomputed.clear()


def _identity(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
