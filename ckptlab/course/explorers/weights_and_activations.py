"""Weights beside activations as batch, sequence, width and depth change.

It takes a function that measures, and calls it for the values on the sliders. Its
twin is a table.
"""

from collections.abc import Callable
from functools import cache

from ckptlab.course import palette
from ckptlab.course.explorers.explorer import Chosen, Control, Explorer
from ckptlab.course.markup import escape, table
from ckptlab.units import format_bytes

MeasureWeightsAndActivations = Callable[..., tuple[int, int]]

_CONTROLS = (
    Control("batch", "Batch size", (1, 2, 4, 8, 16, 32, 64), 1),
    Control("sequence", "Sequence (tokens)", (64, 128, 256, 512, 1024, 2048), 128),
    Control("width", "Width (hidden size)", (192, 384, 768, 1536, 3072), 768),
    Control("depth", "Depth (layers)", (2, 4, 8, 12), 4),
)


def explore_weights_and_activations(measure: MeasureWeightsAndActivations) -> Explorer:
    """Sliders for batch, sequence, width and depth; two bars; the crossover marked.

    Args:
        measure: called with batch, sequence, width and depth; returns the bytes
            of the weights and of the activations.
    """
    line = cache(lambda sequence, width: _Lines(measure, sequence, width))

    def draw(chosen: Chosen) -> tuple[str, str]:
        lines = line(chosen["sequence"], chosen["width"])
        weights = lines.weights(chosen["depth"])
        activations = lines.activations(chosen["batch"], chosen["depth"])
        crossover = lines.crossover_batch(chosen["depth"])
        larger, smaller = (
            ("Activations", "weights")
            if activations > weights
            else ("Weights", "activations")
        )
        ratio = max(weights, activations) / min(weights, activations)
        summary = (
            f"Weights {format_bytes(weights)}, "
            f"activations {format_bytes(activations)}. "
            f"{larger} take {ratio:.3g} times the memory of the {smaller}. "
            f"At this shape activations pass the weights at batch size {crossover:,}."
        )
        return _two_bars(weights, activations, crossover, summary), summary

    start = {control.name: control.start for control in _CONTROLS}
    rows = []
    for batch in _CONTROLS[0].values:
        lines = line(start["sequence"], start["width"])
        weights = lines.weights(start["depth"])
        activations = lines.activations(batch, start["depth"])
        rows.append((f"{batch}", format_bytes(weights), format_bytes(activations)))
    shape = ", ".join(f"{name} {n:,}" for name, n in start.items() if name != "batch")
    twin = f"<p>Weights and activations by batch size, at {shape}:</p>\n" + table(
        ("Batch size", "Weights", "Activations"), rows
    )
    return Explorer(draw, controls=_CONTROLS, twin=twin)


class _Lines:
    """Weights and activations at one width and sequence, from three measurements.

    All layers are alike, and so are all texts of a batch: weights grow along a straight
    line with the depth, activations with the depth and with the batch. A model without
    a layer, one with one, and one text more fix the lines, and a step of a slider need
    not wait for twelve layers. What a model keeps whatever the batch, it keeps whatever
    the depth, too.
    """

    def __init__(
        self, measure: MeasureWeightsAndActivations, sequence: int, width: int
    ) -> None:
        shape = {"sequence": sequence, "width": width}
        self._weights, self._activations = measure(batch=1, depth=0, **shape)
        weights, activations = measure(batch=1, depth=1, **shape)
        self._layer_weights = weights - self._weights
        self._layer_activations = activations - self._activations
        self._text = measure(batch=2, depth=0, **shape)[1] - self._activations

    def weights(self, depth: int) -> int:
        return self._weights + self._layer_weights * depth

    def activations(self, batch: int, depth: int) -> int:
        layers = self._layer_activations * depth
        return self._activations + layers + (self._text + layers) * (batch - 1)

    def crossover_batch(self, depth: int) -> int:
        """The smallest batch whose activations take more than the weights."""
        one, two = self.activations(1, depth), self.activations(2, depth)
        return max(1, (self.weights(depth) - one) // (two - one) + 2)


def _two_bars(weights: int, activations: int, crossover: int, summary: str) -> str:
    """SVG of two bars on one scale, and a line where the weights end."""
    left, full, longest = 92, 360, max(weights, activations)
    ends = {
        name: left + full * n / longest
        for name, n in (("w", weights), ("a", activations))
    }
    line = f"activations pass the weights at batch size {crossover:,}"
    anchor = "start" if ends["w"] < left + full / 2 else "end"
    return f"""<svg viewBox="0 0 560 132" role="img" aria-label="{escape(summary)}"
 font-size="14" fill="currentColor">
<text x="{left - 8}" y="31" text-anchor="end">Weights</text>
<rect x="{left}" y="12" width="{ends["w"] - left:.1f}" height="28"
 fill="{palette.WEIGHT}"/>
<text x="{ends["w"] + 8:.1f}" y="31">{format_bytes(weights)}</text>
<text x="{left - 8}" y="75" text-anchor="end">Activations</text>
<rect x="{left}" y="56" width="{ends["a"] - left:.1f}" height="28"
 fill="{palette.KEPT}"/>
<text x="{ends["a"] + 8:.1f}" y="75">{format_bytes(activations)}</text>
<line x1="{ends["w"]:.1f}" x2="{ends["w"]:.1f}" y1="6" y2="104" stroke="currentColor"
 stroke-width="1.5" stroke-dasharray="4 3"/>
<text x="{ends["w"]:.1f}" y="122" text-anchor="{anchor}">{line}</text>
</svg>"""
