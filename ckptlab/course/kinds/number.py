"""Type a number, or set it by a slider; graded by ratio.

Memory spans many orders of magnitude, so "half of it" and "twice it" are equally far
off. Near misses are told so.

    kind = "number"
    unit = "bytes"                one of UNITS
    answer                        the key, in that unit, above 0
    right_within, near_within     ratios to the measured value; 1.1 and 2 unless told
    too_low, too_high             feedback

    kind = "slider"               all of these, and
    low, high, scale, steps       of the slider: see `scale.py`
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, Self

from ckptlab import units
from ckptlab.course.kinds.question import Answer, Comparison, Outcome, Question
from ckptlab.course.kinds.scale import Scale
from ckptlab.course.markup import escape
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerError, UnitError

UNITS = ("bytes", "seconds", "FLOPs", "times", "count", "percent")
"""Units of a number question: "times" is a ratio, "count" a bare number."""

KEY_WITHIN = 1.01
"""A measured number may differ from its key by this ratio; keys are written rounded."""

MOST = 1e30
"""More of anything than could ever be measured."""

MOST_CHARACTERS = 60
"""No number needs more; longer texts are refused before anything looks at them."""


@dataclass(frozen=True)
class Tolerance:
    """How near is near: ratios to the measured value, and what to say beyond.

    Attributes:
        right_within: an answer is right up to this ratio.
        near_within: and near up to this one.
        too_low, too_high: feedback for answers that are off.
    """

    right_within: float
    near_within: float
    too_low: str
    too_high: str

    @classmethod
    def load(cls, table: Table) -> Self:
        """Read its four keys."""
        tolerance = cls(
            right_within=table.number("right_within", default=1.1),
            near_within=table.number("near_within", default=2.0),
            too_low=table.template("too_low"),
            too_high=table.template("too_high"),
        )
        if not 1 <= tolerance.right_within <= tolerance.near_within:
            raise table.fault(
                "right_within", "must be at least 1 and at most near_within"
            )
        return tolerance

    def compare(self, answer: float, measured: float) -> Comparison:
        """Set two numbers side by side."""
        ratio = ratio_of(answer, measured)
        is_low = answer < measured
        direction = "too low" if is_low else "too high"
        outcome: Outcome = (
            "right"
            if ratio <= self.right_within
            else "near"
            if ratio <= self.near_within
            else "wrong"
        )
        sentence = f"{direction} by a factor of {short(ratio)}.".capitalize()
        if outcome == "right":
            sentence = "Your prediction holds."
        elif ratio == inf:
            sentence = (
                f"{direction}: one of the two is 0, and the other is not.".capitalize()
            )
        side = self.too_low if is_low else self.too_high
        return Comparison(outcome, sentence, () if outcome == "right" else (side,))

    def remarks(self) -> list[tuple[str, str]]:
        """For the static twin."""
        return [("Too low", self.too_low), ("Too high", self.too_high)]


@dataclass(frozen=True)
class NumberQuestion(Question):
    """A question for a number; `answer` is the key, in `unit`."""

    unit: str
    answer: float
    tolerance: Tolerance

    kind = "number"

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        return cls(**common, **cls._keys(table))

    @staticmethod
    def _keys(table: Table) -> dict[str, Any]:
        answer = table.number("answer")
        if answer <= 0:
            raise table.fault("answer", f"is {answer}; a ratio needs one above 0")
        return {
            "unit": table.one_of("unit", UNITS),
            "answer": answer,
            "tolerance": Tolerance.load(table),
        }

    def read(self, typed: object) -> Answer:
        return read_number(self.unit, typed)

    def fits(self, answer: object) -> bool:
        return is_number(answer)

    def text(self, answer: Any) -> str:
        return format_number(self.unit, float(answer))

    @property
    def key(self) -> Answer:
        return self.answer

    def agree(self, measured: object) -> Answer | None:
        return near_key(measured, self.answer)

    def compare(self, answer: Any, measured: Any) -> Comparison:
        return self.tolerance.compare(float(answer), float(measured))

    def form(self) -> dict[str, Any]:
        hint = {"times": "times", "count": "", "percent": "%"}
        return {
            "sample": SAMPLES[self.unit],
            "unit": hint.get(self.unit, "with its unit"),
        }

    def remarks(self) -> list[tuple[str, str]]:
        return self.tolerance.remarks()


@dataclass(frozen=True)
class SliderQuestion(NumberQuestion):
    """A number that is set by a slider: an estimate, where digits would be a show."""

    scale: Scale

    kind = "slider"

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        keys = cls._keys(table)
        scale = Scale.load(table)
        if not scale.low <= keys["answer"] <= scale.high:
            raise table.fault(
                "answer", f"is {keys['answer']}, which the slider does not reach"
            )
        return cls(**common, **keys, scale=scale)

    def read(self, typed: object) -> Answer:
        if typed is None:
            raise AnswerError("move the slider first, with the mouse or the arrow keys")
        return read_position(self.scale, typed, self.text)

    def form(self) -> dict[str, Any]:
        return self.scale.form(self.text)

    def options_html(self) -> str:
        low, high = self.text(self.scale.low), self.text(self.scale.high)
        return f"<p>Between {escape(low)} and {escape(high)}.</p>"


def is_number(value: object) -> bool:
    """Whether a value is a number that can be compared: finite, of 0 or more."""
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 0 <= value < 1e300
    )


def near_key(measured: object, key: float) -> float | None:
    """A measured number as a float, or None when it is not near its key."""
    if not isinstance(measured, Real) or isinstance(measured, bool):
        return None
    try:
        value = float(measured)
    except OverflowError:  # a whole number beyond all floats
        return None
    return value if ratio_of(value, key) <= KEY_WITHIN else None


def ratio_of(one: float, other: float) -> float:
    """How many times the larger is the smaller; infinite when only one of them is 0."""
    low, high = sorted((abs(one), abs(other)))
    if one < 0 < other or other < 0 < one or (low == 0 and high > 0):
        return inf
    return 1.0 if high == 0 else high / low


def short(number: float) -> str:
    """Three significant digits, and no powers of ten where people would read them."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def format_number(unit: str, number: float) -> str:
    """A number as plain text, with its unit."""
    return _FORMATS[unit](number)


