"""A task whose answer is tried out by a measurement, as often as the learner likes.

    kind = "exercise"
    goal = "smallest"             what solves it:
                                    "smallest": the smallest whole number whose measure
                                                is more than 1
                                    "at most":  anything whose measure is at most 1
                                    "equal":    a number whose measure is 1, to 1 %
    answer                        one that solves it, a number or a text such as a plan
    explanation                   said of a solved one; may name {attempt} and {ratio}
    too_low, too_high             feedback, the same; no too_low where the goal is
                                  "at most"

The lesson gives the measure: how far an attempt gets, as a ratio to the target. It may
refuse an attempt by one of the library's own errors, whose text is then the feedback.
"""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Self

from ckptlab.course.kinds.question import Answer, Question, fill
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerKeyError, CkptlabError

GOALS = ("smallest", "at most", "equal")
Measure = Callable[[Any], float]

EQUAL_WITHIN = 0.01
"""Beyond this share of the target a number is not equal to it."""

MOST_CHARACTERS = 1000
"""No plan that a learner types is longer."""

MOST_TIMES_KEY = 100
"""Attempts beyond this many times the key are not measured: memory is finite."""


@dataclass(frozen=True)
class Exercise(Question):
    """A task with a goal, and one solution of it, `answer`."""

    goal: str
    answer: float | str
    too_low: str
    too_high: str

    kind = "exercise"
    is_predicted = False

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        goal = table.one_of("goal", GOALS, default="smallest")
        is_text = isinstance(table.peek("answer"), str) and goal == "at most"
        answer = table.text("answer") if is_text else table.number("answer")
        if goal == "smallest" and (answer < 1 or answer != int(answer)):  # type: ignore[operator]
            raise table.fault(
                "answer", f"is {answer}; the smallest must be a whole number from 1"
            )
        too_low = "" if goal == "at most" else table.template("too_low")
        return cls(
            **common,
            goal=goal,
            answer=int(answer) if goal == "smallest" else answer,
            too_low=too_low,
            too_high=table.template("too_high"),
        )

    @property
    def key(self) -> Answer:
        return self.answer

    def attempt(self, tried: object, measure: Measure) -> tuple[bool, str]:
        """Whether an attempt solves the exercise, and feedback in Markdown.

        Args:
            tried: the learner's; None is "not tried yet".
            measure: how far an attempt gets, as a ratio to the target.

        Raises:
            AnswerKeyError: the exercise's own answer does not solve it.
        """
        if self._verdict(self.answer, measure) != "solved":
            raise AnswerKeyError(
                f"exercise {self.id!r}: the answer key {self.answer} does not solve "
                "it; if you changed a cell above, undo it, else correct the bank"
            )
        if tried is None:
            return False, (
                "Not tried yet: put your answer in place of `None` and run the cell "
                "again."
            )
        wanted = self._refusal(tried)
        if wanted:
            return False, f"`{_quote(tried)}` is not {wanted}."
        if self.goal == "smallest" and tried > MOST_TIMES_KEY * self.answer:  # type: ignore[operator]
            return False, "That is far too high to be measured here. Go much lower."
        try:
            verdict = self._verdict(tried, measure)
            ratio = f"{measure(tried):.3g}"
        except CkptlabError as error:
            return False, f"```text\n{error}\n```"
        texts = {"solved": "explanation", "low": "too_low", "high": "too_high"}
        key = texts[verdict]
        facts = {"attempt": tried, "ratio": ratio}
        return verdict == "solved", fill(self, key, getattr(self, key), facts)

    def _refusal(self, tried: object) -> str:
        """What an attempt should have been; nothing when it is that."""
        if isinstance(self.answer, str):
            is_short = isinstance(tried, str) and len(tried) <= MOST_CHARACTERS
            return "" if is_short else "a short text; write one, between quotes"
        is_number = isinstance(tried, Real) and not isinstance(tried, bool)
        if self.goal == "smallest":
            is_whole = is_number and isinstance(tried, Integral) and int(tried) >= 1
            wanted = "a whole number from 1 up; write one, such as `100`"
            return "" if is_whole else wanted
        is_finite = is_number and -1e300 < tried < 1e300  # type: ignore[operator]
        return "" if is_finite else "a number; write one, such as `100`"

    def _verdict(self, tried: Any, measure: Measure) -> str:
        """Say "solved", "low" or "high"."""
        if self.goal == "smallest":
            if measure(tried) <= 1:
                return "low"
            is_smallest = tried == 1 or measure(tried - 1) <= 1
            return "solved" if is_smallest else "high"
        ratio = measure(tried)
        if self.goal == "at most":
            return "solved" if ratio <= 1 else "high"
        if abs(ratio - 1) <= EQUAL_WITHIN:
            return "solved"
        return "low" if ratio < 1 else "high"


def _quote(value: object) -> str:
    """A value as short text that may stand in Markdown's code marks."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of too many digits to print
        text = "a huge number"
    return text[:40].replace("`", "'")
