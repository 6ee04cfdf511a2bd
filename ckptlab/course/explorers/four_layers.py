"""A network of four layers: keep or discard each activation, and see what it costs.

Everything shown is asked of `replay`, with one activation as the unit of memory. The
last layer has no switch: its activation is the network's output, which the loss needs,
so it is there when the backward pass begins whatever is discarded before.
"""

from collections.abc import Collection
from functools import cache
from itertools import product

from ckptlab.course.diagrams import draw_layers, draw_live_steps
from ckptlab.course.explorers.explorer import Chosen, Control, Explorer
from ckptlab.course.markup import escape, table
from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Item, Plan
from ckptlab.planning.replay import Ledger, replay

N_LAYERS = 4
_START = (False, True, False)
_CONTROLS = tuple(
    Control(
        f"layer_{number}",
        f"Layer {number}",
        (False, True),
        is_kept,
        ("discarded", "kept"),
        "switch",
    )
    for number, is_kept in enumerate(_START, start=1)
)


def explore_four_layers() -> Explorer:
    """Switches for layers 1 to 3; the plan, the count, and the live bytes replayed."""

    def draw(chosen: Chosen) -> tuple[str, str]:
        kept = [n for n in range(1, N_LAYERS) if chosen[f"layer_{n}"]]
        plan, ledger = _replayed(tuple(kept))
        summary = _describe(plan, ledger)
        return _picture(plan, ledger, summary), summary

    rows = []
    for switches in product((True, False), repeat=N_LAYERS - 1):
        plan, ledger = _replayed(
            tuple(n for n, is_on in enumerate(switches, start=1) if is_on)
        )
        rows.append(
            (
                str(plan),
                _list(plan.kept),
                str(ledger.bytes_at_backward_start),
                _list(plan.recomputed),
                str(ledger.peak_bytes),
            )
        )
    twin = "<p>All eight settings, counted in activations:</p>\n" + table(
        ("Plan", "Kept", "At backward start", "Made again", "Peak"), rows
    )
    return Explorer(draw, controls=_CONTROLS, twin=twin)


def plan_that_keeps(kept: Collection[int], *, n_layers: int) -> Plan:
    """The plan that keeps the activations of these layers, and always the last one's.

    Discarded layers and the kept one that ends them form a parenthesis; a kept layer
    that follows a kept one, or the input, stands bare.

    Example:
        >>> plan_that_keeps([2], n_layers=4), plan_that_keeps([1, 3], n_layers=4)
        (Plan('(1 2) (3 4)'), Plan('1 (2 3) 4'))
    """
    items: list[Item] = []
    run: list[Item] = []
    for number in range(1, n_layers + 1):
        run.append(number)
        if number in kept or number == n_layers:
            items.append(Plan(tuple(run)) if len(run) > 1 else number)
            run = []
    return Plan(tuple(items))


@cache
def _replayed(kept: tuple[int, ...]) -> tuple[Plan, Ledger]:
    plan = plan_that_keeps(kept, n_layers=N_LAYERS)
    return plan, replay(Chain.uniform(N_LAYERS), plan)


def _describe(plan: Plan, ledger: Ledger) -> str:
    n_kept, peak = ledger.bytes_at_backward_start, ledger.peak_bytes
    again = (
        f"made again in it: {_list(plan.recomputed)}"
        if plan.recomputed
        else "nothing is made again"
    )
    layers = "layer" if n_kept == 1 else "layers"
    sentence = (
        f"Plan {plan}: {_count(n_kept)} in memory when the backward pass begins, of "
        f"{layers} {_list(plan.kept)}; {again}. With the input and the gradients, "
        f"{peak} are live at the peak, in the backward pass of layer "
        f"{ledger.peak_step.stage}."
    )
    if plan.kept == (N_LAYERS,):
        sentence += (
            " With only the output kept, the whole network runs again at once, and "
            "all its activations are back in memory together: the peak is as high as "
            "when everything is stored."
        )
    return sentence


def _count(n: int) -> str:
    return f"{n} activation" if n == 1 else f"{n} activations"


def _list(numbers: Collection[int]) -> str:
    """The numbers 1, 2 and 3 as "1, 2 and 3"."""
    if not numbers:
        return "none"
    *before, last = map(str, numbers)
    return f"{', '.join(before)} and {last}" if before else last


def _picture(plan: Plan, ledger: Ledger, summary: str) -> str:
    return (
        f'<svg viewBox="0 0 560 384" role="img" aria-label="{escape(summary)}"\n'
        ' font-size="14" fill="currentColor">\n'
        f"{draw_layers(plan)}\n"
        f'<g transform="translate(0 140)">\n{draw_live_steps(ledger)}\n</g>\n</svg>'
    )
