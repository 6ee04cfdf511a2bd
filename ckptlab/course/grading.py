"""An answer -> a grade, and the feedback that fits it.

Choices are right or wrong, and each wrong one has its own feedback. Numbers are
graded by ratio: memory spans many orders of magnitude, so "half of it" and "twice
it" are equally far off. Near misses are told so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from ckptlab import units
from ckptlab.course.questions import (
    ChoiceQuestion,
    Exercise,
    NumberQuestion,
    Question,
    placeholders,
)
from ckptlab.errors import AnswerError, AnswerKeyError, QuestionError, UnitError

Outcome = Literal["right", "near", "wrong"]
Answer = str | float

KEY_WITHIN = 1.01
"""A measured number may differ from its key by this ratio; keys are written rounded."""


MOST_TIMES_KEY = 100
"""Attempts beyond this many times the key are not measured: memory is finite."""


@dataclass(frozen=True)
class Grade:
    """How an answer compares with the measurement.

    Attributes:
        outcome: "right", "near" or "wrong".
        predicted, measured: the two as plain text.
        comparison: one plain sentence that sets them side by side.
        feedback: Markdown that fits this answer.
    """

    outcome: Outcome
    predicted: str
    measured: str
    comparison: str
    feedback: str


def read_answer(question: Question, typed: object) -> Answer:
    """What the learner chose or typed: a choice id, or a number in the unit asked for.

    Raises:
        AnswerError: it cannot be read; the message says what could.
    """
    if isinstance(question, ChoiceQuestion):
        if question.choice(typed) is None:
            raise AnswerError("choose one of the answers first")
        return str(typed)
    if isinstance(question, NumberQuestion):
        return _read_number(question.unit, str(typed))
    raise AnswerError(f"question {question.id!r} takes no prediction")


def is_answer(question: Question, answer: object) -> bool:
    """Whether a stored answer still fits its question."""
    if isinstance(question, ChoiceQuestion):
        return question.choice(answer) is not None
    return isinstance(question, NumberQuestion) and isinstance(answer, (int, float))


def grade(
    question: Question, answer: Answer, measured: Answer, facts: Mapping[str, Any]
) -> Grade:
    """Compare an answer with what was measured.

    Args:
        question: a choice or a number question.
        answer: as `read_answer` gave it.
        measured: a choice id, or a number in the question's unit.
        facts: values for the placeholders of the feedback.
    """
    facts = {**facts, "measured": format_answer(question, measured)}
    if isinstance(question, ChoiceQuestion):
        return _grade_choice(question, str(answer), str(measured), facts)
    if isinstance(question, NumberQuestion):
        return _grade_number(question, float(answer), float(measured), facts)
    raise AnswerError(f"question {question.id!r} has nothing to compare")


def check_key(question: Question, measured: object) -> Answer:
    """The measured value, once it agrees with the answer key.

    Raises:
        AnswerKeyError: it does not, or is no answer to this question at all.
    """
    if isinstance(question, ChoiceQuestion):
        agrees = measured == question.answer
    elif isinstance(question, NumberQuestion):
        agrees = isinstance(measured, Real) and not isinstance(measured, bool)
        if agrees:
            measured = float(measured)  # type: ignore[arg-type]
            agrees = _ratio(measured, question.answer) <= KEY_WITHIN
    else:
        raise AnswerKeyError(
            f"question {question.id!r} is checked by check(), not by reveal()"
        )
    if not agrees:
        raise AnswerKeyError(
            f"question {question.id!r}: measured {_show(question, measured)}, but the "
            f"answer key says {format_answer(question, question.answer)}; if you "
            "changed a cell above, undo it to compare with the question; else correct "
            "the question bank"
        )
    return measured  # type: ignore[return-value]


def attempt_exercise(
    exercise: Exercise, attempt: object, measure: Callable[[int], float]
) -> tuple[bool, str]:
    """Whether an attempt solves an exercise, and feedback in Markdown that says why.

    Args:
        exercise: asks for the smallest whole number whose measure passes 1.
        attempt: the learner's number; None is "not tried yet".
        measure: how far a number gets, as a ratio to the target.

    Raises:
        AnswerKeyError: the exercise's own answer does not solve it.
    """
    if not _is_smallest(exercise.answer, measure):
        raise AnswerKeyError(
            f"exercise {exercise.id!r}: the answer key {exercise.answer} is not the "
            "smallest number that reaches the target; if you changed a cell above, "
            "undo it, else correct the bank"
        )
    if attempt is None:
        return (
            False,
            "Not tried yet: put your number in place of `None` and run the cell again.",
        )
    if not isinstance(attempt, Integral) or isinstance(attempt, bool) or attempt < 1:
        return (
            False,
            f"`{_quote(attempt)}` is not a whole number from 1 up; write one, such as "
            "`100`.",
        )
    number = int(attempt)
    if number > MOST_TIMES_KEY * exercise.answer:
        return False, "That is far too high to be measured here. Go much lower."
    facts = {"attempt": number, "ratio": f"{measure(number):.3g}"}
    if measure(number) <= 1:
        return False, fill(exercise, "too_low", facts)
    if not _is_smallest(number, measure):
        return False, fill(exercise, "too_high", facts)
    return True, fill(exercise, "explanation", facts)


def format_answer(question: Question, answer: object) -> str:
    """An answer as plain text: the text of a choice, a number with its unit."""
    if isinstance(question, ChoiceQuestion):
        choice = question.choice(answer)
        return choice.text if choice else repr(answer)
    if isinstance(question, NumberQuestion):
        return _FORMATS[question.unit](float(answer))  # type: ignore[arg-type]
    return str(answer)


def fill(
    question: Question, key: str, facts: Mapping[str, Any], text: str | None = None
) -> str:
    """A text of a question with its placeholders filled.

    Raises:
        QuestionError: the text asks for a value that the lesson did not pass.
    """
    template: str = getattr(question, key) if text is None else text
    missing = placeholders(template) - set(facts)
    if missing:
        raise QuestionError(
            f"question {question.id!r}, key {key!r} asks for {sorted(missing)}; "
            f"pass them to predict() or reveal(), or use one of {sorted(facts)}"
        )
    return template.format(**facts)


def _grade_choice(
    question: ChoiceQuestion, answer: str, measured: str, facts: Mapping[str, Any]
) -> Grade:
    is_right = answer == measured
    choice = question.choice(answer)
    predicted = format_answer(question, answer)
    shown = format_answer(question, measured)
    return Grade(
        outcome="right" if is_right else "wrong",
        predicted=predicted,
        measured=shown,
        comparison="Your prediction holds."
        if is_right
        else "The measurement says otherwise.",
        feedback=fill(question, "feedback", facts, text=choice.feedback)
        if choice
        else "",
    )


def _grade_number(
    question: NumberQuestion, answer: float, measured: float, facts: Mapping[str, Any]
) -> Grade:
    ratio = _ratio(answer, measured)
    side = "too_low" if answer < measured else "too_high"
    direction = side.replace("_", " ")
    outcome: Outcome = (
        "right"
        if ratio <= question.right_within
        else "near"
        if ratio <= question.near_within
        else "wrong"
    )
    comparison = {
        "right": "Your prediction holds.",
        "near": f"Close: {direction} by a factor of {_short(ratio)}.",
        "wrong": f"{direction.capitalize()} by a factor of {_short(ratio)}.",
    }[outcome]
    return Grade(
        outcome=outcome,
        predicted=format_answer(question, answer),
        measured=format_answer(question, measured),
        comparison=comparison,
        feedback="" if outcome == "right" else fill(question, side, facts),
    )


def _is_smallest(number: int, measure: Callable[[int], float]) -> bool:
    return measure(number) > 1 and (number == 1 or measure(number - 1) <= 1)


def _ratio(one: float, other: float) -> float:
    """How many times the larger is the smaller; infinite when only one of them is 0."""
    low, high = sorted((abs(one), abs(other)))
    if one * other < 0 or (low == 0 and high > 0):
        return float("inf")
    return 1.0 if high == 0 else high / low


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _show(question: Question, value: object) -> str:
    try:
        return format_answer(question, value)
    except (TypeError, ValueError):
        return repr(value)


def _quote(value: object) -> str:
    """A value as short text that may stand in Markdown's code marks."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of too many digits to print
        text = "a huge number"
    return text[:40].replace("`", "'")


