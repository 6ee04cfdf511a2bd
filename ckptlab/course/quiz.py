"""predict(), reveal(), check() and progress() on the screen.

1. A prediction is sealed once committed: the card locks, and the answer is on disk.
2. A reveal stays closed until its prediction is committed, also under Run All, and
   then opens by itself; it holds no measured value before that.
3. A reveal compares `measured` with the answer key first, so running a lesson
   proves its keys.

The lesson that is open, and the cards that wait, are the state of one session: a
notebook is one learner in one lesson.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import traitlets

from ckptlab.course import grading
from ckptlab.course.card import Card, HtmlCard
from ckptlab.course.grading import Answer, Grade
from ckptlab.course.markup import details, escape, table, to_html
from ckptlab.course.progress import AnswerBook, CommittedAnswer
from ckptlab.course.questions import (
    Bank,
    ChoiceQuestion,
    Exercise,
    NumberQuestion,
    Question,
)
from ckptlab.errors import AnswerError, UnknownQuestionError

CONFIDENCES = {20: "20 %, a guess", 50: "50 %", 80: "80 %", 95: "95 %, nearly certain"}
_OUTCOMES = {"right": "✓ Right", "near": "≈ Close", "wrong": "✗ Not so"}


@dataclass
class _Session:
    bank: Bank | None = None
    book: AnswerBook = field(default_factory=AnswerBook)
    waiting: dict[str, "weakref.WeakSet[RevealCard]"] = field(
        default_factory=lambda: defaultdict(weakref.WeakSet)
    )

    def question(self, question_id: str) -> tuple[Bank, Question]:
        if self.bank is None:
            raise UnknownQuestionError(
                'no lesson is open; run its first cell, lesson("…"), before this one'
            )
        return self.bank, self.bank.question(question_id)

    def standing_answer(self, bank: Bank, question: Question) -> CommittedAnswer | None:
        """What was committed before, unless the question has changed its kind since."""
        standing = self.book.find(bank.lesson, question.id)
        if standing is not None and grading.is_answer(question, standing.answer):
            return standing
        return None


_session = _Session()


def open_lesson(bank: Bank) -> AnswerBook:
    """Make a bank the open lesson of this notebook; returns the learner's answers."""
    global _session
    # reveals that wait on the screen still open when the first cell is run again
    _session = _Session(bank=bank, waiting=_session.waiting)
    return _session.book


def predict(question_id: str, **facts: object) -> "PredictionCard":
    """The card that takes a prediction, and seals it once it is committed.

    Args:
        question_id: a question of the open lesson.
        facts: values that the prompt asks for by name, as text or number.

    Raises:
        UnknownQuestionError: no lesson is open, or it has no such question.
        QuestionError: the prompt asks for a value that is not among `facts`.
    """
    bank, question = _session.question(question_id)
    if isinstance(question, Exercise):
        raise UnknownQuestionError(
            f"{question_id!r} is an exercise; show it with check()"
        )
    return PredictionCard(bank, question, facts)


def reveal(question_id: str, *, measured: object, **facts: object) -> "RevealCard":
    """The card that compares a committed prediction with the measurement.

    Args:
        question_id: a question of the open lesson.
        measured: the id of the choice that the measurement supports, or the
            measured number in the question's unit.
        facts: values that the feedback asks for by name, as text or number.

    Raises:
        AnswerKeyError: the measurement contradicts the answer key.
        UnknownQuestionError: no lesson is open, or it has no such question.
        QuestionError: the feedback asks for a value that is not among `facts`.
    """
    bank, question = _session.question(question_id)
    value = grading.check_key(question, measured)
    card = RevealCard(bank, question, value, facts)
    _session.waiting[question_id].add(card)
    return card


