"""What a function uses besides its arguments: found once, compared later.

Looked into are closures, defaults, partial functions, bound methods, containers and
modules. Left out: globals, attributes of other objects, and of modules what is neither
module, parameter, buffer nor generator.
"""

import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from ckptlab.runtime.randomness import Source, source_of

_CONTAINERS = (list, tuple, set, frozenset, deque)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_MOST_ITEMS = 1000  # a larger container holds data
_SCALARS = (bool, int, float, complex, str, bytes, type(None))


class Steady:
    """Something callable that uses the same things every time.

    Attributes:
        uses: those things, to be looked into.
    """

    __slots__ = ("uses",)

    def __init__(self, uses: Iterable[Any]) -> None:
        self.uses = tuple(uses)


class Used:
    """What some functions and other objects are seen to use.

    Attributes:
        modules: every module, each once.
        is_variable: a function or container was looked into, which may find something
            else another time.
        may_reach_more: so was a function, a container or something steady, which may
            use more, or less, than what was found.
        is_lazy: a module has parameters or buffers that are still to be initialized.
        tensors: that are neither parameters nor buffers.
        sources: generators of random numbers.
        scalars: plain values that functions close over.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        self.modules: list[torch.nn.Module] = []
        self.tensors: list[torch.Tensor] = []
        self.sources: list[Source] = []
        self.scalars: list[Any] = []
        self.is_variable = False
        self.may_reach_more = False
        self.is_lazy = False
        seen: dict[int, Any] = {}  # with the objects, so that none goes meanwhile
        todo = list(roots)
        while todo:
            item = todo.pop()
            if isinstance(item, _SCALARS):
                self.scalars.append(item)
            elif id(item) not in seen:
                seen[id(item)] = item
                todo += self._look_into(item)

    def _look_into(self, item: Any) -> Iterable[Any]:
        if isinstance(item, types.BuiltinFunctionType):
            return ()
        if isinstance(item, torch.nn.Module):
            return self._look_into_module(item)
        if isinstance(item, Steady):
            self.may_reach_more = True
            return item.uses
        if isinstance(item, torch.Tensor):
            self.tensors.append(item)
        elif isinstance(item, types.MethodType):
            return item.__func__, item.__self__
        elif (source := source_of(item)) is not None:
            self.sources.append(source)
        elif (inside := _inside_of(item)) is not None:
            self.is_variable = self.may_reach_more = True
            return inside
        return ()

    def _look_into_module(self, module: torch.nn.Module) -> Iterable[Any]:
        if isinstance(module, torch.jit.ScriptModule):  # shows nothing of itself
            return ()
        self.modules.append(module)
        self.is_lazy |= isinstance(module, LazyModuleMixin) and (
            module.has_uninitialized_params()
        )
        held = vars(module)
        generators = [
            held[name]
            for name in held.keys() - _OF_EVERY_MODULE
            if source_of(held[name]) is not None
        ]
        return [*module._modules.values(), *generators]

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Of all modules."""
        for module in self.modules:
            for parameter in module._parameters.values():
                if parameter is not None:
                    yield parameter

    def is_like(self, other: "Used") -> bool:
        """Whether both are the same objects and equal plain values."""
        return (
            same_objects(self.modules, other.modules)
            and same_objects(self.tensors, other.tensors)
            and len(self.sources) == len(other.sources)
            and self.scalars == other.scalars
        )


def _inside_of(item: Any) -> Iterable[Any] | None:
    """What a function or container holds; None for anything else."""
    if isinstance(item, types.FunctionType):
        return _held_by(item) if item.__closure__ or _has_defaults(item) else None
    if isinstance(item, partial):
        return item.func, *item.args, *item.keywords.values()
    if isinstance(item, _CONTAINERS):
        return item if len(item) <= _MOST_ITEMS else ()
    if isinstance(item, Mapping):
        return list(item.values()) if len(item) <= _MOST_ITEMS else ()
    return None


def _has_defaults(function: types.FunctionType) -> bool:
    return bool(function.__defaults__ or function.__kwdefaults__)


def _held_by(function: types.FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # empty as yet
            continue


def same_objects(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether they are the same ones in the same order."""
    return len(ones) == len(others) and all(
        one is other for one, other in zip(ones, others, strict=True)
    )
