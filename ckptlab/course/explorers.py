"""The interactive pictures: sliders in the browser, numbers measured in the kernel.

An explorer takes a function that measures, calls it for the values on the sliders,
and draws the result as SVG in the colours of the page. Its twin is a table.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import traitlets

from ckptlab.course import palette
from ckptlab.course.card import Card
from ckptlab.course.markup import escape, table
from ckptlab.units import format_bytes

MeasureWeightsAndActivations = Callable[..., tuple[int, int]]

_SLIDERS: dict[str, tuple[str, Sequence[int], int]] = {
    # name: (label, values, start)
    "batch": ("Batch size", (1, 2, 4, 8, 16, 32, 64), 1),
    "sequence": ("Sequence (tokens)", (64, 128, 256, 512, 1024, 2048), 128),
    "width": ("Width (hidden size)", (192, 384, 768, 1536, 3072), 768),
    "depth": ("Depth (layers)", (2, 4, 8, 12), 4),
}


class Explorer(Card):
    """Sliders, a picture, and one sentence that says what it shows.

    Attributes:
        chosen: slider name -> value; setting it measures and draws anew.
        picture: SVG.
        summary: plain text.
    """

    controls: Any = traitlets.List().tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    picture = traitlets.Unicode().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        draw: Callable[[dict[str, int]], tuple[str, str]],
        *,
        sliders: Mapping[str, tuple[str, Sequence[int], int]],
        twin: str,
    ) -> None:
        controls = [
            {
                "name": name,
                "label": label,
                "values": list(values),
                "texts": [f"{v:,}" for v in values],
            }
            for name, (label, values, _) in sliders.items()
        ]
        start = {name: start for name, (_, _, start) in sliders.items()}
        super().__init__(kind="explorer", controls=controls, chosen=start)
        self._draw = draw
        self._twin = twin
        self._refresh()
        self.observe(self._refresh, "chosen")

    def twin_html(self) -> str:
        return self._twin

    def twin_text(self) -> str:
        return self.summary

    def _refresh(self, _: object = None) -> None:
        try:
            self.picture, self.summary = self._draw(dict(self.chosen))
        except Exception as error:  # shown where the learner looks, not in a log
            self.summary = f"This could not be measured: {error}"


def explore_weights_and_activations(measure: MeasureWeightsAndActivations) -> Explorer:
    """Sliders for batch, sequence, width and depth; two bars; the crossover marked.

    Args:
        measure: called with batch, sequence, width and depth; returns the bytes
            of the weights and of the activations.
    """
    measured = cache(measure)

    def crossover_batch(sequence: int, width: int, depth: int) -> int:
        """Where activations pass the weights: along a line, then made sure of."""
        shape = {"sequence": sequence, "width": width, "depth": depth}
        weights, one = measured(batch=1, **shape)
        _, two = measured(batch=2, **shape)
        batch = max(1, (weights - one) // (two - one) + 2)
        while batch > 1 and measured(batch=batch - 1, **shape)[1] > weights:
            batch -= 1
        return batch

    def draw(chosen: dict[str, int]) -> tuple[str, str]:
        weights, activations = measured(**chosen)
        shape = {name: value for name, value in chosen.items() if name != "batch"}
        crossover = crossover_batch(**shape)
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

    rows = []
    for batch in _SLIDERS["batch"][1]:
        shape = {name: start for name, (_, _, start) in _SLIDERS.items()} | {
            "batch": batch
        }
        weights, activations = measured(**shape)
        rows.append((f"{batch}", format_bytes(weights), format_bytes(activations)))
    start = ", ".join(
        f"{name} {s:,}" for name, (_, _, s) in _SLIDERS.items() if name != "batch"
    )
    twin = f"<p>Weights and activations by batch size, at {start}:</p>\n" + table(
        ("Batch size", "Weights", "Activations"), rows
    )
    return Explorer(draw, sliders=_SLIDERS, twin=twin)


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
