"""Answer in your own words, then judge the answer yourself by a rubric.

    kind = "reflection"
    explanation                   an answer that would meet the rubric
    [[question.hint]]             text; opened one by one before answering, and counted
    [[question.criterion]]        id, text; what a good answer holds, at least two

Nobody but the learner can judge free text honestly, so nothing is measured.
"""

from dataclasses import dataclass
from typing import Any, Self

from ckptlab.course.kinds.question import Answer, Outcome, Question
from ckptlab.course.markup import details, to_html
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerError

MOST_CHARACTERS = 5000
"""About two pages."""


@dataclass(frozen=True)
class Criterion:
    """One thing that a good answer holds."""

    id: str
    text: str


@dataclass(frozen=True)
class Reflection(Question):
    """A question for free text, with its hints and its rubric."""

    hints: tuple[str, ...]
    rubric: tuple[Criterion, ...]

    kind = "reflection"
    is_measured = False

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        hints = []
        for number, part in enumerate(table.tables("hint", required=False), 1):
            part.where = f"{table.where}, hint {number}"
            hints.append(part.text("text"))
            part.done()
        rubric = []
        for part in table.parts("criterion"):
            rubric.append(Criterion(part.text("id"), part.text("text")))
            part.done()
        return cls(**common, hints=tuple(hints), rubric=tuple(rubric))

    def read(self, typed: object) -> Answer:
        text = typed.strip() if isinstance(typed, str) else ""
        if not text:
            raise AnswerError("write your answer first; a sentence is enough")
        if len(text) > MOST_CHARACTERS:
            raise AnswerError(
                f"your answer has {len(text):,} characters, and {MOST_CHARACTERS:,} "
                "can be kept; shorten it"
            )
        return text

    def fits(self, answer: object) -> bool:
        return isinstance(answer, str) and bool(answer)

    def judge(self, met: object) -> tuple[list[str], Outcome]:
        """The criteria that a learner says are met, and what that makes the answer.

        Raises:
            AnswerError: not a list of this rubric's criteria.
        """
        ids = [criterion.id for criterion in self.rubric]
        if not isinstance(met, (list, tuple)) or any(one not in ids for one in met):
            raise AnswerError("tick the points that your answer makes")
        kept = [one for one in ids if one in met]
        outcome: Outcome = (
            "right" if len(kept) == len(ids) else "near" if kept else "wrong"
        )
        return kept, outcome

    def form(self) -> dict[str, Any]:
        return {"nHints": len(self.hints), "mostCharacters": MOST_CHARACTERS}

    def options_html(self) -> str:
        return "\n".join(
            details(f"Hint {number}", to_html(hint))
            for number, hint in enumerate(self.hints, 1)
        )
