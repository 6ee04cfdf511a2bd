"""The question bank: one TOML file a lesson, loaded and validated.

A bank is prose that people write, so every fault is told with file, question and
key, and nothing unknown is let through: a misspelt key would be a lost sentence.

    title = "…"                     of the lesson
    [[question]]
    id, kind, prompt, explanation   every kind
    confidence = true               ask how sure the learner is
    kind = "choice"                 answer = id of a [[question.choice]], each with
                                    id, text and feedback
    kind = "number"                 answer, unit; right_within and near_within, ratios;
                                    too_low and too_high, feedback
    kind = "exercise"               answer = the smallest whole number that reaches the
                                    target; too_low and too_high are feedback

Prompts, explanations and feedback are Markdown. They may name values that the lesson
passes to `predict` and `reveal`, such as {weights}; `reveal` adds {measured}.
"""

import string
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, cast

from ckptlab.errors import QuestionError, UnknownQuestionError

UNITS = ("bytes", "seconds", "FLOPs", "times", "count")
"""Units of a number question: "times" is a ratio, "count" a bare number."""


@dataclass(frozen=True)
class Question:
    """What every kind of question has.

    Attributes:
        id: unique in its lesson.
        prompt, explanation: Markdown.
        asks_confidence: whether the learner also says how sure they are.
    """

    id: str
    prompt: str
    explanation: str
    asks_confidence: bool


@dataclass(frozen=True)
class Choice:
    """One choice of a choice question; `feedback` says which belief leads to it."""

    id: str
    text: str
    feedback: str


@dataclass(frozen=True)
class ChoiceQuestion(Question):
    """A question with one right choice; `answer` is its id."""

    choices: tuple[Choice, ...]
    answer: str

    def choice(self, choice_id: object) -> Choice | None:
        """The choice of that id, or None."""
        return next((choice for choice in self.choices if choice.id == choice_id), None)


@dataclass(frozen=True)
class NumberQuestion(Question):
    """A question for a number, graded by ratio.

    Attributes:
        answer: the key, in `unit`.
        right_within: an answer is right up to this ratio to the measured value.
        near_within: and near up to this one.
        too_low, too_high: feedback for answers that are off.
    """

    unit: str
    answer: float
    right_within: float
    near_within: float
    too_low: str
    too_high: str


@dataclass(frozen=True)
class Exercise(Question):
    """A task whose answer is the smallest whole number that reaches a target."""

    answer: int
    too_low: str
    too_high: str


@dataclass(frozen=True)
class Bank:
    """All questions of one lesson, in order."""

    lesson: str
    title: str
    path: Path
    questions: dict[str, Question]

    def question(self, question_id: str) -> Question:
        """The question of that id.

        Raises:
            UnknownQuestionError: there is none; the message lists those there are.
        """
        if question_id not in self.questions:
            raise UnknownQuestionError(
                f"lesson {self.lesson!r} has no question {question_id!r}; "
                f"its questions are {', '.join(self.questions)}"
            )
        return self.questions[question_id]


def find_bank(lesson: str, start: Path | None = None) -> Bank:
    """The bank of a lesson, in `questions/` beside the notebook or in `lessons/`.

    Args:
        lesson: its name, such as "01_weights_are_not_the_main_cost".
        start: where to look; the working directory unless told.

    Raises:
        UnknownQuestionError: no bank of that name; the message lists those there are.
        QuestionError: the bank has a fault.
    """
    start = (start or Path.cwd()).resolve()
    folders = [start / "questions"]
    folders += [above / "lessons" / "questions" for above in (start, *start.parents)]
    found = [folder for folder in folders if folder.is_dir()]
    for folder in found:
        if (folder / f"{lesson}.toml").is_file():
            return load_bank(folder / f"{lesson}.toml")
    known = sorted({path.stem for folder in found for path in folder.glob("*.toml")})
    raise UnknownQuestionError(
        f"no lesson {lesson!r} near {start}; "
        + (
            f"the lessons here are {', '.join(known)}"
            if known
            else "open it inside lessons/"
        )
    )