def check(
    exercise_id: str, attempt: object, measure: Callable[[int], float]
) -> "HtmlCard":
    """A report on an attempt at an exercise; it never raises over the attempt.

    Args:
        exercise_id: an exercise of the open lesson.
        attempt: the learner's number, None before the first try.
        measure: for a number, how far it gets, as a ratio to the target.

    Raises:
        AnswerKeyError: the exercise's own answer does not solve it.
        UnknownQuestionError: no lesson is open, or it has no such exercise.
    """
    _, exercise = _session.question(exercise_id)
    if not isinstance(exercise, Exercise):
        raise UnknownQuestionError(
            f"{exercise_id!r} is a question; show it with predict()"
        )
    is_solved, feedback = grading.attempt_exercise(exercise, attempt, measure)
    verdict = "✓ Solved" if is_solved else "○ Open" if attempt is None else "✗ Not yet"
    html = f"<p><strong>{verdict}.</strong></p>\n{to_html(feedback)}"
    return HtmlCard(live_html=html, twin_html=html, twin_text=f"{verdict}. {feedback}")


def progress() -> "ProgressCard":
    """What you have predicted so far, and where it is kept; `.erase()` deletes it."""
    return ProgressCard(_session.book)


class PredictionCard(Card):
    """A question with a form; `committed` is set once and for all."""

    form = traitlets.Dict().tag(sync=True)
    committed = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, bank: Bank, question: Question, facts: dict[str, object]
    ) -> None:
        prompt = grading.fill(question, "prompt", facts)
        super().__init__(kind="prediction", form=_form(question, prompt))
        self._bank, self._question, self._prompt = bank, question, prompt
        standing = _session.standing_answer(bank, question)
        if standing is not None:
            self._seal(standing)
        self.on_msg(self._receive)

    def commit(self, typed: object, confidence: int | None = None) -> None:
        """Commit a prediction, as the button does.

        Raises:
            AnswerError: the answer cannot be read, or a confidence is missing.
        """
        answer = grading.read_answer(self._question, typed)
        if not self._question.asks_confidence:
            confidence = None
        elif confidence not in list(CONFIDENCES):
            raise AnswerError("say how sure you are first")
        lesson = self._bank.lesson
        standing = _session.book.commit(
            CommittedAnswer(lesson, self._question.id, answer, confidence)
        )
        self._seal(standing)
        for card in list(_session.waiting[self._question.id]):
            card.open_if_committed()

    def twin_html(self) -> str:
        html = f"<p><strong>Predict</strong></p>\n{to_html(self._prompt)}"
        if isinstance(self._question, ChoiceQuestion):
            items = "".join(
                f"<li>{to_html(c.text)}</li>" for c in self._question.choices
            )
            html += f'\n<ol type="A">{items}</ol>'
        return html

    def twin_text(self) -> str:
        return f"Predict: {self._prompt.strip()}"

    def _seal(self, standing: CommittedAnswer) -> None:
        shown = grading.format_answer(self._question, standing.answer)
        if standing.confidence is not None:
            shown += f" ({standing.confidence} % sure)"
        self.error = ""
        self.committed = {
            "answer": standing.answer,
            "confidence": standing.confidence,
            "text": shown,
            "warning": _session.book.unsaved_reason,
        }

    def _receive(self, _: object, content: dict[str, Any], __: object) -> None:
        try:
            self.error = ""
            self.commit(content.get("answer"), content.get("confidence"))
        except AnswerError as error:
            self.error = str(error)


