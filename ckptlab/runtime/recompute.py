"""checkpoint(): discard what the backward pass will need, then compute it again.

The idea. Autograd hands every tensor that it saves to a pair of hooks, and asks them
for it in the backward pass. In the first pass the hooks keep an empty slot in place of
each tensor. When the backward pass asks for the first of them, the function runs once
more from its inputs; what autograd saves in this second run is, in the same order, what
the slots stand for.

1. The inputs are kept by an autograd node of their own. So hooks around the checkpoint
   (a probe, offloading, another checkpoint) get them like any saved tensor.
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
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ckptlab.errors import RecomputationError
from ckptlab.memory.storage import tensors_in
from ckptlab.runtime.matching import (
    CHECKS,
    Arguments,
    Known,
    OperationLog,
    describe,
    may_still_be_filled,
    mismatch,
    too_few,
    too_many,
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
        function: a module or any callable that does the same when called twice.
        args, kwargs: its arguments; tensors in nested containers are found.
        preserve_rng_state: the second run draws the random numbers of the first, from
            PyTorch, Python and NumPy and from generators given or closed over.
        context_fn: makes two contexts, one for each run, such as PyTorch's
            `create_selective_checkpoint_contexts`.
        determinism_check: what is compared between the runs: "default" shape, dtype,
            device and version, "values" the values too, "none" the number alone.
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
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    contexts = (_NOTHING, _NOTHING) if context_fn is None else context_fn()
    log = OperationLog() if debug else None
    options = _Options(
        determinism_check, preserve_rng_state, early_stop, contexts[1], log
    )
    run = _Run(function, args, kwargs, options)
    with (
        saved_tensors_hooks(run.pack, run.unpack),
        _NOTHING if log is None else log.run(0),
        contexts[0],
    ):
        result = function(*args, **kwargs)
    run.settle(result)
    return result


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
        leaves, self.spec = _flatten(args, kwargs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.others = [
            _HERE if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
        ]
        self.needs_gradient = [tensor.requires_grad for tensor in tensors]
        self.states = [_state(tensor) for tensor in tensors]
        anchor = _Inputs.apply(_ANCHOR, *tensors)  # type: ignore[no-untyped-call]
        self.inputs = anchor.grad_fn  # rule 1
        self.surroundings = Surroundings(
            function,
            leaves,
            keeps_random_state=options.keeps_random_state,
            keeps_statistics=options.check == "values",
        )
        self.arguments: Arguments | None = Arguments(tensors)  # until it is settled
        self.slots: list[weakref.ref[_Slot]] = []
        self.known: list[Known] = []
        self.recomputed: dict[int, tuple[torch.Tensor, int]] = {}  # with its version
        self.task = -1  # the backward pass that they were recomputed for
        self.drawn: torch.Tensor | None = None  # state at the last tensor
        self.lock = threading.RLock()  # each device runs its backward pass in a thread

    def pack(self, tensor: torch.Tensor) -> _Slot:
        """The hook of the first pass."""
        assert self.arguments is not None
        slot = _Slot(len(self.slots))
        self.slots.append(weakref.ref(slot))
        self.known.append(describe(tensor, self.arguments, self.options.check))
        if self.options.keeps_random_state:
            self.drawn = torch.default_generator.get_state()
        return slot

    def settle(self, result: Any) -> None:
        """The first pass is over: let go of what only it needed."""
        self.arguments = None
        self.surroundings.settle(tensors_in(result))
        if not self.surroundings.draws:
            self.drawn = None

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
        tensors = self._read_inputs()
        args, kwargs = _unflatten(self.others, tensors, self.spec)
        second = _SecondRun(self, tensors)
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
                self.function(*args, **kwargs)
            second.check_number()
        except BaseException:
            # TorchScript turns the stop into an error of its own
            if not second.is_stopped:
                self.recomputed.clear()
                raise
        finally:
            while undo:
                undo.pop()()

    def _read_inputs(self) -> list[torch.Tensor]:
        try:
            saved = self.inputs.saved_tensors
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise RecomputationError(f"{_CHANGED}. {error}") from error
        # hooks around the checkpoint switch autograd's own check off
        for tensor, (storage, version) in zip(saved, self.states, strict=True):
            is_same = storage is not None and storage() is tensor.untyped_storage()
            if is_same and tensor._version != version:
                raise RecomputationError(_CHANGED)
        return [
            _anew(tensor, needs_gradient)
            for tensor, needs_gradient in zip(saved, self.needs_gradient, strict=True)
        ]


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
            self._fail(too_many(number))
        self._compare(number, tensor)
        if run.slots[number]() is not None:
            kept = tensor.detach()
            run.recomputed[number] = kept, kept._version
        if may_still_be_filled(tensor, self._arguments):
            self._node_in_doubt = torch._C._autograd._get_sequence_nr()
        if self._number == len(run.slots):
            self._check_random_numbers()
            # the first pass still runs if it asks for gradients itself
            if run.options.early_stop or run.arguments is not None:
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
            self._fail(too_few(self._number, len(self._run.slots)))

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


class _Inputs(torch.autograd.Function):
    """A node that saves the inputs, and that no gradient ever reaches."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("nothing depends on this node")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return None


class _Anew(torch.autograd.Function):
    """An alias that can be changed in place, as a leaf that needs a gradient cannot."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


_NOTHING = nullcontext()
_CHANGED = (
    "an argument of the checkpointed function was changed in place after the call "
    "began, so that nothing can be computed again from it; give the function a copy, "
    "or change one"
)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_HERE = object()  # marks the place of a tensor among the arguments
_ANCHOR = torch.empty(0, requires_grad=True)


def _flatten(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], TreeSpec | None]:
    """The leaves of the arguments; no tree if there are only tensors in a row."""
    if not kwargs and all(isinstance(leaf, torch.Tensor) for leaf in args):
        return list(args), None
    return tree_flatten((args, kwargs))


def _unflatten(
    others: list[Any], tensors: list[torch.Tensor], spec: TreeSpec | None
) -> tuple[Any, dict[str, Any]]:
    if spec is None:
        return tensors, {}
    following = iter(tensors)
    leaves = [next(following) if leaf is _HERE else leaf for leaf in others]
    args, kwargs = tree_unflatten(leaves, spec)
    return args, kwargs


def _state(
    tensor: torch.Tensor,
) -> tuple["weakref.ref[torch.UntypedStorage] | None", int]:
    """What tells whether a plain tensor was changed in place since."""
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
        return None, 0
    if tensor.is_inference():
        return None, 0
    return weakref.ref(tensor.untyped_storage()), tensor._version


def _anew(tensor: torch.Tensor, needs_gradient: bool) -> torch.Tensor:
    """The tensor without its history, so that hooks set on it do not run twice."""
    alias = tensor.detach()
    if not needs_gradient:
        return alias
    alias.requires_grad_()
    if tensor.is_leaf:
        return alias
    with torch.enable_grad():
        anew: torch.Tensor = _Anew.apply(alias)  # type: ignore[no-untyped-call]
    return anew


def _forget(run: "weakref.ref[_Run]") -> None:
    this = run()
    if this is not None:
        this.recomputed.clear()


def _identity(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