def read_position(scale: Scale, typed: object, show: Callable[[float], str]) -> float:
    """A slider's position.

    Raises:
        AnswerError: no number between the slider's ends.
    """
    if is_number(typed) and scale.low <= typed <= scale.high:  # type: ignore[operator]
        return float(typed)  # type: ignore[arg-type]
    raise AnswerError(
        f"{_quote(_to_text(typed))} is not on the slider; choose between "
        f"{show(scale.low)} and {show(scale.high)}"
    )


def read_number(unit: str, typed: object) -> float:
    """A number as learners type it, in the unit asked for.

    Raises:
        AnswerError: it cannot be read; the message says what could.
    """
    text = _to_text(typed)
    if not text or typed is None:
        raise AnswerError(f"type a number first, such as {SAMPLES[unit]!r}")
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError
        number = float(_PARSERS[unit](_point_for_comma(text)))
    except (UnitError, ValueError, OverflowError):
        raise AnswerError(
            f"{_quote(text)} cannot be read; type {_WANTED[unit]}, "
            f"such as {SAMPLES[unit]!r}"
        ) from None
    if not 0 <= number <= MOST:
        raise AnswerError(
            f"{_quote(text)} is beyond anything that could be measured; type less"
        )
    return number


def _to_text(typed: object) -> str:
    try:
        return str(typed).strip()
    except ValueError:  # a whole number of too many digits to print
        return "a huge number"


def _quote(text: str) -> str:
    """The start of a text in quotes; what cannot be seen is shown as a �."""
    return repr("".join(c if c.isprintable() else "�" for c in text[:40]))


# A comma before three digits groups thousands; before any other number of them, or
# after a lone 0, it can only be a decimal comma.
_DECIMAL_COMMA = re.compile(r"(0(?=,)|\d+(?=,(?!\d{3}(?!\d)))),(\d+)(?![\d.,])")


def _point_for_comma(text: str) -> str:
    match = _DECIMAL_COMMA.match(text)
    if match is None:
        return text
    return f"{match[1]}.{match[2]}{text[match.end() :]}"


def _parse_plain(typed: str) -> float:
    bare = typed.rstrip("x×%").rstrip().lower().removesuffix("times").rstrip()
    return units.parse_number(bare)


_PARSERS: dict[str, Callable[[str], float]] = {
    "bytes": units.parse_bytes,
    "seconds": units.parse_seconds,
    "FLOPs": units.parse_flops,
    "times": _parse_plain,
    "count": _parse_plain,
    "percent": _parse_plain,
}
_FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": units.format_bytes,
    "seconds": units.format_seconds,
    "FLOPs": units.format_flops,
    "times": lambda number: f"{short(number)} times",
    "count": lambda number: f"{number:,.10g}",
    "percent": lambda number: f"{short(number)} %",
}
SAMPLES = {
    "bytes": "64 MiB",
    "seconds": "12 ms",
    "FLOPs": "2.5 TFLOPs",
    "times": "2.5",
    "count": "12",
    "percent": "30",
}
"""An answer that would be understood, to show in the empty field."""
_WANTED = {
    "bytes": "an amount of memory with its unit",
    "seconds": "a duration with its unit",
    "FLOPs": "a number of operations with its unit",
    "times": "how many times, as a number",
    "count": "a number of at least 0",
    "percent": "a percentage, as a number",
}
