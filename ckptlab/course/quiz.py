"""predict(), reveal(), review(), check() and progress(): what a cell calls.

1. A prediction is sealed once committed: the card locks, and the answer is on disk.
2. A reveal stays closed until its prediction is committed, also under Run All, and
   then opens by itself; or the learner opens it anyway, and that is kept too.
3. A reveal compares `measured` with the answer key first, so running a lesson
   proves its keys.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ckptlab.course import summary
from ckptlab.course.card import HtmlCard
from ckptlab.course.grading import check_key
from ckptlab.course.kinds.exercise import Exercise
from ckptlab.course.markup import to_html
from ckptlab.course.prediction_card import PredictionCard
from ckptlab.course.progress_card import ProgressCard
from ckptlab.course.reveal_card import RevealCard
from ckptlab.course.review_cards import ReviewCards
from ckptlab.course.session import SESSION
from ckptlab.errors import AnswerKeyError, QuestionError, UnknownQuestionError


def predict(question_id: str, **facts: object) -> PredictionCard:
    """The card that takes a prediction, and seals it once it is committed.

    Args:
        question_id: a question of the open lesson.
        facts: values that the prompt asks for by name, as text or number.

    Raises:
        UnknownQuestionError: no lesson is open, or it has no such question.
        QuestionError: the prompt asks for a value that is not among `facts`.
    """
    bank, question = SESSION.question(question_id)
    if not question.is_predicted:
        raise UnknownQuestionError(
            f"{question_id!r} is an exercise; show it with check()"
        )
    return PredictionCard(bank, question, facts)


def reveal(question_id: str, *, measured: object = None, **facts: object) -> RevealCard:
    """The card that compares a committed prediction with the measurement.

    Args:
        question_id: a question of the open lesson.
        measured: what was measured: the id of the choice that it supports (a list of
            ids where several hold), a number in the question's unit, ids in their
            order, the values of a curve; nothing for a reflection.
        facts: values that the feedback asks for by name, as text or number.

    Raises:
        AnswerKeyError: the measurement contradicts the answer key.
        UnknownQuestionError: no lesson is open, or it has no such question.
        QuestionError: the feedback asks for a value that is not among `facts`.
    """
    bank, question = SESSION.question(question_id)
    if not question.is_predicted:
        raise AnswerKeyError(
            f"question {question_id!r} is checked by check(), not by reveal()"
        )
    if not question.is_measured:
        if measured is not None:
            raise AnswerKeyError(
                f"question {question_id!r} is a reflection, and nothing is measured; "
                "leave `measured` out"
            )
        return RevealCard(bank, question, None, facts)
    return RevealCard(bank, question, check_key(question, measured), facts)


def review(
    measured: Mapping[str, object], facts: Mapping[str, Mapping[str, object]]
) -> ReviewCards:
    """Every question of the open lesson, first those whose like was missed before.

    Args:
        measured: question -> what was measured, as for `reveal`; a reflection has none.
        facts: question -> the values that its texts ask for by name.

    Raises:
        QuestionError: a question is without its measurement, or lacks a value.
        AnswerKeyError: a measurement contradicts its answer key.
    """
    bank, _ = SESSION.question(next(iter(measured), ""))
    missing = {q.id for q in bank.predicted.values() if q.is_measured} - set(measured)
    if missing:
        raise QuestionError(
            f"review() needs a measurement of {sorted(missing)}; add what was measured"
        )
    cards = {
        question: (
            predict(question, **facts.get(question, {})),
            reveal(
                question, measured=measured.get(question), **facts.get(question, {})
            ),
        )
        for question in bank.predicted
    }
    return ReviewCards(cards, summary.missed_first(bank, SESSION.progress.records()))


def check(
    exercise_id: str, attempt: object, measure: Callable[[Any], float]
) -> HtmlCard:
    """A report on an attempt at an exercise; it never raises over the attempt.

    Args:
        exercise_id: an exercise of the open lesson.
        attempt: the learner's answer, None before the first try.
        measure: for an answer, how far it gets, as a ratio to the target.

    Raises:
        AnswerKeyError: the exercise's own answer does not solve it.
        UnknownQuestionError: no lesson is open, or it has no such exercise.
    """
    _, exercise = SESSION.question(exercise_id)
    if not isinstance(exercise, Exercise):
        raise UnknownQuestionError(
            f"{exercise_id!r} is a question; show it with predict()"
        )
    is_solved, feedback = exercise.attempt(attempt, measure)
    verdict = "✓ Solved" if is_solved else "○ Open" if attempt is None else "✗ Not yet"
    html = f"<p><strong>{verdict}.</strong></p>\n{to_html(feedback)}"
    return HtmlCard(live_html=html, twin_html=html, twin_text=f"{verdict}. {feedback}")


def progress() -> ProgressCard:
    """What you have predicted, how right and how sure you were, what to look at again.

    The card's buttons, and its methods, export what it shows and erase all answers.
    """
    return ProgressCard(SESSION)
