"""An answer -> a grade, and the feedback that fits it.

What is particular to a kind of question is in `kinds/`; here is what all share: the
measurement is checked against the answer key, set beside the answer, and put into
the words of the question bank.
"""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptlab.course.kinds.question import Answer, Outcome, Question, fill
from ckptlab.errors import AnswerKeyError


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


def grade(
    question: Question, answer: Answer, measured: Answer, facts: Mapping[str, Any]
) -> Grade:
    """Compare an answer with what was measured.

    Args:
        question: of a kind that is measured.
        answer: as `question.read` gave it.
        measured: as `check_key` gave it.
        facts: values for the placeholders of the feedback.
    """
    comparison = question.compare(answer, measured)
    shown = question.text(measured)
    known = {**facts, "measured": shown, **comparison.facts}
    texts = [fill(question, "feedback", text, known) for text in comparison.feedback]
    return Grade(
        outcome=comparison.outcome,
        predicted=question.text(answer),
        measured=shown,
        comparison=comparison.sentence,
        feedback="\n\n".join(texts),
    )


def check_key(question: Question, measured: object) -> Answer:
    """The measured value, once it agrees with the answer key.

    Raises:
        AnswerKeyError: it does not, or is no answer to this question at all.
    """
    agreed = question.agree(measured)
    if agreed is None:
        raise AnswerKeyError(
            f"question {question.id!r}: measured {_show(question, measured)}, but the "
            f"answer key says {question.text(question.key)}; if you changed a cell "
            "above, undo it to compare with the question; else correct the question "
            "bank"
        )
    return agreed


def _show(question: Question, value: object) -> str:
    try:
        return question.text(value)
    except (TypeError, ValueError, OverflowError):
        return reprlib.repr(value)
