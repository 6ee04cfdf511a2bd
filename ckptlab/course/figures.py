"""Figures of the lessons in matplotlib, one function a figure.

Each takes plain numbers and returns a `Picture`: an SVG, the same for the same
numbers to the byte, with the finding as its title and as its text.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ckptlab.course import palette
from ckptlab.units import format_bytes

_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "figure.figsize": (7.2, 3.2),
    "font.size": 10.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ckptlab",
}


@dataclass(frozen=True)
class Picture:
    """A finished figure: SVG to look at, and one sentence that says what it shows."""

    svg: str = field(repr=False)
    finding: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": f"Figure: {self.finding}"}


def use_lesson_style() -> None:
    """Give the learner's own matplotlib figures the style of the lessons."""
    matplotlib.rcParams.update(_STYLE)


def plot_weights_and_activations(cases: Mapping[str, tuple[int, int]]) -> Picture:
    """Weights and activations on one logarithmic scale, one line a case.

    Args:
        cases: name -> (bytes of the weights, bytes of the activations).
    """
    lost = [
        name for name, (weights, activations) in cases.items() if activations > weights
    ]
    finding = f"Activations outweigh the weights in {len(lost)} of {len(cases)} cases"
    figure, axes = _start(height=1.2 + 0.5 * len(cases))
    for row, (weights, activations) in enumerate(cases.values()):
        axes.plot([weights, activations], [row, row], color="#bbbbbb", zorder=1)
        marks = [
            (weights, "weights", palette.WEIGHT, "o"),
            (activations, "activations", palette.KEPT, "D"),
        ]
        for side, (n_bytes, label, color, marker) in zip(
            ("right", "left"), sorted(marks), strict=True
        ):
            axes.plot(n_bytes, row, color=color, marker=marker, markersize=9)
            axes.annotate(
                f"{label} {format_bytes(n_bytes)}",
                (n_bytes, row),
                xytext=(-10 if side == "right" else 10, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                fontsize=9.5,
            )
    largest = max(max(pair) for pair in cases.values())
    smallest = min(min(pair) for pair in cases.values())
    axes.set_xscale("log")
    axes.set_xlim(smallest / 100, largest * 100)
    axes.set_ylim(-0.6, len(cases) - 0.4)
    axes.set_yticks(range(len(cases)), cases.keys())
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("model and batch")
    _label_bytes(axes, "memory (each gridline 32 times the last)")
    return _finish(figure, axes, finding)


def plot_growth_with_batch(
    batches: Sequence[int], activation_bytes: Sequence[int], weight_bytes: int
) -> Picture:
    """Activations against the batch size, with the weights as a level line.

    Args:
        batches: batch sizes, rising.
        activation_bytes: what autograd keeps at each.
        weight_bytes: the weights, the same at each.
    """
    over = [
        batch
        for batch, n in zip(batches, activation_bytes, strict=True)
        if n > weight_bytes
    ]
    finding = (
        f"Activations grow with the batch and pass the weights by batch {over[0]}"
        if over
        else "Activations grow with the batch; the weights stay"
    )
    figure, axes = _start()
    mebibyte = 2**20
    axes.axhline(weight_bytes / mebibyte, color=palette.WEIGHT, linewidth=2.5)
    axes.plot(
        batches,
        [n / mebibyte for n in activation_bytes],
        color=palette.KEPT,
        marker="o",
        linewidth=2,
    )
    axes.annotate(
        "weights",
        (0, weight_bytes / mebibyte),
        xytext=(4, 5),
        textcoords="offset points",
    )
    axes.annotate(
        "activations",
        (batches[-1], activation_bytes[-1] / mebibyte),
        xytext=(-10, 0),
        textcoords="offset points",
        ha="right",
    )
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.set_xlabel("batch size (samples)")
    axes.set_ylabel("memory (MiB)")
    return _finish(figure, axes, finding)


def _start(*, height: float = 3.2) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, height), layout="constrained")
        return figure, figure.add_subplot()


def _label_bytes(axes: Axes, label: str) -> None:
    """Byte ticks at powers of 32 on a logarithmic axis, spelt out."""
    low, high = axes.get_xlim()
    ticks = [32**power for power in range(1, 12) if low <= 32**power <= high]
    axes.set_xticks(ticks, [format_bytes(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(label)


def _finish(figure: Figure, axes: Axes, finding: str) -> Picture:
    with matplotlib.rc_context(_STYLE):
        axes.set_title(finding)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(buffer.getvalue(), finding)