class RevealCard(Card):
    """Closed until the prediction is committed, then the comparison."""

    body_html = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, bank: Bank, question: Question, measured: Answer, facts: dict[str, object]
    ) -> None:
        super().__init__(kind="reveal")
        self._bank, self._question = bank, question
        self._measured, self._facts = measured, facts
        self._twin_html = self._describe_all_answers()
        self.open_if_committed()

    def open_if_committed(self) -> None:
        """Compare, if there is something to compare with."""
        standing = _session.standing_answer(self._bank, self._question)
        if standing is not None:
            grade = grading.grade(
                self._question, standing.answer, self._measured, self._facts
            )
            self.body_html = self._describe(grade, standing.confidence)

    def twin_html(self) -> str:
        return self._twin_html

    def twin_text(self) -> str:
        return "Revealed once the prediction is committed."

    def _describe(self, grade: Grade, confidence: int | None) -> str:
        sure = "" if confidence is None else f" ({confidence} % sure)"
        rows = [("You predicted", grade.predicted + sure), ("Measured", grade.measured)]
        pairs = "".join(
            f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows
        )
        return (
            f'<p class="ckptlab-outcome" data-outcome="{grade.outcome}">'
            f"<strong>{_OUTCOMES[grade.outcome]}.</strong> "
            f"{escape(grade.comparison)}</p>"
            f"<dl>{pairs}</dl>{to_html(grade.feedback)}{to_html(self._explanation())}"
        )

    def _explanation(self) -> str:
        return grading.fill(self._question, "explanation", self._named_facts())

    def _named_facts(self) -> dict[str, object]:
        shown = grading.format_answer(self._question, self._measured)
        return {**self._facts, "measured": shown}

    def _describe_all_answers(self) -> str:
        """The twin: what was measured, why, and what each other answer overlooks."""
        question = self._question
        shown = grading.format_answer(question, self._measured)
        html = f"<p><strong>Measured: {escape(shown)}</strong></p>\n"
        html += to_html(self._explanation())
        remarks: list[tuple[str, str]] = []
        if isinstance(question, ChoiceQuestion):
            remarks = [(choice.text, choice.feedback) for choice in question.choices]
        elif isinstance(question, NumberQuestion):
            remarks = [("Too low", question.too_low), ("Too high", question.too_high)]
        for name, template in remarks:
            text = grading.fill(question, name, self._named_facts(), text=template)
            html += f"\n<p><em>{escape(name)}</em></p>\n{to_html(text)}"
        return details("Reveal what was measured", html)


class ProgressCard(HtmlCard):
    """What has been answered, as a table; the twin names nobody's answers."""

    def __init__(self, book: AnswerBook) -> None:
        self._book = book
        super().__init__(
            live_html=self._describe(),
            twin_html="<p>Run this cell to see what you have predicted so far.</p>",
            twin_text="Run this cell to see what you have predicted so far.",
        )

    @property
    def path(self) -> str:
        """The file that holds the answers."""
        return str(self._book.path)

    def erase(self) -> str:
        """Delete every answer from the disk, for good; says how many there were."""
        count = self._book.erase()
        self.live_html = self._describe()
        return f"Erased: {count}. Run the lesson's first cell again to start anew."

    def _describe(self) -> str:
        where = f"<p>Kept in <code>{escape(self.path)}</code>.</p>"
        if self._book.unsaved_reason:
            where += f"<p><strong>{escape(self._book.unsaved_reason)}</strong></p>"
        answers = self._book.answers()
        if not answers:
            return "<p>No prediction committed yet.</p>" + where
        rows = [
            (
                answer.lesson,
                answer.question,
                str(answer.answer),
                "" if answer.confidence is None else f"{answer.confidence} %",
            )
            for answer in answers
        ]
        return (
            table(("Lesson", "Question", "Your prediction", "How sure"), rows) + where
        )


def _form(question: Question, prompt: str) -> dict[str, Any]:
    """What the browser needs to draw the form: author's HTML, ids and labels."""
    form: dict[str, Any] = {"prompt": to_html(prompt), "confidences": []}
    if isinstance(question, ChoiceQuestion):
        form["choices"] = [
            {"id": choice.id, "html": to_html(choice.text)}
            for choice in question.choices
        ]
    if isinstance(question, NumberQuestion):
        form["sample"] = grading.sample(question)
        form["unit"] = {"times": "times", "count": ""}.get(
            question.unit, "with its unit"
        )
    if question.asks_confidence:
        form["confidences"] = [
            {"percent": percent, "label": label}
            for percent, label in CONFIDENCES.items()
        ]
    return form
