"""The card that stays closed until the prediction is committed, then compares.

Before that it holds nothing of what was measured, so that nothing of it can be seen
in the page either.
"""

from typing import Any

from ckptlab.course.grading import Grade, grade
from ckptlab.course.kinds import Question
from ckptlab.course.kinds.choice import ChoiceQuestion
from ckptlab.course.kinds.question import Answer, fill
from ckptlab.course.kinds.reflection import Reflection
from ckptlab.course.kinds.sketch import SketchQuestion
from ckptlab.course.markup import definitions, details, escape, to_html
from ckptlab.course.questions import Bank
from ckptlab.course.record import Event, Record
from ckptlab.course.session import QuestionCard
from ckptlab.course.summary import OUTCOMES
from ckptlab.errors import AnswerError


class RevealCard(QuestionCard):
    """What was predicted beside what was measured.

    Attributes:
        state: whether it is open; then the sentence to announce, the comparison as
            safe HTML, the curves of a sketch, and the rubric of a reflection.
    """

    def __init__(
        self,
        bank: Bank,
        question: Question,
        measured: Answer | None,
        facts: dict[str, object],
    ) -> None:
        super().__init__(bank, question, kind="reveal")
        self._measured = measured
        self._facts = dict(facts)
        if measured is not None:
            self._facts["measured"] = question.text(measured)
        self._explanation = to_html(self._fill("explanation", question.explanation))
        self._twin_html = self._describe_all_answers()
        self.refresh()

    def show_anyway(self) -> None:
        """Open without a prediction, which is kept as such."""
        self._happen("shown")

    def mark(self, met: object) -> None:
        """Keep which criteria of its rubric a reflection meets, as its author judges.

        Raises:
            AnswerError: not a list of criteria, or no reflection.
        """
        if not isinstance(self.question, Reflection):
            raise AnswerError("only a reflection is judged by its author")
        kept, outcome = self.question.judge(met)
        self._happen("marked", answer=kept, outcome=outcome)

    def act(self, content: dict[str, Any]) -> None:
        if content.get("do") == "mark":
            self.mark(content.get("met"))
        else:
            self.show_anyway()

    def refresh(self) -> None:
        record = self.record
        if record.is_untouched:
            self.state = {"isOpen": False}
            return
        first, second = self._grade(record.prediction), self._grade(record.second_try)
        self.state = {
            "isOpen": True,
            "outcome": first.outcome if first else "",
            "announcement": self._announce(record, first),
            "body": self._describe(record, first, second),
            "chart": self._chart(record),
            "rubric": self._rubric(record),
        }
        # shown first, kept on the disk after: the learner waits for the comparison
        if record.prediction and not record.was_revealed:
            self._happen("revealed", outcome=first.outcome if first else None)
        elif second and record.second_outcome is None:
            self._happen("revealed", outcome=second.outcome)

    def twin_html(self) -> str:
        return self._twin_html

    def twin_text(self) -> str:
        return "Revealed once the prediction is committed."

    def _grade(self, event: Event | None) -> Grade | None:
        if event is None or event.answer is None or self._measured is None:
            return None
        return grade(self.question, event.answer, self._measured, self._facts)

    def _announce(self, record: Record, first: Grade | None) -> str:
        if first:
            return f"{OUTCOMES[first.outcome]}. {first.comparison}"
        if record.prediction is None:
            return "Opened without a prediction."
        return "Compare your answer with the rubric."

    def _describe(
        self, record: Record, first: Grade | None, second: Grade | None
    ) -> str:
        is_text = isinstance(self.question, Reflection)
        rows = []
        if record.prediction:
            name = "You wrote" if is_text else "You predicted"
            rows.append((name, self._text(record.prediction)))
        if self._measured is not None:
            rows.append(("Measured", self.question.text(self._measured)))
        if record.second_try:
            sign = f" ({OUTCOMES[second.outcome]})" if second else ""
            rows.append(("Second try", self._text(record.second_try) + sign))
        if record.n_hints:
            rows.append(("Hints opened", str(record.n_hints)))
        told = [to_html(g.feedback) for g in (first, second) if g and g.feedback]
        return "\n".join(
            [definitions(rows), *dict.fromkeys(told), *self._beliefs(record)]
            + (["<p><em>An answer that meets the rubric:</em></p>"] if is_text else [])
            + [self._explanation]
        )

    def _text(self, event: Event) -> str:
        sure = "" if event.confidence is None else f" ({event.confidence} % sure)"
        return self.question.text(event.answer) + sure

    def _beliefs(self, record: Record) -> list[str]:
        if not isinstance(self.question, ChoiceQuestion) or not record.prediction:
            return []
        beliefs = self.question.misconceptions(record.prediction.answer)
        return [f"<p>The belief behind it: <em>{escape(b)}</em>.</p>" for b in beliefs]

    def _chart(self, record: Record) -> dict[str, Any] | None:
        if not isinstance(self.question, SketchQuestion):
            return None
        curves: list[tuple[str, Any]] = [("measured", self._measured)]
        for name, event in (
            ("your sketch", record.prediction),
            ("second try", record.second_try),
        ):
            if event:
                curves.append((name, event.answer))
        return self.question.chart(curves)

    def _rubric(self, record: Record) -> list[dict[str, Any]]:
        if not isinstance(self.question, Reflection) or record.prediction is None:
            return []
        return [
            {"id": one.id, "html": to_html(one.text), "met": one.id in record.met}
            if record.met is not None
            else {"id": one.id, "html": to_html(one.text), "met": None}
            for one in self.question.rubric
        ]

    def _fill(self, key: str, template: str) -> str:
        return fill(self.question, key, template, self._facts)

    def _describe_all_answers(self) -> str:
        """The twin: what was measured, why, and what each other answer overlooks."""
        if isinstance(self.question, Reflection):
            points = "".join(
                f"<li>{to_html(c.text)}</li>" for c in self.question.rubric
            )
            html = f"<p>A good answer makes these points:</p>\n<ul>{points}</ul>\n"
            return details("Reveal the rubric", html + self._explanation)
        shown = escape(str(self._facts["measured"]))
        html = f"<p><strong>Measured: {shown}</strong></p>\n{self._explanation}"
        # a sketch's feedback names a point of the learner's own curve
        facts = {**self._facts, "at": "some point"}
        for name, template in self.question.remarks():
            text = fill(self.question, name, template, facts)
            html += f"\n<p><em>{escape(name)}</em></p>\n{to_html(text)}"
        return details("Reveal what was measured", html)
