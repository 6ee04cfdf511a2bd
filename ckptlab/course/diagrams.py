"""Diagrams as SVG, one function a diagram."""

from collections.abc import Mapping

from ckptlab.course import palette
from ckptlab.course.figures import Picture
from ckptlab.course.markup import escape
from ckptlab.errors import PlanError
from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import plan_store_all
from ckptlab.planning.replay import Ledger, Step, replay
from ckptlab.units import format_bytes, parse_bytes

_RUNS = {"forward": "run", "gradient": "loss", "recompute": "redo", "backward": "back"}
"""Actions of `replay` that take memory, and the word under their bar."""


def draw_plan(notation: str) -> Picture:
    """A row of layers: which activations a plan keeps, and which layers run again.

    Example:
        >>> draw_plan("(1 2) (3 4)").finding
        'Plan (1 2) (3 4): kept 2, 4; made again 1, 3'
    """
    plan = Plan.parse(notation)
    made_again = ", ".join(map(str, plan.recomputed)) or "none"
    finding = (
        f"Plan {plan}: kept {', '.join(map(str, plan.kept))}; made again {made_again}"
    )
    return _picture(finding, draw_layers(plan), height=136)


def draw_plans(
    chain: Chain, plans: Mapping[str, Plan | str], budget: str | int
) -> Picture:
    """Live memory through one step under each plan, one above the other, to one scale.

    Args:
        chain: what the plans are for.
        plans: a name for each, and its notation.
        budget: bytes, or a text such as "64 MiB"; a dashed line in each.

    Raises:
        PlanError: no plan at all, or one that does not suit the chain.

    Example:
        >>> draw_plans(Chain.uniform(4), {"mine": "(1 2) (3 4)"}, 7).finding
        'mine: peak 6 B, 1.33 times the time of storing everything'
    """
    if not plans:
        raise PlanError("no plan to draw; give at least one, with a name for it")
    budget_bytes = parse_bytes(budget)
    full_seconds = replay(chain, plan_store_all(chain)).total_seconds
    notations = {
        name: Plan.parse(plan) if isinstance(plan, str) else plan
        for name, plan in plans.items()
    }
    ledgers = {name: replay(chain, plan) for name, plan in notations.items()}
    most_bytes = max(budget_bytes, *(one.peak_bytes for one in ledgers.values()))
    most_seconds = max(ledger.total_seconds for ledger in ledgers.values())
    findings, parts = [], []
    for place, (name, ledger) in enumerate(ledgers.items()):
        times = f"{ledger.total_seconds / full_seconds:.2f} times the time"
        cost = f"peak {format_bytes(ledger.peak_bytes)}, {times} of storing everything"
        findings.append(f"{name}: {cost}")
        top = 8 + 216 * place
        parts.append(
            f'<text x="8" y="{top + 14}"><tspan font-weight="bold">{escape(name)}'
            f"</tspan> {_shorten(notations[name])}</text>\n"
            f'<text x="8" y="{top + 34}">{cost}</text>\n'
            + draw_live_bytes(
                ledger,
                budget_bytes,
                top=top + 62,
                most_bytes=most_bytes,
                most_seconds=most_seconds,
            )
        )
    return _picture("; ".join(findings), "\n".join(parts), height=216 * len(ledgers))


