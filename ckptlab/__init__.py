"""Measure a model's memory, plan what to keep, recompute the rest; and learn how.

Names load on first touch: `import ckptlab` alone loads neither torch, matplotlib
nor widgets. What is public is listed here, and nowhere else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckptlab import models as models
    from ckptlab.course.diagrams import draw_plan as draw_plan
    from ckptlab.course.diagrams import draw_plans as draw_plans
    from ckptlab.course.explorers.budget import explore_budget as explore_budget
    from ckptlab.course.explorers.four_layers import (
        explore_four_layers as explore_four_layers,
    )
    from ckptlab.course.explorers.life_of_an_activation import (
        explore_life_of_an_activation as explore_life_of_an_activation,
    )
    from ckptlab.course.explorers.models_against_a_gpu import (
        explore_models_against_a_gpu as explore_models_against_a_gpu,
    )
    from ckptlab.course.explorers.weights_and_activations import (
        explore_weights_and_activations as explore_weights_and_activations,
    )
    from ckptlab.course.figures import plot_growth_with_batch as plot_growth_with_batch
    from ckptlab.course.figures import (
        plot_growth_with_tokens as plot_growth_with_tokens,
    )
    from ckptlab.course.figures import plot_live_activations as plot_live_activations
    from ckptlab.course.figures import (
        plot_lives_of_activations as plot_lives_of_activations,
    )
    from ckptlab.course.figures import (
        plot_time_against_memory as plot_time_against_memory,
    )
    from ckptlab.course.figures import (
        plot_weights_and_activations as plot_weights_and_activations,
    )
    from ckptlab.course.notebook import lesson as lesson
    from ckptlab.course.quiz import check as check
    from ckptlab.course.quiz import predict as predict
    from ckptlab.course.quiz import progress as progress
    from ckptlab.course.quiz import reveal as reveal
    from ckptlab.course.quiz import review as review
    from ckptlab.errors import BudgetTooSmall as BudgetTooSmall
    from ckptlab.errors import CkptlabError as CkptlabError
    from ckptlab.errors import PlanError as PlanError
    from ckptlab.errors import RecomputationError as RecomputationError
    from ckptlab.memory.fake import one_rank_of as one_rank_of
    from ckptlab.memory.fake import without_memory as without_memory
    from ckptlab.memory.limit import memory_limit as memory_limit
    from ckptlab.memory.profile import profile_chain as profile_chain
    from ckptlab.memory.saved import saved_tensors as saved_tensors
    from ckptlab.memory.storage import count_bytes as count_bytes
    from ckptlab.memory.storage import parameter_bytes as parameter_bytes
    from ckptlab.memory.timeline import memory_timeline as memory_timeline
    from ckptlab.planning.chain import Chain as Chain
    from ckptlab.planning.chain import Stage as Stage
    from ckptlab.planning.plan import Plan as Plan
    from ckptlab.planning.planners import pareto as pareto
    from ckptlab.planning.planners import plan_every as plan_every
    from ckptlab.planning.planners import plan_for_budget as plan_for_budget
    from ckptlab.planning.planners import plan_sqrt as plan_sqrt
    from ckptlab.planning.planners import plan_store_all as plan_store_all
    from ckptlab.planning.replay import replay as replay
    from ckptlab.planning.transformer import TransformerShape as TransformerShape
    from ckptlab.planning.transformer import (
        activation_bytes_first_stage as activation_bytes_first_stage,
    )
    from ckptlab.planning.transformer import (
        activation_bytes_per_layer as activation_bytes_per_layer,
    )
    from ckptlab.planning.transformer import activation_terms as activation_terms
    from ckptlab.planning.transformer import (
        extra_activation_terms as extra_activation_terms,
    )
    from ckptlab.planning.transformer import (
        forward_flops_per_layer as forward_flops_per_layer,
    )
    from ckptlab.planning.transformer import hardware_flops as hardware_flops
    from ckptlab.planning.transformer import model_flops as model_flops
    from ckptlab.planning.transformer import parameter_count as parameter_count
    from ckptlab.planning.transformer import (
        training_state_bytes as training_state_bytes,
    )
    from ckptlab.runtime.execute import apply_plan as apply_plan
    from ckptlab.runtime.recompute import checkpoint as checkpoint
    from ckptlab.units import format_bytes as format_bytes

_HOMES = {
    "BudgetTooSmall": "errors",
    "Chain": "planning.chain",
    "CkptlabError": "errors",
    "Plan": "planning.plan",
    "PlanError": "errors",
    "RecomputationError": "errors",
    "Stage": "planning.chain",
    "TransformerShape": "planning.transformer",
    "activation_bytes_first_stage": "planning.transformer",
    "activation_bytes_per_layer": "planning.transformer",
    "activation_terms": "planning.transformer",
    "apply_plan": "runtime.execute",
    "check": "course.quiz",
    "checkpoint": "runtime.recompute",
    "count_bytes": "memory.storage",
    "draw_plan": "course.diagrams",
    "draw_plans": "course.diagrams",
    "explore_four_layers": "course.explorers.four_layers",
    "explore_life_of_an_activation": "course.explorers.life_of_an_activation",
    "explore_models_against_a_gpu": "course.explorers.models_against_a_gpu",
    "explore_budget": "course.explorers.budget",
    "explore_weights_and_activations": "course.explorers.weights_and_activations",
    "extra_activation_terms": "planning.transformer",
    "format_bytes": "units",
    "forward_flops_per_layer": "planning.transformer",
    "hardware_flops": "planning.transformer",
    "lesson": "course.notebook",
    "memory_limit": "memory.limit",
    "memory_timeline": "memory.timeline",
    "model_flops": "planning.transformer",
    "one_rank_of": "memory.fake",
    "parameter_bytes": "memory.storage",
    "parameter_count": "planning.transformer",
    "pareto": "planning.planners",
    "plan_every": "planning.planners",
    "plan_for_budget": "planning.planners",
    "plan_sqrt": "planning.planners",
    "plan_store_all": "planning.planners",
    "plot_growth_with_batch": "course.figures",
    "plot_growth_with_tokens": "course.figures",
    "plot_live_activations": "course.figures",
    "plot_lives_of_activations": "course.figures",
    "plot_time_against_memory": "course.figures",
    "plot_weights_and_activations": "course.figures",
    "predict": "course.quiz",
    "profile_chain": "memory.profile",
    "progress": "course.quiz",
    "replay": "planning.replay",
    "reveal": "course.quiz",
    "review": "course.quiz",
    "saved_tensors": "memory.saved",
    "training_state_bytes": "planning.transformer",
    "without_memory": "memory.fake",
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