def load_bank(path: Path) -> Bank:
    """Read and validate one bank.

    Raises:
        QuestionError: with file, question and key.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise QuestionError(
            f"{path.name} is not TOML: {error}; mend that place"
        ) from error
    table = _Table(content, where=path.name)
    title = table.text("title")
    questions: dict[str, Question] = {}
    for number, entry in enumerate(table.tables("question"), start=1):
        entry.where = (
            f"{path.name}, question {entry.peek('id') or f'number {number}'!r}"
        )
        question = _read_question(entry)
        if question.id in questions:
            raise entry.fault("id", "is used twice; give each question its own")
        questions[question.id] = question
    table.done()
    return Bank(path.stem, title, path, questions)


def placeholders(text: str) -> set[str]:
    """Names of the values that a text asks for, such as {"measured"}.

    Raises:
        ValueError: a brace that stands alone, or a placeholder that is no bare name.
    """
    names = set()
    for _, name, form, conversion in string.Formatter().parse(text):
        if name is not None:
            if form or conversion or not name.isidentifier():
                raise ValueError(f"{name!r} is not a bare name such as {{measured}}")
            names.add(name)
    return names


def _read_question(entry: "_Table") -> Question:
    kind = entry.text("kind")
    if kind not in _READERS:
        raise entry.fault("kind", f"is {kind!r}; use one of {', '.join(_READERS)}")
    common = {
        "id": entry.text("id"),
        "prompt": entry.template("prompt"),
        "explanation": entry.template("explanation"),
        "asks_confidence": entry.flag("confidence"),
    }
    question = _READERS[kind](entry, common)
    entry.done()
    return question


def _read_choice(entry: "_Table", common: dict[str, Any]) -> ChoiceQuestion:
    choices = []
    for table in entry.tables("choice"):
        table.where = f"{entry.where}, choice {table.peek('id')!r}"
        choices.append(
            Choice(table.text("id"), table.text("text"), table.template("feedback"))
        )
        table.done()
    ids = [choice.id for choice in choices]
    if len(ids) < 2 or len(set(ids)) < len(ids):
        raise entry.fault(
            "choice", f"has the ids {ids}; give at least two, all different"
        )
    answer = entry.text("answer")
    if answer not in ids:
        raise entry.fault(
            "answer", f"is {answer!r}, which is no choice; use one of {ids}"
        )
    return ChoiceQuestion(**common, choices=tuple(choices), answer=answer)


def _read_number(entry: "_Table", common: dict[str, Any]) -> NumberQuestion:
    question = NumberQuestion(
        **common,
        unit=entry.text("unit"),
        answer=entry.number("answer"),
        right_within=entry.number("right_within", default=1.1),
        near_within=entry.number("near_within", default=2.0),
        too_low=entry.template("too_low"),
        too_high=entry.template("too_high"),
    )
    if question.unit not in UNITS:
        raise entry.fault(
            "unit", f"is {question.unit!r}; use one of {', '.join(UNITS)}"
        )
    if not 0 < question.answer < inf:
        raise entry.fault("answer", f"is {question.answer}; a ratio needs one above 0")
    if not 1 <= question.right_within <= question.near_within:
        raise entry.fault("right_within", "must be at least 1 and at most near_within")
    return question


def _read_exercise(entry: "_Table", common: dict[str, Any]) -> Exercise:
    answer = entry.number("answer")
    if not 1 <= answer < inf or answer != int(answer):
        raise entry.fault(
            "answer", f"is {answer}; an exercise asks for a whole number from 1"
        )
    too_low, too_high = entry.template("too_low"), entry.template("too_high")
    return Exercise(**common, answer=int(answer), too_low=too_low, too_high=too_high)


_READERS = {"choice": _read_choice, "number": _read_number, "exercise": _read_exercise}


class _Table:
    """One TOML table that says where it stands when something in it is wrong."""

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self._content = content
        self._read: set[str] = set()
        self.where = where

    def peek(self, key: str) -> object:
        return self._content.get(key)

    def fault(self, key: str, what: str) -> QuestionError:
        return QuestionError(f"{self.where}, key {key!r}: {what}")

    def text(self, key: str) -> str:
        value = self._get(key, str, "a text")
        if not value.strip():
            raise self.fault(key, "is empty; write something")
        return cast(str, value)

    def template(self, key: str) -> str:
        """A text that may hold placeholders."""
        value = self.text(key)
        try:
            placeholders(value)
        except ValueError as error:
            raise self.fault(
                key, f"has a bad placeholder ({error}); double a bare brace"
            ) from None
        return value

    def number(self, key: str, default: float | None = None) -> float:
        self._read.add(key)
        if default is not None and key not in self._content:
            return default
        value = self._get(key, (int, float), "a number")
        if isinstance(value, bool):
            raise self.fault(key, "is true or false; write a number")
        return cast(float, value)

    def flag(self, key: str) -> bool:
        self._read.add(key)
        return key in self._content and cast(
            bool, self._get(key, bool, "true or false")
        )

    def tables(self, key: str) -> "Iterator[_Table]":
        values = self._get(key, list, f"a list of tables, [[{key}]]")
        if not all(isinstance(value, dict) for value in values):
            raise self.fault(key, f"must hold tables, each begun by [[{key}]]")
        return iter([_Table(value, self.where) for value in values])

    def done(self) -> None:
        """Refuse whatever was not read."""
        for key in self._content:
            if key not in self._read:
                raise self.fault(
                    key, f"is not known here; known are {', '.join(sorted(self._read))}"
                )

    def _get(self, key: str, kind: type | tuple[type, ...], wanted: str) -> Any:
        self._read.add(key)
        if key not in self._content:
            raise self.fault(key, f"is missing; write {wanted}")
        value = self._content[key]
        if not isinstance(value, kind):
            raise self.fault(key, f"is {value!r}; write {wanted}")
        return value
