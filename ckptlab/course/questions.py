"""The question bank: one TOML file a lesson, found, loaded and validated.

A bank is prose that people write, so every fault is told with file, question and
key, and nothing unknown is let through.

    title = "…"                   of the lesson
    [[question]]
    kind = "…"                    one of the kinds in `kinds/`; the head of each file
                                  there lists the keys that are its own
    id, topic                     a name for cells, and a few words for lists
    prompt, explanation
    confidence = true             ask how sure the learner is
    revisits = ["01_…/overtake"]  questions of earlier lessons on the same thing, for
                                  `review`

Prompts, explanations and feedback are Markdown. They may name values that the lesson
passes to `predict` and `reveal`, such as {weights}; `reveal` adds {measured}.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ckptlab.course.kinds import KINDS, Question
from ckptlab.course.toml_table import Table
from ckptlab.errors import QuestionError, UnknownQuestionError


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

    @property
    def predicted(self) -> dict[str, Question]:
        """The questions that ask for a prediction: all but the exercises."""
        return {i: q for i, q in self.questions.items() if q.is_predicted}


def find_bank(lesson: str, start: Path | None = None) -> Bank:
    """The bank of a lesson, in `questions/` beside the notebook or in `lessons/`.

    Args:
        lesson: its name, such as "01_weights_are_not_the_main_cost".
        start: where to look; the working directory unless told.

    Raises:
        UnknownQuestionError: no bank of that name; the message lists those there are.
        QuestionError: the bank has a fault.
    """
    paths = bank_paths(start)
    if lesson in paths:
        return load_bank(paths[lesson])
    known = ", ".join(sorted(paths))
    raise UnknownQuestionError(
        f"no lesson {lesson!r} near {(start or Path.cwd()).resolve()}; "
        + (f"the lessons here are {known}" if known else "open it inside lessons/")
    )


def bank_paths(start: Path | None = None) -> dict[str, Path]:
    """Where the banks lie that a notebook in `start` would find, by lesson."""
    start = (start or Path.cwd()).resolve()
    folders = [start / "questions"]
    folders += [above / "lessons" / "questions" for above in (start, *start.parents)]
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            found.setdefault(path.stem, path)
    return found


def load_bank(path: Path) -> Bank:
    """Read and validate one bank.

    Raises:
        QuestionError: with file, question and key.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise QuestionError(
            f"{path.name} is not TOML: {error}; mend that place"
        ) from error
    table = Table(content, where=path.name)
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


def _read_question(entry: Table) -> Question:
    kind = KINDS[entry.one_of("kind", tuple(KINDS))]
    common = {
        "id": entry.text("id"),
        "topic": entry.text("topic"),
        "prompt": entry.template("prompt"),
        "explanation": entry.template("explanation"),
        "asks_confidence": entry.flag("confidence"),
        "revisits": entry.texts("revisits", required=False),
    }
    question = kind.load(entry, common)
    entry.done()
    return question
