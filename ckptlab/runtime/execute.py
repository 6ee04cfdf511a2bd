"""apply_plan(): a model's stages as one module that runs under a plan.

A plan says it all: a bare stage is called, a parenthesis is a checkpoint around what is
inside, and so on inside.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ckptlab.errors import PlanError
from ckptlab.memory.storage import Stages, named_stages
from ckptlab.planning.plan import Plan
from ckptlab.runtime.recompute import checkpoint
from ckptlab.runtime.used import Steady

StageFunction = Callable[..., Any]

_FRAMES_PER_LEVEL = 5  # of Python's stack, for a checkpoint within a checkpoint


def apply_plan(stages: Stages, plan: Plan | str) -> "PlannedStages":
    """A module that runs the stages in a row and recomputes what the plan discards.

    Its outputs and gradients are those of the plain run, bit for bit. Without gradients
    (`torch.no_grad`) nothing is recomputed.

    Args:
        stages: `nn.Sequential`, `nn.ModuleList` or a list of callables. The first takes
            the module's inputs, each other one what the one before returned.
        plan: or its notation, with a number for each stage, from 1.

    Raises:
        ModelError: the stages are none.
        PlanError: the plan is not for that many stages, or nests too deep for Python.

    Example:
        >>> layers = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
        >>> model = apply_plan(layers, "(1 2) (3 4)")
        >>> model(torch.ones(2, 8)).sum().backward()
        >>> model.state_dict().keys() == layers.state_dict().keys()
        True
    """
    return PlannedStages(stages, Plan.parse(plan) if isinstance(plan, str) else plan)


class PlannedStages(torch.nn.Module):
    """Stages under a plan, with the names that they had.

    Attributes:
        plan: how they run; another one may be put in its place between steps.
    """

    def __init__(self, stages: Stages, plan: Plan) -> None:
        super().__init__()
        self._functions: dict[str, StageFunction] = {}  # stages that are no modules
        self._names: list[str] = []
        for name, stage in named_stages(stages):
            self._names.append(name)
            if isinstance(stage, torch.nn.Module):
                self._modules[name] = stage  # whatever it is called
            else:
                self._functions[name] = stage
        if isinstance(stages, torch.nn.Module):
            self.training = stages.training
        self._plan = self._checked(plan)

    @property
    def plan(self) -> Plan:
        """How the stages run."""
        return self._plan

    @plan.setter
    def plan(self, plan: Plan) -> None:
        self._plan = self._checked(plan)

    def _checked(self, plan: Plan) -> Plan:
        if not isinstance(plan, Plan):
            raise PlanError(f"{plan!r} is not a plan; make one with Plan.parse(…)")
        n_stages = len(self._names)
        if plan.stages != range(1, n_stages + 1):
            raise PlanError(
                f"the plan '{plan}' is for stages {plan.stages[0]} to "
                f"{plan.stages[-1]}, but there are stages 1 to {n_stages}; write a "
                "plan for those"
            )
        depth, limit = _depth(plan), sys.getrecursionlimit()
        if depth * _FRAMES_PER_LEVEL > limit:
            raise PlanError(
                f"the plan nests {depth} deep, and Python's recursion limit of {limit} "
                f"allows for {limit // _FRAMES_PER_LEVEL}; raise it with "
                f"sys.setrecursionlimit({2 * depth * _FRAMES_PER_LEVEL}) or plan for "
                "a larger budget"
            )
        return plan

    def __len__(self) -> int:
        return len(self._names)

    def forward(self, *inputs: Any) -> Any:
        """What the last stage returns."""
        stages = [
            self._functions[name] if name in self._functions else self._modules[name]
            for name in self._names
        ]
        return _Row(self._plan, stages)(*inputs)

    def extra_repr(self) -> str:
        """The plan."""
        return f"plan={str(self._plan)!r}"


def _depth(plan: Plan) -> int:
    """How many parentheses lie within one another."""
    deepest, todo = 0, [(plan, 0)]
    while todo:
        inside, depth = todo.pop()
        deepest = max(deepest, depth)
        todo += [(item, depth + 1) for item in inside.items if isinstance(item, Plan)]
    return deepest


class _Row(Steady):
    """Stages in a row under a plan: each takes what the one before returned."""

    __slots__ = ("_functions",)

    def __init__(self, plan: Plan, stages: list[Any]) -> None:
        uses: list[Any] = []
        self._functions: list[StageFunction] = []
        for item in plan.items:
            if isinstance(item, int):
                uses.append(stages[item - 1])
                self._functions.append(stages[item - 1])
            else:
                uses.append(_Row(item, stages))
                self._functions.append(partial(checkpoint, uses[-1]))
        super().__init__(uses)

    def __call__(self, *inputs: Any) -> Any:
        first, *others = self._functions
        value = first(*inputs)
        for function in others:
            value = function(value)
        return value