def draw_live_bytes(
    ledger: Ledger, budget_bytes: int, *, top: int, most_bytes: int, most_seconds: float
) -> str:
    """SVG, 560 by 140: live bytes through a step, with the budget and the peak marked.

    Args:
        ledger: the step.
        budget_bytes: a dashed line.
        top: where the drawing begins; its words reach 20 above.
        most_bytes: what the height stands for.
        most_seconds: what the width stands for.
    """
    left, right, bottom = 64, 548, top + 114
    scale_x, scale_y = (right - left) / most_seconds, (bottom - top) / most_bytes
    path, again, before = [f"M{left} {bottom}"], [], 0.0
    for step in ledger.steps:
        x = left + step.seconds * scale_x
        if step.seconds > before:
            path.append(f"V{bottom - step.running_bytes * scale_y:.1f}H{x:.1f}")
        if step.action == "recompute":
            again.append(f"M{left + before * scale_x:.1f} {bottom + 6}H{x:.1f}")
        path.append(f"V{bottom - step.live_bytes * scale_y:.1f}")
        before = step.seconds
    peak = ledger.peak_step
    peak_x, peak_y = left + peak.seconds * scale_x, bottom - ledger.peak_bytes * scale_y
    budget_y = bottom - budget_bytes * scale_y
    peak_bytes = format_bytes(ledger.peak_bytes)
    words = "computed again" if again else "nothing is computed again"
    return f"""<path d="M{left} {top}v{bottom - top}H{right}" fill="none"
 stroke="currentColor"/>
<text x="{left - 8}" y="{top + 8}" text-anchor="end">{format_bytes(most_bytes)}</text>
<text x="{left - 8}" y="{bottom + 4}" text-anchor="end">0</text>
<path d="{"".join(path)}" fill="none" stroke="{palette.KEPT}" stroke-width="2"/>
<path d="{"".join(again)}" fill="none" stroke="{palette.RECOMPUTED}" stroke-width="6"/>
<path d="M{left} {budget_y:.1f}H{right}" stroke="currentColor" stroke-dasharray="5 4"/>
<text x="{right}" y="{top - 7}"
 text-anchor="end">- - budget {format_bytes(budget_bytes)}</text>
<circle cx="{peak_x:.1f}" cy="{peak_y:.1f}" r="5" fill="{palette.KEPT}"/>
<text x="{left + 4}" y="{top - 7}">● peak {peak_bytes}</text>
<line x1="{left}" x2="{left + 20}" y1="{bottom + 20}" y2="{bottom + 20}"
 stroke="{palette.RECOMPUTED}" stroke-width="6"/>
<text x="{left + 28}" y="{bottom + 25}">{words}</text>
<text x="{right}" y="{bottom + 25}" text-anchor="end">time →</text>"""


def draw_layers(plan: Plan) -> str:
    """SVG, 560 by 136: the layers of a plan in a row, for a drawing to hold.

    Kept activations have a solid frame, discarded ones a dashed one; a bracket joins
    the layers of a parenthesis.
    """
    n_layers = len(plan.stages)
    slot = 520 / n_layers
    width = slot - 24
    parts = [
        f'<text x="30" y="20">Plan: <tspan font-family="monospace" font-size="16" '
        f'font-weight="bold">{escape(str(plan))}</tspan></text>',
        f'<text x="2" y="66">x</text>{_arrow(12, 26)}',
    ]
    for number in plan.stages:
        left = 30 + (number - 1) * slot
        parts.append(_layer(left, width, number, is_kept=number in plan.kept))
        if number < n_layers:
            parts.append(_arrow(left + width + 4, left + slot - 4))
    for item in plan.items:
        if isinstance(item, Plan):
            first, last = item.stages[0], item.stages[-1]
            left, right = 30 + (first - 1) * slot, 30 + (last - 1) * slot + width
            parts.append(
                f'<path d="M{left:.1f} 100v8H{right:.1f}v-8" fill="none" '
                f'stroke="{palette.RECOMPUTED}" stroke-width="2.5"/>\n'
                f'<text x="{(left + right) / 2:.1f}" y="126" text-anchor="middle">'
                f"runs again from {'x' if first == 1 else first - 1}</text>"
            )
    return "\n".join(parts)


