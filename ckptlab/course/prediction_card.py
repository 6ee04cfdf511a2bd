"""The card that takes a prediction, seals it, and later takes a second try."""

from typing import Any

import traitlets

from ckptlab.course.kinds import Question
from ckptlab.course.kinds.question import fill
from ckptlab.course.kinds.reflection import Reflection
from ckptlab.course.markup import to_html
from ckptlab.course.questions import Bank
from ckptlab.course.record import Event, Record
from ckptlab.course.session import SESSION, QuestionCard
from ckptlab.errors import AnswerError

CONFIDENCES = {20: "20 %, a guess", 50: "50 %", 80: "80 %", 95: "95 %, nearly certain"}
MOST_CHARACTERS_TOLD = 200


class PredictionCard(QuestionCard):
    """A question with a form.

    Attributes:
        form: what the browser needs to draw it: the author's HTML, ids and labels.
        state: its stage ("open", "sealed", "revealed" when a second try may follow,
            "done"), the kept answers, and the hints that are open.
    """

    form = traitlets.Dict().tag(sync=True)

    def __init__(
        self, bank: Bank, question: Question, facts: dict[str, object]
    ) -> None:
        self._prompt = fill(question, "prompt", question.prompt, facts)
        form = {
            "kind": question.kind,
            "prompt": to_html(self._prompt),
            "confidences": [
                {"percent": percent, "label": label}
                for percent, label in CONFIDENCES.items()
                if question.asks_confidence
            ],
            **question.form(),
        }
        super().__init__(bank, question, kind="prediction", form=form)
        self.refresh()

    def commit(self, typed: object, confidence: int | None = None) -> None:
        """Commit a prediction.

        Args:
            typed: the answer, as the form gives it.
            confidence: in percent, where the question asks for it.

        Raises:
            AnswerError: the answer cannot be read, a confidence is missing, or another
                prediction stands already.
        """
        answer = self.question.read(typed)
        if not self.question.asks_confidence:
            confidence = None
        elif not _is_offered(confidence):
            raise AnswerError("say how sure you are first")
        self._happen("predicted", answer=answer, confidence=confidence)
        stands = self.record.prediction
        if stands is None or stands.answer != answer:
            raise AnswerError("this question was answered before, in another window")

    def try_again(self, typed: object) -> None:
        """Commit the second try, once the answer is open.

        Args:
            typed: the answer, as the form gives it.

        Raises:
            AnswerError: the answer cannot be read, or the first one is gone.
        """
        answer = self.question.read(typed)
        if not self.record.is_open:
            self.refresh()
            raise AnswerError("your answers were erased meanwhile; predict anew")
        self._happen("tried again", answer=answer)

    def open_hint(self) -> None:
        """Open the next hint, which is counted; nothing when all are open."""
        n_open = self.record.n_hints
        if isinstance(self.question, Reflection) and n_open < len(self.question.hints):
            self._happen("hint", answer=n_open + 1)

    def act(self, content: dict[str, Any]) -> None:
        if content.get("do") == "hint":
            self.open_hint()
        elif content.get("do") == "try again":
            self.try_again(content.get("answer"))
        else:
            self.commit(content.get("answer"), content.get("confidence"))

    def refresh(self) -> None:
        record = self.record
        self.state = {
            "stage": _stage(record),
            "prediction": self._shown(record.prediction),
            "second": self._shown(record.second_try),
            "hints": self._hints(record),
            "warning": SESSION.progress.trouble,
        }

    def twin_html(self) -> str:
        return (
            f"<p><strong>Predict</strong></p>\n{to_html(self._prompt)}\n"
            f"{self.question.options_html()}"
        ).rstrip()

    def twin_text(self) -> str:
        return f"Predict: {self._prompt.strip()}"

    def _shown(self, event: Event | None) -> dict[str, Any] | None:
        if event is None:
            return None
        value = self.question.text(event.answer)
        sure = "" if event.confidence is None else f" ({event.confidence} % sure)"
        is_long = len(value) > MOST_CHARACTERS_TOLD  # the form shows all of it
        told = value[:MOST_CHARACTERS_TOLD] + " …" if is_long else value
        return {
            "answer": event.answer,
            "value": value,
            "confidence": event.confidence,
            "text": told + sure,
        }

    def _hints(self, record: Record) -> list[str]:
        if not isinstance(self.question, Reflection):
            return []
        n_open = record.n_hints if record.is_untouched else None
        return [to_html(hint) for hint in self.question.hints[:n_open]]


def _stage(record: Record) -> str:
    if record.is_untouched:
        return "open"
    if not record.is_open:
        return "sealed"
    return "done" if record.second_try else "revealed"


def _is_offered(confidence: object) -> bool:
    return type(confidence) is int and confidence in CONFIDENCES
