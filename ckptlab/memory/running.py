"""Which module is running: every module's call keeps a stack of names per thread.

While a watch is open, `torch.nn.Module._call_impl` is wrapped. Forward hooks would not
do: PyTorch calls none when a call ends by a `BaseException`, which is how a checkpoint
ends its second run early.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_NONE: list[str] = []
_WATCHES: "list[_Watch]" = []
_PLAIN_CALL: Any = torch.nn.Module._call_impl


class RunningModules:
    """Names the innermost module that runs in this thread.

    Scripted modules are not watched; what runs in one belongs to the module around it.
    """

    def __init__(self) -> None:
        self._stacks: dict[int, list[str]] = {}

    @property
    def names(self) -> list[str]:
        """Qualified names of what runs in this thread, each inside the one before."""
        return self._stacks.get(threading.get_ident(), _NONE)

    @property
    def name(self) -> str:
        """Of the innermost; "" is the model itself or code outside of it."""
        names = self.names
        return names[-1] if names else ""

    def watch(self, model: torch.nn.Module, stack: ExitStack, prefix: str = "") -> None:
        """Follow every module of a model until `stack` closes."""
        names = {
            id(module): prefix + name
            for name, module in model.named_modules()
            if not isinstance(module, torch.jit.ScriptModule)
        }
        stack.callback(lambda model: None, model)  # alive, so that the ids stay its own
        stack.enter_context(_watching(_Watch(self._stacks, names)))


class _Watch:
    """The modules of one model, and the stacks that their names go to."""

    def __init__(self, stacks: dict[int, list[str]], names: dict[int, str]) -> None:
        self._stacks = stacks
        self._names = names

    def enter(self, module: torch.nn.Module) -> bool:
        name = self._names.get(id(module))
        if name is None:
            return False
        self._stacks.setdefault(threading.get_ident(), []).append(name)
        return True

    def leave(self) -> None:
        names = self._stacks.get(threading.get_ident())
        if names:
            names.pop()
        if not names:  # a thread that is done leaves nothing
            self._stacks.pop(threading.get_ident(), None)


def _call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    entered = [watch for watch in _WATCHES if watch.enter(module)]
    try:
        return _PLAIN_CALL(module, *args, **kwargs)
    finally:
        for watch in entered:
            watch.leave()


@contextmanager
def _watching(watch: _Watch) -> Iterator[None]:
    _WATCHES.append(watch)
    torch.nn.Module._call_impl = _call  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        _WATCHES.remove(watch)
        if not _WATCHES:
            torch.nn.Module._call_impl = _PLAIN_CALL  # type: ignore[method-assign]