def draw_live_steps(ledger: Ledger) -> str:
    """SVG, 560 by 240: a bar for each run of a step, as high as what is live then.

    Ledgers of chains whose activations are one byte each; the peak is marked.
    """
    steps = [step for step in ledger.steps if step.action in _RUNS]
    slot = 540 / len(steps)
    peak = ledger.peak_bytes
    scale = 128 / (len(ledger.forward_runs) + 3)  # what storing everything reaches
    n_forward = next(i for i, step in enumerate(steps) if step.action == "gradient")
    middle, base = 10 + slot * n_forward, 172
    top = base - peak * scale
    n_start = ledger.bytes_at_backward_start
    parts = [
        f'<text x="10" y="14">Live, input and gradients included: peak {peak}</text>',
        f'<path d="M10 {top:.1f}H550" stroke="currentColor" stroke-dasharray="4 3"/>',
        f'<path d="M{middle:.1f} 24V216" stroke="currentColor" stroke-width="1.5"/>',
    ]
    parts += [
        _bar(10 + slot * place, slot, step, scale=scale, base=base, is_peak=is_peak)
        for place, step in enumerate(steps)
        for is_peak in [step is ledger.peak_step]
    ]
    parts.append(
        f'<text x="10" y="230">forward</text><text x="{middle + 6:.1f}" y="230">'
        f"backward pass, begins with {n_start} kept</text>"
    )
    return "\n".join(parts)


def _bar(
    left: float, slot: float, step: Step, *, scale: float, base: int, is_peak: bool
) -> str:
    height = step.running_bytes * scale
    colors = {"forward": palette.KEPT, "recompute": palette.RECOMPUTED}
    middle = left + slot / 2
    label = f"▼{step.running_bytes}" if is_peak else f"{step.running_bytes}"
    weight = ' font-weight="bold"' if is_peak else ""
    return (
        f'<rect x="{left + 3:.1f}" y="{base - height:.1f}" width="{slot - 6:.1f}" '
        f'height="{height:.1f}" fill="{colors.get(step.action, palette.GRADIENT)}"/>\n'
        f'<text x="{middle:.1f}" y="{base - height - 4:.1f}" text-anchor="middle"'
        f"{weight}>{label}</text>\n"
        f'<text x="{middle:.1f}" y="{base + 16}" text-anchor="middle">'
        f"{_RUNS[step.action]}</text>\n"
        f'<text x="{middle:.1f}" y="{base + 33}" text-anchor="middle">'
        f"{'' if step.action == 'gradient' else step.stage}</text>"
    )


def _layer(left: float, width: float, number: int, *, is_kept: bool) -> str:
    color = palette.KEPT if is_kept else palette.DISCARDED
    look = f'fill="{color}" fill-opacity="0.2"' if is_kept else 'fill="none"'
    dashes = "" if is_kept else ' stroke-dasharray="6 4"'
    middle = left + width / 2
    words = ("kept", "bold") if is_kept else ("discarded", "normal")
    return (
        f'<rect x="{left:.1f}" y="34" width="{width:.1f}" height="56" rx="6" {look} '
        f'stroke="{color}" stroke-width="{3 if is_kept else 2}"{dashes}/>\n'
        f'<text x="{middle:.1f}" y="57" text-anchor="middle">layer {number}</text>\n'
        f'<text x="{middle:.1f}" y="78" text-anchor="middle" font-weight="{words[1]}">'
        f"{words[0]}</text>"
    )


def _arrow(start: float, end: float) -> str:
    return (
        f'<path d="M{start:.1f} 62H{end:.1f}m-5 -4l5 4l-5 4" fill="none" '
        'stroke="currentColor" stroke-width="1.5"/>'
    )


def _shorten(plan: Plan) -> str:
    """The notation, cut where a line of the drawing ends."""
    text = str(plan)
    return text if len(text) <= 60 else f"{text[:58]} …"


def _picture(finding: str, drawing: str, *, height: int) -> Picture:
    """A drawing of its own, on white."""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="560" height="{height}" '
        f'viewBox="0 0 560 {height}" role="img" aria-label="{escape(finding)}"\n'
        ' font-family="sans-serif" font-size="14" color="#212121" '
        f'fill="currentColor">\n<rect width="560" height="{height}" fill="#ffffff"/>\n'
        f"{drawing}\n</svg>"
    )
    return Picture(svg, finding)
