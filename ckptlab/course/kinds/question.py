"""What every kind of question has, and what it must be able to do.

A kind is one class in one file: the keys of its table in the bank, what its form
needs, how an answer is read, checked against the key, compared, and shown as text.
The browser's half of its form is in `assets/forms.js`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from ckptlab.course.toml_table import Table, placeholders
from ckptlab.errors import AnswerError, QuestionError

Outcome = Literal["right", "near", "wrong"]
Answer = str | float | list[str] | list[float]
"""What JSON can hold: a choice's id, a number, ids in an order, a curve's values."""


@dataclass(frozen=True)
class Comparison:
    """An answer beside the measurement.

    Attributes:
        outcome: how right it is.
        sentence: one plain sentence that sets them side by side.
        feedback: the bank's texts that fit this answer, placeholders unfilled.
        facts: values that those texts may ask for besides the lesson's.
    """

    outcome: Outcome
    sentence: str
    feedback: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question(ABC):
    """A question of the bank.

    Attributes:
        id: unique in its lesson.
        topic: what it is about, in a few words, for lists.
        prompt, explanation: Markdown.
        asks_confidence: whether the learner also says how sure they are.
        revisits: questions of earlier lessons that ask for the same thing, each as
            "lesson/question".
    """

    id: str
    topic: str
    prompt: str
    explanation: str
    asks_confidence: bool
    revisits: tuple[str, ...]

    kind: ClassVar[str]
    is_predicted: ClassVar[bool] = True
    is_measured: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """Read the keys of this kind from its table.

        Args:
            table: where they stand.
            common: the attributes that every kind has, read already.

        Raises:
            QuestionError: a key is missing or makes no sense.
        """

    def read(self, typed: object) -> Answer:
        """What the learner chose or typed, as an answer that can be kept.

        Raises:
            AnswerError: it cannot be read; the message says what could.
        """
        raise AnswerError(f"question {self.id!r} takes no prediction")

    def fits(self, answer: object) -> bool:
        """Whether a stored answer still fits this question."""
        return False

    def text(self, answer: Any) -> str:
        """An answer as plain text."""
        return str(answer)

    def agree(self, measured: object) -> Answer | None:
        """A measurement as an answer; None when it contradicts the key."""
        return None

    @property
    def key(self) -> Answer:
        """The answer key."""
        raise NotImplementedError

    def compare(self, answer: Any, measured: Any) -> Comparison:
        """Set an answer beside the measurement; both fit this question."""
        raise NotImplementedError

    def form(self) -> dict[str, Any]:
        """What the browser needs to draw the form: plain values and safe HTML."""
        return {}

    def options_html(self) -> str:
        """What there is to answer with, for the static twin: safe HTML."""
        return ""

    def remarks(self) -> list[tuple[str, str]]:
        """For the static twin: kinds of answers, and the bank's text on each."""
        return []


def fill(question: Question, key: str, template: str, facts: Mapping[str, Any]) -> str:
    """A text of a question with its placeholders filled.

    Args:
        question: for the message alone.
        key: of the text in the bank, for the message alone.
        template: the text.
        facts: the values, by name.

    Raises:
        QuestionError: the text asks for a value that the lesson did not pass.
    """
    missing = placeholders(template) - set(facts)
    if missing:
        raise QuestionError(
            f"question {question.id!r}, key {key!r} asks for {sorted(missing)}; "
            f"pass them to predict() or reveal(), or use one of {sorted(facts)}"
        )
    return template.format(**facts)
