"""Which module is running: hooks on every module keep a stack of names per thread."""

import threading
from contextlib import ExitStack
from typing import Any

import torch

_NONE: list[str] = []


class RunningModules:
    """Names the innermost module that runs in this thread.

    Scripted modules take no hooks; what runs in one belongs to the module around it.
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
        """Hook every module of a model until `stack` closes."""
        for name, module in model.named_modules():
            if not isinstance(module, torch.jit.ScriptModule):
                self._watch_module(module, prefix + name, stack)

    def _watch_module(
        self, module: torch.nn.Module, name: str, stack: ExitStack
    ) -> None:
        def enter(module: torch.nn.Module, args: Any) -> None:
            self._stacks.setdefault(threading.get_ident(), []).append(name)

        def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
            names = self._stacks.get(threading.get_ident())
            if names:
                names.pop()
            if not names:  # a thread that is done leaves nothing
                self._stacks.pop(threading.get_ident(), None)

        stack.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
        stack.callback(module.register_forward_hook(leave, always_call=True).remove)
