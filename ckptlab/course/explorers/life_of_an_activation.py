"""One activation of a checkpointed network, moment by moment, from a measured trace.

It takes when each layer's activation is in memory, as numbers of operations. Its twin
is a table of the moments.

Simplified: a layer is one box, and what it makes on the way to its activation is not
drawn, nor are gradients and weights; the live bytes hold them all.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ckptlab.course import palette
from ckptlab.course.explorers.explorer import Chosen, Control, Explorer
from ckptlab.course.markup import escape, table
from ckptlab.units import format_bytes

Life = tuple[int, int]
"""First operation after which it is in memory, first after which it is gone."""

_TITLES = {
    "produced": "produced",
    "discarded": "discarded",
    "backward": "the backward pass starts",
    "again": "produced again",
    "used": "used for the last time",
    "freed": "freed",
}
_STORIES = {
    "produced": "{layer} has run in the forward pass, and its activation is there.",
    "discarded": (
        "The layer after it has read the activation of {name}. The checkpoint does "
        "not keep it, so its memory is free again."
    ),
    "backward": "The activation of {name} is not in memory, and not stored elsewhere.",
    "again": (
        "The backward pass has reached the checkpoint, which runs its layers once more "
        "from its kept input. {layer} has made its activation a second time."
    ),
    "used": (
        "The backward pass has taken the last gradient that needs the activation of "
        "{name}."
    ),
    "freed": "Nothing needs the activation of {name} any more. It is gone for good.",
}
_SIMPLIFIED = (
    "Simplified: a layer is one box. What it computes on the way, gradients and",
    "weights are not drawn as squares. The curve of live memory holds them all.",
)
_COLORS = {
    "kept": palette.KEPT,
    "made": palette.DISCARDED,
    "again": palette.RECOMPUTED,
}
_WIDTH, _CURVE_TOP, _CURVE_BOTTOM = 560, 156, 222


class _Trace(NamedTuple):
    """What was measured."""

    lives: Mapping[str, Sequence[Life]]
    followed: str
    moments: Mapping[str, int]
    live_bytes: Sequence[int]


def explore_life_of_an_activation(
    lives: Mapping[str, Sequence[Life]],
    *,
    followed: str,
    moments: Mapping[str, int],
    live_bytes: Sequence[int],
) -> Explorer:
    """Buttons for back and next through the moments of one activation's life.

    Args:
        lives: layer, in order -> when its activation is in memory: the operation that
            made it and the first at which it is gone; twice if it is made twice.
        followed: the layer whose activation the moments are about.
        moments: "produced", "discarded", "backward" (the backward pass starts),
            "again", "used" and "freed" -> the number of the operation.
        live_bytes: after each operation, the first one being the start.
    """
    trace = _Trace(lives, followed, moments, live_bytes)
    names = list(_TITLES)

    def draw(chosen: Chosen) -> tuple[str, str]:
        summary = _sentence(trace, chosen["moment"])
        return _picture(trace, chosen["moment"], summary), summary

    titles = [f"{n}. {title}" for n, title in enumerate(_TITLES.values(), start=1)]
    control = Control("moment", "Moment", names, names[0], titles, kind="steps")
    rows = [
        (
            title,
            f"{moments[name]}",
            _list(_in_memory(trace, moments[name])) or "none",
            format_bytes(live_bytes[moments[name]]),
        )
        for name, title in zip(names, titles, strict=True)
    ]
    header = ("Moment", "Operation", "Activations in memory", "Live bytes, all kinds")
    twin = (
        f"<p>The life of the activation of {escape(_list([followed]))}:</p>\n"
        f"{table(header, rows)}\n<p>{' '.join(_SIMPLIFIED)}</p>"
    )
    return Explorer(draw, controls=[control], twin=twin)


def _state(trace: _Trace, layer: str, step: int) -> str:
    """Of a layer's activation after that operation, in a word or two."""
    lives = trace.lives[layer]
    for number, (made, freed) in enumerate(lives):
        if made <= step < freed:
            is_kept = freed > trace.moments["backward"]
            return "again" if number else "kept" if is_kept else "made"
    if step < lives[0][0]:
        return "not yet"
    return "gone" if step < lives[-1][0] else "freed"


def _in_memory(trace: _Trace, step: int) -> list[str]:
    return [layer for layer in trace.lives if _state(trace, layer, step) in _COLORS]


def _list(names: Sequence[str]) -> str:
    """Such as "layer 1, layer 2 and layer 3"."""
    words = [name[0].lower() + name[1:] for name in names]
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def _sentence(trace: _Trace, moment: str) -> str:
    step = trace.moments[moment]
    there = _list(_in_memory(trace, step))
    name = _list([trace.followed])
    story = _STORIES[moment].format(layer=trace.followed, name=name)
    return (
        f"After operation {step} of {len(trace.live_bytes) - 1}: {_TITLES[moment]}. "
        f"{story} "
        f"In memory now: {f'the activations of {there}' if there else 'none of them'}. "
        f"Live in all: {format_bytes(trace.live_bytes[step])}."
    )


