"""Measure a model's memory, plan what to keep, recompute the rest; and learn how.

Names load on first touch: `import ckptlab` alone loads neither torch, matplotlib
nor widgets. What is public is listed here, and nowhere else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckptlab import models as models
    from ckptlab.course.explorers import (
        explore_weights_and_activations as explore_weights_and_activations,
    )
    from ckptlab.course.figures import plot_growth_with_batch as plot_growth_with_batch
    from ckptlab.course.figures import (
        plot_weights_and_activations as plot_weights_and_activations,
    )
    from ckptlab.course.notebook import lesson as lesson
    from ckptlab.course.quiz import check as check
    from ckptlab.course.quiz import predict as predict
    from ckptlab.course.quiz import progress as progress
    from ckptlab.course.quiz import reveal as reveal
    from ckptlab.memory.saved import saved_tensors as saved_tensors
    from ckptlab.memory.storage import count_bytes as count_bytes
    from ckptlab.memory.storage import parameter_bytes as parameter_bytes
    from ckptlab.units import format_bytes as format_bytes

_HOMES = {
    "check": "course.quiz",
    "count_bytes": "memory.storage",
    "explore_weights_and_activations": "course.explorers",
    "format_bytes": "units",
    "lesson": "course.notebook",
    "parameter_bytes": "memory.storage",
    "plot_growth_with_batch": "course.figures",
    "plot_weights_and_activations": "course.figures",
    "predict": "course.quiz",
    "progress": "course.quiz",
    "reveal": "course.quiz",
    "saved_tensors": "memory.saved",
}

__all__ = ["models", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "models":
        return import_module("ckptlab.models")
    if name not in _HOMES:
        raise AttributeError(f"module 'ckptlab' has no attribute {name!r}")
    value = getattr(import_module(f"ckptlab.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
