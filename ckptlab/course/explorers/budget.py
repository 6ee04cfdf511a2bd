"""A memory budget on a slider: the best plan for it, replayed, and what it costs.

It takes a chain, which planning alone turns into plans, and points that a lesson has
measured. Its twin is a table of budgets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ckptlab.course import palette
from ckptlab.course.diagrams import draw_live_bytes
from ckptlab.course.explorers.explorer import Chosen, Control, Explorer
from ckptlab.course.markup import escape, table
from ckptlab.planning.chain import Chain
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import pareto, plan_for_budget, plan_store_all
from ckptlab.planning.replay import Ledger, replay
from ckptlab.units import format_bytes

N_BUDGETS = 40
"""Budgets on the slider, the smallest that works and that of storing all included."""

N_ROWS = 6
"""Of the twin's table, the smallest budget left out of the count."""

MOST_CHARACTERS, MOST_LINES = 66, 2
"""Of a plan in the picture; a longer one ends in dots."""

_LEFT, _RIGHT = 64, 548  # of the curve, as of the live bytes above it
_TOP, _BOTTOM = 272, 386


def explore_budget(
    chain: Chain, measured: Mapping[str, tuple[int, float]] | None = None
) -> Explorer:
    """A budget to choose; the plan for it, its live bytes, and its place on the curve.

    Args:
        chain: what is planned; its seconds count as they are.
        measured: name -> (peak in bytes, seconds as a ratio to storing all).

    Example:
        >>> explorer = explore_budget(Chain.uniform(4))
        >>> explorer.choose(budget=6)
        >>> explorer.summary.partition(",")[0]
        'With 6 B the best plan is 1 (2 3) 4'
    """
    points = pareto(chain)
    full = replay(chain, plan_store_all(chain))
    curve = [
        (point.peak_bytes, point.total_seconds / full.total_seconds) for point in points
    ]
    budgets = _budgets(points[0].peak_bytes, full.peak_bytes)

    @cache
    def look_at(budget: int) -> _View:
        plan = plan_for_budget(chain, budget)
        ledger = replay(chain, plan)
        n_again = sum(ledger.forward_runs.values()) - len(chain)
        return _View(budget, plan, ledger, n_again, ledger.total_seconds / full_seconds)

    def draw(chosen: Chosen) -> tuple[str, str]:
        view = look_at(chosen["budget"])
        return _picture(view, full, curve, dict(measured or {})), view.sentence

    full_seconds = full.total_seconds
    control = Control(
        "budget",
        "Budget",
        budgets,
        budgets[len(budgets) // 2],
        [format_bytes(budget) for budget in budgets],
    )
    last = len(budgets) - 1
    shown = sorted({last * row // N_ROWS for row in range(N_ROWS + 1)})
    rows = [look_at(budgets[place]).row for place in shown]
    header = ("Budget", "Best plan", "Peak", "Stages run again", "Time")
    twin = "<p>The best plan at some budgets:</p>\n" + table(header, rows)
    return Explorer(draw, controls=(control,), twin=twin)


@dataclass(frozen=True)
class _View:
    """What there is to say of one budget."""

    budget: int
    plan: Plan
    ledger: Ledger
    n_again: int
    times: float

    @property
    def sentence(self) -> str:
        again = f"{self.n_again} stage{'s' * (self.n_again != 1)}"
        cost = (
            f"runs {again} again: {self.times:.2f} times the time of storing everything"
            if self.n_again
            else "runs no stage again: it stores everything"
        )
        return (
            f"With {format_bytes(self.budget)} the best plan is {self.plan}, which "
            f"peaks at {format_bytes(self.ledger.peak_bytes)} and {cost}."
        )

    @property
    def row(self) -> tuple[str, ...]:
        return (
            format_bytes(self.budget),
            str(self.plan),
            format_bytes(self.ledger.peak_bytes),
            f"{self.n_again}",
            f"{self.times:.2f} times",
        )


def _budgets(least: int, most: int) -> list[int]:
    """Evenly spaced, ends included."""
    steps = range(N_BUDGETS)
    return sorted({least + (most - least) * step // (N_BUDGETS - 1) for step in steps})


def _picture(
    view: _View,
    full: Ledger,
    curve: list[tuple[int, float]],
    measured: dict[str, tuple[int, float]],
) -> str:
    """SVG: the plan, the live bytes over time, and the trade-off."""
    words = escape(view.sentence)
    live_bytes = draw_live_bytes(
        view.ledger,
        view.budget,
        top=90,
        most_bytes=full.peak_bytes,
        most_seconds=view.ledger.total_seconds,
    )
    return f"""<svg viewBox="0 0 560 416" role="img" aria-label="{words}"
 font-size="14" fill="currentColor">
{_plan_lines(view.plan)}
<text x="8" y="62">Live memory through one step</text>
{live_bytes}
{_trade_off(view, curve, measured)}
</svg>"""


def _plan_lines(plan: Plan) -> str:
    """The notation, wrapped between its items."""
    lines = [""]
    for word in str(plan).split(" "):
        if len(lines[-1]) + len(word) >= MOST_CHARACTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES]]
        lines[-1] += " …"
    return "\n".join(
        f'<text x="8" y="{18 + 18 * row}" font-weight="bold">{line}</text>'
        for row, line in enumerate(lines)
    )


def _trade_off(
    view: _View,
    curve: list[tuple[int, float]],
    measured: dict[str, tuple[int, float]],
) -> str:
    """Time against memory: the predicted curve, measured points, and this plan."""
    top, bottom = _TOP, _BOTTOM
    most_bytes = max(n for n, _ in [*curve, *measured.values()])
    most_times = max(times for _, times in [*curve, *measured.values()])

    def place(point: tuple[int, float]) -> tuple[float, float]:
        n_bytes, times = point
        height = (times - 1) / max(most_times - 1, 1e-9) * (bottom - top)
        return _LEFT + n_bytes / most_bytes * (_RIGHT - _LEFT), bottom - height

    # between two plans there is none: what is reached at a budget is a staircase
    corners = [place(curve[0])]
    for point in curve[1:]:
        corners += [(place(point)[0], corners[-1][1]), place(point)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    marks = "".join(
        f'<circle cx="{place(point)[0]:.1f}" cy="{place(point)[1]:.1f}" r="4.5"'
        f' fill="none" stroke="{palette.RECOMPUTED}" stroke-width="2">'
        f"<title>{escape(name)}</title></circle>"
        for name, point in measured.items()
    )
    x, y = place((view.ledger.peak_bytes, view.times))
    legend = "— predicted   ● this plan" + "   ○ measured" * bool(measured)
    return f"""<text x="8" y="{top - 14}">Time, as a ratio to storing everything</text>
<text x="{_RIGHT}" y="{top + 6}" text-anchor="end"
 xml:space="preserve">{legend}</text>
<path d="M{_LEFT} {top}V{bottom}H{_RIGHT}" fill="none" stroke="currentColor"/>
<text x="{_LEFT - 8}" y="{bottom + 4}" text-anchor="end">1</text>
<text x="{_LEFT - 8}" y="{top + 8}" text-anchor="end">{most_times:.1f}</text>
<polyline points="{line}" fill="none" stroke="{palette.KEPT}" stroke-width="2"/>
{marks}
<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="{palette.KEPT}"/>
<text x="{x:.1f}" y="{y - 12:.1f}" text-anchor="middle">{view.times:.2f}</text>
<text x="{_LEFT}" y="{bottom + 20}">0</text>
<text x="{_RIGHT}" y="{bottom + 20}" text-anchor="end">{format_bytes(most_bytes)}</text>
<text x="{(_LEFT + _RIGHT) / 2}" y="{bottom + 20}"
 text-anchor="middle">peak memory</text>"""