def _picture(trace: _Trace, moment: str, summary: str) -> str:
    """SVG of the layers with their activations, over the curve of live memory."""
    step = trace.moments[moment]
    return f"""<svg viewBox="0 0 {_WIDTH} 332" role="img" aria-label="{escape(summary)}"
 font-size="14" fill="currentColor">
{_layers(trace, step)}
{_curve(trace, step)}
<text x="8" y="306">{_SIMPLIFIED[0]}</text>
<text x="8" y="324">{_SIMPLIFIED[1]}</text>
</svg>"""


def _layers(trace: _Trace, step: int) -> str:
    pitch = _WIDTH / len(trace.lives)
    marks = []
    inside = []
    for number, layer in enumerate(trace.lives):
        middle, state = pitch * (number + 0.5), _state(trace, layer, step)
        if len(trace.lives[layer]) > 1:
            inside.append(middle)
        weight = "bold" if layer == trace.followed else "normal"
        color = _COLORS.get(state)
        fill = f'fill="{color}"' if color else 'fill="none" stroke-dasharray="4 3"'
        stroke = 3 if layer == trace.followed else 1
        marks.append(
            f'<rect x="{middle - 36:.1f}" y="34" width="72" height="28" rx="4" '
            f'fill="none" stroke="currentColor" stroke-width="{stroke}"/>'
            f'<text x="{middle:.1f}" y="53" text-anchor="middle" '
            f'font-weight="{weight}">{escape(layer)}</text>'
            f'<rect x="{middle - 13:.1f}" y="76" width="26" height="26" {fill} '
            f'stroke="currentColor" stroke-width="{stroke}"/>'
            f'<text x="{middle:.1f}" y="120" text-anchor="middle" '
            f'font-weight="{weight}">{state}</text>'
        )
        if number:
            start = middle - pitch + 37
            marks.append(
                f'<path d="M{start:.1f} 48H{middle - 38:.1f}m-5 -4l5 4l-5 4" '
                'fill="none" stroke="currentColor"/>'
            )
    if inside:
        left, right = inside[0] - 43, inside[-1] + 43
        marks.append(
            f'<rect x="{left:.1f}" y="24" width="{right - left:.1f}" height="104" '
            'rx="8" fill="none" stroke="currentColor" stroke-dasharray="2 3"/>'
            f'<text x="{left:.1f}" y="16">inside the checkpoint</text>'
        )
    return "\n".join(marks)


def _curve(trace: _Trace, step: int) -> str:
    """Live bytes as a line, where we are on it, and the followed one's lives."""
    left, right = 8, _WIDTH - 8
    last, most = len(trace.live_bytes) - 1, max(trace.live_bytes)

    def x(at: int) -> float:
        return left + (right - left) * min(at, last) / last

    def y(n_bytes: int) -> float:
        return _CURVE_BOTTOM - (_CURVE_BOTTOM - _CURVE_TOP) * n_bytes / most

    points = [f"M{x(0):.1f} {y(trace.live_bytes[0]):.1f}"]
    points += [
        f"H{x(at):.1f}V{y(n):.1f}" for at, n in enumerate(trace.live_bytes) if at
    ]
    starts = x(trace.moments["backward"])
    bars = [
        f'<rect x="{x(made):.1f}" y="232" width="{x(freed) - x(made):.1f}" '
        f'height="12" fill="{color}"/>'
        for (made, freed), color in zip(
            trace.lives[trace.followed],
            (_COLORS["made"], _COLORS["again"]),
            strict=False,
        )
    ]
    return f"""<path d="{"".join(points)}" fill="none" stroke="currentColor"/>
<line x1="{left}" x2="{right}" y1="{_CURVE_BOTTOM}" y2="{_CURVE_BOTTOM}"
 stroke="currentColor" stroke-width="0.5"/>
<text x="{left}" y="150">live memory (at most {format_bytes(most)})</text>
{"".join(bars)}
<line x1="{starts:.1f}" x2="{starts:.1f}" y1="{_CURVE_TOP}" y2="262"
 stroke="currentColor" stroke-dasharray="2 3"/>
<line x1="{x(step):.1f}" x2="{x(step):.1f}" y1="{_CURVE_TOP - 4}" y2="250"
 stroke="currentColor" stroke-width="2"/>
<circle cx="{x(step):.1f}" cy="{y(trace.live_bytes[step]):.1f}" r="5"/>
<text x="{left}" y="278">forward</text>
<text x="{starts:.1f}" y="278">backward pass</text>
<text x="{right}" y="278" text-anchor="end">bars: {escape(_list([trace.followed]))}
 in memory</text>"""
