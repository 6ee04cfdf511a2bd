"""Figures of the lessons in matplotlib, one function a figure.

Each takes plain numbers and returns a `Picture`: an SVG, the same for the same
numbers to the byte, with the finding as its title and as its text.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import matplotlib

from ckptlab.course import palette
from ckptlab.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

LiveCurve = tuple[Sequence[float], int]
"""Live activations step by step, and the step with which the backward pass begins."""


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


def plot_growth_with_tokens(
    tokens: Sequence[int],
    texts_bytes: Sequence[int],
    longer_bytes: Sequence[int],
    weight_bytes: int,
) -> Picture:
    """Activations against the tokens of a batch, spent on more texts or on longer ones.

    Args:
        tokens: in the batch, rising; the first is one text of that length.
        texts_bytes: kept with more texts of the first length.
        longer_bytes: kept with one text that holds all the tokens.
        weight_bytes: the weights, the same at each.
    """
    ratio = longer_bytes[-1] / texts_bytes[-1]
    finding = f"In one long text the same tokens keep {ratio:.2g} times as much"
    figure, axes = _start()
    mebibyte = 2**20
    axes.axhline(weight_bytes / mebibyte, color=palette.WEIGHT, linewidth=2.5)
    curves = (
        (longer_bytes, "one longer text", "D", "-"),
        (texts_bytes, f"more texts of {tokens[0]:,} tokens", "o", "--"),
    )
    for n_bytes, label, marker, linestyle in curves:
        heights = [n / mebibyte for n in n_bytes]
        axes.plot(
            tokens, heights, color=palette.KEPT, marker=marker, linestyle=linestyle
        )
        axes.annotate(
            label,
            (tokens[-1], heights[-1]),
            xytext=(-10, 8 if marker == "o" else -4),
            textcoords="offset points",
            ha="right",
        )
    axes.annotate(
        "weights",
        (tokens[-1], weight_bytes / mebibyte),
        xytext=(-10, 4),
        textcoords="offset points",
        ha="right",
    )
    axes.set_xlim(0)
    axes.set_ylim(0)
    axes.set_xticks(tokens, [f"{n:,}" for n in tokens])
    axes.set_xlabel("tokens in the batch")
    axes.set_ylabel("memory (MiB)")
    return _finish(figure, axes, finding)


def plot_lives_of_activations(
    lives: Mapping[str, Sequence[tuple[int, int]]], *, backward_starts: int
) -> Picture:
    """When each layer's activation is in memory, one line a layer.

    Args:
        lives: layer -> the operation that made its activation and the first at which
            it is gone; twice if it is made twice.
        backward_starts: number of the first operation of the backward pass.
    """
    n_kept = sum(
        made < backward_starts < freed
        for spans in lives.values()
        for made, freed in spans
    )
    finding = (
        f"{n_kept} of {len(lives)} activations are in memory when the backward pass "
        "starts"
    )
    figure, axes = _start(height=1.2 + 0.4 * len(lives))
    for row, spans in enumerate(lives.values()):
        for number, (made, freed) in enumerate(spans):
            name, color = ("made again", palette.RECOMPUTED)
            if not number:
                is_kept = freed > backward_starts
                name, color = (
                    ("kept", palette.KEPT)
                    if is_kept
                    else ("discarded", palette.DISCARDED)
                )
            axes.barh(row, freed - made, left=made, height=0.5, color=color)
            axes.annotate(
                name,
                (freed, row),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
    axes.axvline(backward_starts, color="black", linewidth=1, linestyle="--")
    axes.annotate(
        "the backward pass starts",
        (backward_starts, -0.75),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
    )
    last = max(freed for spans in lives.values() for _, freed in spans)
    axes.set_xlim(0, 1.15 * last)
    axes.set_ylim(-1.1, len(lives) - 0.5)
    axes.invert_yaxis()
    axes.set_yticks(range(len(lives)), lives.keys())
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("operation of the training step (number)")
    axes.set_ylabel("activation of")
    return _finish(figure, axes, finding)


def plot_live_activations(
    runs: Mapping[str, tuple[LiveCurve, LiveCurve]],
) -> Picture:
    """Live activations over a training step: measured above, replayed below.

    Args:
        runs: plan -> (measured, replayed). Each is what is live after each operation
            or event, and the number of the one with which the backward pass begins.
    """
    peaks = {plan: max(measured[0]) for plan, (measured, _) in runs.items()}
    finding = "Activations at the peak: " + ", ".join(
        f"{peak:.3g} under {plan}" for plan, peak in peaks.items()
    )
    with matplotlib.rc_context(_STYLE):
        figure = _new_figure(height=4.6)
        grid: Any = figure.subplots(2, len(runs), sharey=True, squeeze=False)
    for column, (plan, curves) in enumerate(runs.items()):
        for axes, curve, label in zip(
            grid[:, column],
            curves,
            ("operations, measured", "events, replayed"),
            strict=True,
        ):
            _draw_live(axes, *curve)
            axes.set_ylim(0, max(peaks.values()) + 1.6)
            axes.set_xlabel(f"{plan}: {label}")
    for axes in grid[:, 0]:
        axes.set_ylabel("live (activations)")
    return _finish(figure, None, finding)


def _draw_live(axes: "Axes", live: Sequence[float], start: int) -> None:
    """One curve with its peak and the beginning of its backward pass marked."""
    places, peak = range(len(live)), max(live)
    axes.fill_between(places, live, step="post", color=palette.KEPT, alpha=0.35)
    axes.step(places, live, where="post", color=palette.KEPT)
    axes.axhline(peak, color="#555555", linewidth=1, linestyle="--")
    axes.axvline(start, color="#555555", linewidth=1, linestyle=":")
    axes.set_xlim(0, len(live) - 1)
    for text, place, side in (
        (f"peak {peak:.3g}", (len(live) - 1, peak), "right"),
        ("backward", (start, 0), "left"),
    ):
        axes.annotate(
            text,
            place,
            xytext=(4 if side == "left" else -2, 3),
            textcoords="offset points",
            ha=side,
        )


def plot_time_against_memory(
    curve: Sequence[tuple[int, float]],
    measured: Mapping[str, Mapping[str, tuple[int, float]]],
) -> Picture:
    """Best plans as predicted, and plans as measured: time against peak memory.

    Args:
        curve: (peak in bytes, work as a ratio to storing all), least memory first.
        measured: series -> name of a point -> the same two numbers.
    """
    mebibyte = 2**20
    peaks, ratios = zip(*curve, strict=True)
    half = next(r for peak, r in reversed(curve) if peak <= peaks[-1] / 2)
    finding = (
        f"Half the memory takes {half:.2f} times the work; "
        f"the least, {ratios[0]:.1f} times"
    )
    figure, axes = _start(height=3.8)
    in_mebibytes = [peak / mebibyte for peak in peaks]
    axes.step(in_mebibytes, ratios, where="post", color=palette.KEPT, linewidth=2)
    axes.plot([], [], color=palette.KEPT, linewidth=2, label="best plans, predicted")
    looks = zip(("D", "s"), (palette.KEPT, palette.RECOMPUTED), strict=True)
    for (series, points), (marker, color) in zip(measured.items(), looks, strict=False):
        x = [peak / mebibyte for peak, _ in points.values()]
        y = [ratio for _, ratio in points.values()]
        style: Any = {"color": color, "marker": marker, "markeredgecolor": "black"}
        axes.plot(x, y, linestyle="none", label=series, markersize=7, **style)
        upper_first = sorted(points, key=lambda name: -points[name][1])
        for at in sorted(set(x)):  # points above one another share a text
            names = [n for n in upper_first if points[n][0] / mebibyte == at]
            axes.annotate(
                ", ".join(name for name in names if name),
                (at, max(n for n, one in zip(y, x, strict=True) if one == at)),
                xytext=(7, 5),
                textcoords="offset points",
                fontsize=9.5,
            )
    axes.set_yscale("log")
    ticks = [tick for tick in (1, 1.5, 2, 3, 4, 6, 8) if tick <= 1.5 * max(ratios)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.set_xlim(0, max(in_mebibytes) * 1.12)
    axes.set_xlabel("peak memory (MiB)")
    axes.set_ylabel("work, or time (times storing all)")
    axes.legend(loc="upper right")
    return _finish(figure, axes, finding)


def _new_figure(*, height: float) -> "Figure":
    # a quarter of a second to import, and no lesson draws before its first prediction
    from matplotlib.figure import Figure

    return Figure(figsize=(7.2, height), layout="constrained")


def _start(*, height: float = 3.2) -> tuple["Figure", "Axes"]:
    with matplotlib.rc_context(_STYLE):
        figure = _new_figure(height=height)
        return figure, figure.add_subplot()


def _label_bytes(axes: "Axes", label: str) -> None:
    """Byte ticks at powers of 32 on a logarithmic axis, spelt out."""
    low, high = axes.get_xlim()
    ticks = [32**power for power in range(1, 12) if low <= 32**power <= high]
    axes.set_xticks(ticks, [format_bytes(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(label)


def _finish(figure: "Figure", axes: "Axes | None", finding: str) -> Picture:
    """Give the figure its title, over its one axes or over all of them."""
    with matplotlib.rc_context(_STYLE):
        if axes is None:
            figure.suptitle(finding, x=0.01, ha="left", fontsize=12, fontweight="bold")
        else:
            axes.set_title(finding)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return Picture(buffer.getvalue(), finding)