def _read_number(unit: str, typed: str) -> float:
    if not typed.strip():
        raise AnswerError(f"type a number first, such as {_SAMPLES[unit]!r}")
    try:
        return float(_PARSERS[unit](typed.strip()))
    except (UnitError, ValueError, OverflowError):
        raise AnswerError(
            f"{typed.strip()[:40]!r} cannot be read; type {_WANTED[unit]}, "
            f"such as {_SAMPLES[unit]!r}"
        ) from None


def _parse_plain(typed: str) -> float:
    bare = typed.rstrip("x×").rstrip().lower().removesuffix("times").rstrip()
    return units.parse_number(bare)


_PARSERS: dict[str, Callable[[str], float]] = {
    "bytes": units.parse_bytes,
    "seconds": units.parse_seconds,
    "FLOPs": units.parse_flops,
    "times": _parse_plain,
    "count": _parse_plain,
}
_FORMATS: dict[str, Callable[[float], str]] = {
    "bytes": units.format_bytes,
    "seconds": units.format_seconds,
    "FLOPs": units.format_flops,
    "times": lambda number: f"{_short(number)} times",
    "count": lambda number: f"{number:,.10g}",
}
_SAMPLES = {
    "bytes": "64 MiB",
    "seconds": "12 ms",
    "FLOPs": "2.5 TFLOPs",
    "times": "2.5",
    "count": "12",
}
_WANTED = {
    "bytes": "an amount of memory with its unit",
    "seconds": "a duration with its unit",
    "FLOPs": "a number of operations with its unit",
    "times": "how many times, as a number",
    "count": "a number of at least 0",
}


def sample(question: NumberQuestion) -> str:
    """An answer that would be understood, to show in the empty field."""
    return _SAMPLES[question.unit]
