"""Where each question is used in the notebooks, and what does not fit together.

A question that no notebook asks, and a cell that asks for a question that is not
there, are both faults: the first is lost work, the second a lesson that stops.
"""

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from IPython.core.inputtransformer2 import TransformerManager

from ckptlab.course.questions import Bank, load_bank
from ckptlab.errors import QuestionError

CALLS = ("predict", "reveal", "check")
REVIEW = "review"
"""It asks every question of the lesson that is predicted."""


@dataclass(frozen=True)
class Use:
    """One call in a notebook: cells count from 1, text cells included."""

    call: str
    question: str
    cell: int


@dataclass
class Usage:
    """One lesson: its bank, its notebook's calls, and the faults of the two.

    Attributes:
        lesson: its name.
        bank: None where it is missing or has a fault.
        uses: in the order of the cells.
        faults: one sentence each.
    """

    lesson: str
    bank: Bank | None = None
    uses: list[Use] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def is_reviewed(self) -> bool:
        """Whether the notebook asks all its questions in one review."""
        return any(use.call == REVIEW for use in self.uses)

    def of(self, question_id: str) -> list[Use]:
        """The uses of one question."""
        return [use for use in self.uses if use.question == question_id]


def check_lessons(folder: Path) -> list[Usage]:
    """Load every bank of a folder of lessons, and compare it with its notebook.

    Args:
        folder: of the notebooks, with their banks in `questions/`.
    """
    banks = {path.stem: path for path in folder.glob("questions/*.toml")}
    notebooks = {path.stem: path for path in folder.glob("*.ipynb")}
    lessons = [
        _check(lesson, banks.get(lesson), notebooks.get(lesson))
        for lesson in sorted(banks | notebooks)
    ]
    known = {f"{u.lesson}/{q}" for u in lessons if u.bank for q in u.bank.questions}
    for usage in lessons:
        for question in usage.bank.questions.values() if usage.bank else ():
            usage.faults += [
                f"{question.id!r} revisits {ref!r}, which is missing; correct the name"
                for ref in question.revisits
                if ref not in known
            ]
    return lessons


def _check(lesson: str, bank: Path | None, notebook: Path | None) -> Usage:
    usage = Usage(lesson)
    if notebook is None:
        usage.faults.append("has a bank and no notebook; write it, or drop the bank")
    else:
        try:
            usage.uses = list(_uses(notebook))
        except (ValueError, KeyError, TypeError, SyntaxError) as error:
            usage.faults.append(
                f"{notebook.name} cannot be read: {error}; save it anew"
            )
            return usage
    if bank is None:
        usage.faults += [
            f"cell {use.cell} asks for {use.question!r}, but there is no bank; write "
            f"questions/{lesson}.toml"
            for use in usage.uses
        ]
        return usage
    try:
        usage.bank = load_bank(bank)
    except QuestionError as error:
        usage.faults.append(str(error))
    else:
        usage.faults += _compare(usage.bank, usage)
    return usage


def _compare(bank: Bank, usage: Usage) -> Iterator[str]:
    for use in usage.uses:
        if use.call != REVIEW and use.question not in bank.questions:
            known = ", ".join(bank.questions)
            yield (
                f"cell {use.cell} asks for {use.question!r}, which is missing from the "
                f"bank; its questions are {known}"
            )
    for question in bank.questions.values():
        calls = [use.call for use in usage.of(question.id)]
        if question.is_predicted and not calls and usage.is_reviewed:
            continue
        wanted = ["predict", "reveal"] if question.is_predicted else ["check"]
        if not calls:
            yield f"{question.id!r} is unused; add {' and '.join(wanted)}, or drop it"
        elif calls != wanted:
            used, right = ", ".join(calls), ", then ".join(wanted)
            yield f"{question.id!r} is used by {used}; use {right}"


def _uses(notebook: Path) -> Iterator[Use]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for number, cell in enumerate(content["cells"], start=1):
        if cell["cell_type"] != "code":
            continue
        source = TransformerManager().transform_cell(  # type: ignore[no-untyped-call]
            "".join(cell["source"])
        )
        calls = [node for node in ast.walk(ast.parse(source)) if _is_use(node)]
        for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
            yield Use(node.func.id, _asked(node), number)


def _is_use(node: ast.AST) -> TypeGuard[Any]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and (node.func.id == REVIEW or (node.func.id in CALLS and bool(_asked(node))))
    )


def _asked(node: ast.Call) -> str:
    """The question that a call names; empty when it is computed."""
    named = [k.value for k in node.keywords if k.arg in ("question_id", "exercise_id")]
    first = [*node.args[:1], *named][:1]
    return next((str(one.value) for one in first if isinstance(one, ast.Constant)), "")
