"""Large transformers against the memory of one GPU, technique by technique.

Pure arithmetic: bytes of activations, weights and optimizer state by the formulas of
`ckptlab.planning.transformer`. Weights and what belongs to them are taken as shared
evenly among the GPUs of a model. Its twin is a table of all models and techniques.

Left out: the technique "none". No GPU would then hold a share of a layer, and the
weights alone would be far too much.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ckptlab.course import palette
from ckptlab.course.explorers.explorer import Chosen, Control, Explorer
from ckptlab.course.markup import escape, table
from ckptlab.planning.transformer import (
    Technique,
    TransformerShape,
    activation_bytes_first_stage,
    training_state_bytes,
)
from ckptlab.units import format_bytes, parse_bytes

_TEXTS: dict[Technique, tuple[str, str]] = {
    "tensor": ("Tensor parallelism", "Tensor parallelism alone"),
    "tensor+sequence": (
        "+ sequence parallelism",
        "Tensor and sequence parallelism",
    ),
    "tensor+selective": (
        "+ selective recomputation",
        "Tensor parallelism and selective recomputation",
    ),
    "tensor+sequence+selective": (
        "+ sequence + selective",
        "Tensor and sequence parallelism and selective recomputation",
    ),
    "full": (
        "+ full recomputation",
        "Tensor parallelism and full recomputation",
    ),
}
"""Technique -> label of its bar, which adds to the first; and its full name."""

_LEFT, _LONGEST, _TOP, _STEP = 204, 270, 62, 34
"""Where bars begin, the longest one, where the first is, and how far to the next."""


@dataclass(frozen=True)
class _Need:
    """Bytes that one GPU of the first pipeline stage must hold."""

    state_bytes: int
    activation_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.state_bytes + self.activation_bytes


def explore_models_against_a_gpu(
    shapes: Mapping[str, TransformerShape],
    *,
    interleaved_stages: Mapping[str, int] | None = None,
    gpu_memory: str = "80 GB",
) -> Explorer:
    """Choose a model and a technique; one bar a technique; a line where the GPU ends.

    Args:
        shapes: name -> sizes, tensor- and pipeline-parallel sizes included.
        interleaved_stages: name -> pipeline stages a GPU; 1 where none is given.
        gpu_memory: what one GPU holds.

    Source: Korthikanti et al. 2022, arXiv:2205.05198, Table 2 and Section 4.3.
    """
    gpu_bytes = parse_bytes(gpu_memory)
    stages = dict(interleaved_stages or {})
    needs = {
        name: {
            technique: _need(shape, technique, stages.get(name, 1))
            for technique in _TEXTS
        }
        for name, shape in shapes.items()
    }
    longest = max(
        need.total_bytes
        for by_technique in needs.values()
        for need in by_technique.values()
    )

    def draw(chosen: Chosen) -> tuple[str, str]:
        model, technique = chosen["model"], chosen["technique"]
        need = needs[model][technique]
        total, gap = need.total_bytes, gpu_bytes - need.total_bytes
        verdict = f"does not fit, by {format_bytes(-gap)}"
        if gap >= 0:
            verdict = f"fits, with {format_bytes(gap)} to spare"
        summary = (
            f"{model}: {_TEXTS[technique][1]}. One GPU must hold "
            f"{format_bytes(need.state_bytes)} of weights, gradients and optimizer "
            f"state and {format_bytes(need.activation_bytes)} of activations, "
            f"{format_bytes(total)} in all. On a GPU with {gpu_memory} that {verdict}."
        )
        line = (f"GPU with {gpu_memory} = {format_bytes(gpu_bytes)}", gpu_bytes)
        scale = _LONGEST / max(longest, gpu_bytes)
        return _bars(needs[model], technique, line, scale, summary), summary

    controls = (
        Control("model", "Model", tuple(shapes), next(iter(shapes)), kind="choice"),
        Control(
            "technique",
            "Technique",
            tuple(_TEXTS),
            "tensor",
            texts=[text for _, text in _TEXTS.values()],
            kind="choice",
        ),
    )
    return Explorer(draw, controls=controls, twin=_twin(needs, gpu_memory, gpu_bytes))


def _need(shape: TransformerShape, technique: Technique, stages: int) -> _Need:
    n_gpus = shape.tensor_parallel * shape.pipeline_parallel
    return _Need(
        sum(training_state_bytes(shape).values()) // n_gpus,
        activation_bytes_first_stage(shape, technique, interleaved_stages=stages),
    )


def _twin(
    needs: Mapping[str, Mapping[Technique, _Need]], gpu_memory: str, gpu_bytes: int
) -> str:
    rows = []
    for technique, (_, text) in _TEXTS.items():
        cells = [text]
        for by_technique in needs.values():
            n_bytes = by_technique[technique].total_bytes
            fits = "fits" if n_bytes <= gpu_bytes else "too much"
            cells.append(f"{format_bytes(n_bytes)}, {fits}")
        rows.append(cells)
    return (
        "<p>What one GPU must hold, weights, gradients and optimizer state included. "
        f"A GPU with {escape(gpu_memory)} has {format_bytes(gpu_bytes)}:</p>\n"
    ) + table(("Technique", *needs), rows)


def _bars(
    needs: Mapping[Technique, _Need],
    chosen: Technique,
    line: tuple[str, int],
    scale: float,
    summary: str,
) -> str:
    """SVG of a bar for each technique, state then activations, and the GPU's end."""
    rows = "".join(
        _bar(technique, need, scale, _TOP + _STEP * row, technique == chosen)
        for row, (technique, need) in enumerate(needs.items())
    )
    line_text, gpu_bytes = line
    end, bottom = _LEFT + gpu_bytes * scale, _TOP + _STEP * len(needs)
    return f"""<svg viewBox="0 0 560 {bottom + 6}" role="img"
 aria-label="{escape(summary)}" font-size="14" fill="currentColor">
<rect x="6" y="4" width="14" height="14" fill="{palette.WEIGHT}"/>
<text x="26" y="16">Weights, gradients, optimizer</text>
<rect x="252" y="4" width="14" height="14" fill="{palette.KEPT}"/>
<text x="272" y="16">Activations</text>
<text x="554" y="16" text-anchor="end">In all</text>
{rows}<line x1="{end:.1f}" x2="{end:.1f}" y1="50" y2="{bottom}"
 stroke="currentColor" stroke-width="1.5" stroke-dasharray="4 3"/>
<text x="{end:.1f}" y="44" text-anchor="middle">{escape(line_text)}</text>
</svg>"""


def _bar(
    technique: Technique, need: _Need, scale: float, top: int, is_chosen: bool
) -> str:
    weight = ' font-weight="bold"' if is_chosen else ""
    label = ("▸ " if is_chosen else "") + _TEXTS[technique][0]
    state, kept = need.state_bytes * scale, need.activation_bytes * scale
    return f"""<text x="{_LEFT - 8}" y="{top + 17}" text-anchor="end"{weight}>
{escape(label)}</text>
<rect x="{_LEFT}" y="{top}" width="{state:.1f}" height="24" fill="{palette.WEIGHT}"/>
<rect x="{_LEFT + state:.1f}" y="{top}" width="{kept:.1f}" height="24"
 fill="{palette.KEPT}"/>
<text x="554" y="{top + 17}" text-anchor="end"{weight}>{
        format_bytes(need.total_bytes)
    }</text>
"""
