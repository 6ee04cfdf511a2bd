"""A task whose answer is the smallest whole number that reaches a target.

    kind = "exercise"
    answer                        that number
    explanation                   said of a solved one; may name {attempt} and {ratio}
    too_low, too_high             feedback; may name them too

It is checked by check(), as often as the learner likes, and never predicted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

from ckptlab.course.kinds.question import Answer, Question, fill
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerKeyError

MOST_TIMES_KEY = 100
"""Attempts beyond this many times the key are not measured: memory is finite."""


@dataclass(frozen=True)
class Exercise(Question):
    """A task with its smallest solution, `answer`."""

    answer: int
    too_low: str
    too_high: str

    kind = "exercise"
    is_predicted = False

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        answer = table.number("answer")
        if answer < 1 or answer != int(answer):
            raise table.fault(
                "answer", f"is {answer}; an exercise asks for a whole number from 1"
            )
        too_low, too_high = table.template("too_low"), table.template("too_high")
        return cls(**common, answer=int(answer), too_low=too_low, too_high=too_high)

    @property
    def key(self) -> Answer:
        return self.answer

    def attempt(
        self, number: object, measure: Callable[[int], float]
    ) -> tuple[bool, str]:
        """Whether an attempt solves the exercise, and feedback in Markdown.

        Args:
            number: the learner's; None is "not tried yet".
            measure: how far a number gets, as a ratio to the target.

        Raises:
            AnswerKeyError: the exercise's own answer does not solve it.
        """
        if not _is_smallest(self.answer, measure):
            raise AnswerKeyError(
                f"exercise {self.id!r}: the answer key {self.answer} is not the "
                "smallest number that reaches the target; if you changed a cell "
                "above, undo it, else correct the bank"
            )
        if number is None:
            return False, (
                "Not tried yet: put your number in place of `None` and run the cell "
                "again."
            )
        if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
            return False, (
                f"`{_quote(number)}` is not a whole number from 1 up; write one, such "
                "as `100`."
            )
        tried = int(number)
        if tried > MOST_TIMES_KEY * self.answer:
            return False, "That is far too high to be measured here. Go much lower."
        facts = {"attempt": tried, "ratio": f"{measure(tried):.3g}"}
        if measure(tried) <= 1:
            return False, fill(self, "too_low", self.too_low, facts)
        if not _is_smallest(tried, measure):
            return False, fill(self, "too_high", self.too_high, facts)
        return True, fill(self, "explanation", self.explanation, facts)


def _is_smallest(number: int, measure: Callable[[int], float]) -> bool:
    return measure(number) > 1 and (number == 1 or measure(number - 1) <= 1)


def _quote(value: object) -> str:
    """A value as short text that may stand in Markdown's code marks."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of too many digits to print
        text = "a huge number"
    return text[:40].replace("`", "'")
