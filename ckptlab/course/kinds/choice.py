"""Choose one answer, or every one that holds.

kind = "choice"
answer = "a"                  the id of the right choice, or
answer = ["a", "c"]           those of all right ones: tick every one that holds
[[question.choice]]           at least two
id, text
feedback                      said to those who chose it; where several may be
                              chosen, also to those who should have
misconception                 of wrong choices: the belief that leads to it
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Self

from ckptlab.course.kinds.question import Answer, Comparison, Question
from ckptlab.course.markup import to_html, to_text
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerError


@dataclass(frozen=True)
class Choice:
    """One choice; `misconception` is empty for a right one."""

    id: str
    text: str
    feedback: str
    misconception: str


@dataclass(frozen=True)
class ChoiceQuestion(Question):
    """A question with its choices.

    Attributes:
        choices: in the order in which they are shown.
        answers: ids of the right ones.
        takes_several: whether any number of them may be chosen.
    """

    choices: tuple[Choice, ...]
    answers: tuple[str, ...]
    takes_several: bool

    kind = "choice"

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        takes_several = isinstance(table.peek("answer"), list)
        answers = table.texts("answer") if takes_several else (table.text("answer"),)
        parts = table.parts("choice")
        ids = [part.text("id") for part in parts]
        unknown = [answer for answer in answers if answer not in ids]
        if unknown or not answers:
            raise table.fault(
                "answer",
                f"is {table.peek('answer')!r}, which is no choice; use one of {ids}",
            )
        choices = []
        for part, choice_id in zip(parts, ids, strict=True):
            text, feedback = part.text("text"), part.template("feedback")
            belief = "" if choice_id in answers else part.text("misconception")
            choices.append(Choice(choice_id, text, feedback, belief))
            part.done()
        return cls(
            **common,
            choices=tuple(choices),
            answers=tuple(answers),
            takes_several=takes_several,
        )

    def choice(self, choice_id: object) -> Choice | None:
        """The choice of that id, or None."""
        return next((choice for choice in self.choices if choice.id == choice_id), None)

    def read(self, typed: object) -> Answer:
        if not self.takes_several and self.choice(typed):
            return str(typed)
        if self.takes_several and self.fits(typed):
            return self._in_order(typed)  # type: ignore[arg-type]
        raise AnswerError(
            "tick at least one of the answers first"
            if self.takes_several
            else "choose one of the answers first"
        )

    def fits(self, answer: object) -> bool:
        if not self.takes_several:
            return self.choice(answer) is not None
        return (
            isinstance(answer, list) and answer != [] and all(map(self.choice, answer))
        )

    def text(self, answer: Any) -> str:
        ids = answer if isinstance(answer, (list, tuple)) else [answer]
        found = [self.choice(one) for one in ids]
        return "; ".join(
            to_text(choice.text) if choice else repr(one)
            for choice, one in zip(found, ids, strict=True)
        )

    @property
    def key(self) -> Answer:
        return list(self.answers) if self.takes_several else self.answers[0]

    def agree(self, measured: object) -> Answer | None:
        if not self.takes_several:
            return self.key if measured == self.key else None
        if not isinstance(measured, (list, tuple, set, frozenset)):
            return None
        right = self._in_order(self.answers)
        has_wrong = any(one not in right for one in measured)
        return right if self._in_order(measured) == right and not has_wrong else None

    def compare(self, answer: Any, measured: Any) -> Comparison:
        if not self.takes_several:
            chosen = self.choice(answer)
            is_right = answer == measured
            return Comparison(
                outcome="right" if is_right else "wrong",
                sentence="Your prediction holds."
                if is_right
                else "The measurement says otherwise.",
                feedback=(chosen.feedback,) if chosen else (),
            )
        off = set(answer) ^ set(measured)
        told = off or set(answer)
        return Comparison(
            outcome="right" if not off else "near" if len(off) == 1 else "wrong",
            sentence=self._count(set(answer), set(measured)),
            feedback=tuple(c.feedback for c in self.choices if c.id in told),
        )

    def form(self) -> dict[str, Any]:
        choices = [{"id": c.id, "html": to_html(c.text)} for c in self.choices]
        return {"choices": choices, "takesSeveral": self.takes_several}

    def options_html(self) -> str:
        items = "".join(f"<li>{to_html(choice.text)}</li>" for choice in self.choices)
        return f'<ol type="A">{items}</ol>'

    def remarks(self) -> list[tuple[str, str]]:
        return [(to_text(choice.text), choice.feedback) for choice in self.choices]

    def misconceptions(self, answer: Any) -> list[str]:
        """The beliefs behind the wrong choices in an answer."""
        ids = answer if isinstance(answer, list) else [answer]
        found = [choice.misconception for choice in self.choices if choice.id in ids]
        return [belief for belief in found if belief]

    def _in_order(self, ids: Collection[str]) -> list[str]:
        return [choice.id for choice in self.choices if choice.id in ids]

    @staticmethod
    def _count(answer: set[str], measured: set[str]) -> str:
        missed, wrong = len(measured - answer), len(answer - measured)
        if not missed and not wrong:
            return "Your prediction holds."
        parts = []
        if missed:
            parts.append(f"missed {missed} that hold{'s' if missed == 1 else ''}")
        if wrong:
            parts.append(f"ticked {wrong} that {'does' if wrong == 1 else 'do'} not")
        return f"You {' and '.join(parts)}."
