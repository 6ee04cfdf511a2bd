"""Guess a curve by one slider a point, then see the measured one over it.

kind = "sketch"
x_label, y_label              of the axes
at = [1, 2, 4, 8]             where the points are, at least two
answer = [3, 6, 12, 24]       the key, one value a point, in `unit`, above 0
unit, right_within, near_within, too_low, too_high
                              as for a number; the point that is furthest off counts,
                              and feedback may name it, {at}
low, high, scale, steps       of the sliders: see `scale.py`
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from ckptlab.course.kinds.number import (
    UNITS,
    Tolerance,
    format_number,
    is_number,
    near_key,
    ratio_of,
    read_position,
)
from ckptlab.course.kinds.question import Answer, Comparison, Question
from ckptlab.course.kinds.scale import Scale
from ckptlab.course.markup import escape
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerError


@dataclass(frozen=True)
class SketchQuestion(Question):
    """A curve of a few points; `values` is the key, one a point, in `unit`."""

    x_label: str
    y_label: str
    at: tuple[float, ...]
    values: tuple[float, ...]
    unit: str
    tolerance: Tolerance
    scale: Scale

    kind = "sketch"

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        question = cls(
            **common,
            x_label=table.text("x_label"),
            y_label=table.text("y_label"),
            at=table.numbers("at"),
            values=table.numbers("answer"),
            unit=table.one_of("unit", UNITS),
            tolerance=Tolerance.load(table),
            scale=Scale.load(table),
        )
        if len(question.at) < 2 or len(set(question.at)) < len(question.at):
            raise table.fault("at", "needs at least two points, all different")
        if len(question.values) != len(question.at):
            raise table.fault(
                "answer",
                f"has {len(question.values)} values for {len(question.at)} points",
            )
        low, high = question.scale.low, question.scale.high
        if not all(value > 0 and low <= value <= high for value in question.values):
            raise table.fault(
                "answer",
                f"is {list(question.values)}; every value must be above 0, and "
                f"between the slider's ends {low} and {high}",
            )
        return question

    def read(self, typed: object) -> Answer:
        if typed is None:
            raise AnswerError(
                "move a slider first, with the mouse or the arrow keys: "
                "your curve is still flat"
            )
        if not isinstance(typed, list) or len(typed) != len(self.at):
            raise AnswerError(f"set all {len(self.at)} sliders")
        return [read_position(self.scale, value, self._show) for value in typed]

    def fits(self, answer: object) -> bool:
        return (
            isinstance(answer, list)
            and len(answer) == len(self.at)
            and all(map(is_number, answer))
        )

    def text(self, answer: Any) -> str:
        return ", ".join(
            f"{self._show(value)} at {at:,.10g}"
            for at, value in zip(self.at, answer, strict=True)
        )

    @property
    def key(self) -> Answer:
        return list(self.values)

    def agree(self, measured: object) -> Answer | None:
        if not isinstance(measured, (list, tuple)) or len(measured) != len(self.at):
            return None
        found = [near_key(m, key) for m, key in zip(measured, self.values, strict=True)]
        return [value for value in found if value is not None] if all(found) else None

    def compare(self, answer: Any, measured: Any) -> Comparison:
        pairs = list(zip(answer, measured, self.at, strict=True))
        mine, value, at = max(pairs, key=lambda pair: ratio_of(pair[0], pair[1]))
        comparison = self.tolerance.compare(mine, value)
        if comparison.outcome == "right":
            return comparison
        return replace(
            comparison,
            sentence=f"{comparison.sentence.rstrip('.')}, "
            f"where your curve is furthest off ({self.x_label} {at:,.10g}).",
            facts={"at": f"{at:,.10g}"},
        )

    def form(self) -> dict[str, Any]:
        return {**self.scale.form(self._show), **self.chart([])}

    def chart(self, curves: list[tuple[str, Any]]) -> dict[str, Any]:
        """Named curves for the browser to draw, as shares of the slider's length."""
        return {
            "xLabel": self.x_label,
            "yLabel": self.y_label,
            "at": [f"{at:,.10g}" for at in self.at],
            "ends": [self._show(self.scale.low), self._show(self.scale.high)],
            "curves": [
                {"name": name, "shares": list(map(self.scale.share, values))}
                for name, values in curves
            ],
        }

    def options_html(self) -> str:
        points = ", ".join(f"{at:,.10g}" for at in self.at)
        return (
            f"<p>Sketch a curve: <em>{escape(self.y_label)}</em> at "
            f"<em>{escape(self.x_label)}</em> {escape(points)}.</p>"
        )

    def remarks(self) -> list[tuple[str, str]]:
        return self.tolerance.remarks()

    def _show(self, value: float) -> str:
        return format_number(self.unit, value)
