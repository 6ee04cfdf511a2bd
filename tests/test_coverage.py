"""The course teaches, asks and measures all that the article says, item by item."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
import pytest

from ckptlab.course.kinds import Question
from ckptlab.course.kinds.reflection import Reflection
from ckptlab.course.usage import Usage, check_lessons

LESSONS = Path(__file__).parents[1] / "lessons"


@dataclass(frozen=True)
class Item:
    """One thing that the article says.

    Attributes:
        what: in a few words.
        taught: the lesson that teaches it, and words of a text cell there.
        asked: the question that asks for it, as "lesson/question".
    """

    what: str
    taught: tuple[str, str]
    asked: str


ITEMS = (
    Item(
        "section 1: weights are not always the main cost",
        ("01", "Weights are not the main memory cost"),
        "01/gpt2-batch-1",
    ),
    Item(
        "quiz 1: weights or activations, in a large model",
        ("01", "Only the smallest case goes to the weights"),
        "01/gpt2-batch-32",
    ),
    Item(
        "section 2: activations accumulate with the work on the batch",
        ("01", "Activations grow in proportion to the batch"),
        "01/mlp-batch-2048",
    ),
    Item(
        "section 2: published measurements of several Megatron models",
        ("02", "Korthikanti and colleagues"),
        "02/trillion",
    ),
    Item(
        "section 2: why they are kept",
        ("02", "The derivative decides what is kept"),
        "02/keeps-its-input",
    ),
    Item(
        "section 3: storage is swapped for computation",
        ("03", "It keeps less"),
        "03/kept",
    ),
    Item("section 3: work is added", ("03", "It computes more"), "03/runs-again"),
    Item(
        "section 3: two names for one technique",
        ("03", "Two names, one technique"),
        "03/gradients",
    ),
    Item(
        "section 4: the life of one activation",
        ("03", "What is discarded lives twice"),
        "03/life",
    ),
    Item(
        "section 5 and quiz 2: storing everything keeps four",
        ("04", "Strategy one stores everything"),
        "04/keep-all",
    ),
    Item(
        "section 5: checkpoints at 2 and 4 keep two, and make two again",
        ("04", "Strategy two discards what it can make again"),
        "04/keep-two",
    ),
    Item(
        "section 6: memory down, time up",
        ("05", "The first half of the memory is cheap"),
        "05/extra-work",
    ),
    Item(
        "section 8: practice, memory as the constraint of a team",
        ("07", "write before you calculate"),
        "07/team",
    ),
    Item(
        "section 8: the memory effect, done",
        ("07", "any plan that trains"),
        "07/dies-where",
    ),
    Item(
        "section 8: the time effect, done",
        ("07", "within a tenth of the best time"),
        "07/best-cost",
    ),
    Item(
        "mistake: weights are always the largest",
        ("06", "estimate both before you decide"),
        "06/two-networks",
    ),
    Item(
        "mistake: checkpointing changes the model",
        ("06", "think of storage and recomputation, not of the model"),
        "06/what-changes",
    ),
    Item("mistake: free savings", ("06", "always say both sides"), "06/half"),
    Item(
        "mistake: two techniques",
        ("06", "read either name as the other"),
        "06/both-switches",
    ),
    Item(
        "takeaway: not always the main cost",
        ("08", "they win where batch and text are small"),
        "08/short-text",
    ),
    Item(
        "takeaway: weights are fixed, activations accumulate",
        ("08", "do not know the batch"),
        "08/twice-the-text",
    ),
    Item(
        "takeaway: discard and recompute, under two names",
        ("08", "gradient checkpointing, activation recomputation"),
        "08/three-checkpoints",
    ),
    Item(
        "takeaway: a deliberate trade",
        ("08", "a third more work"),
        "08/one-more-run",
    ),
)


@cache
def usages() -> dict[str, Usage]:
    """By the number of the lesson."""
    return {usage.lesson[:2]: usage for usage in check_lessons(LESSONS)}


def texts(number: str) -> str:
    notebook = nbformat.read(LESSONS / f"{usages()[number].lesson}.ipynb", as_version=4)
    cells = [c.source for c in notebook.cells if c.cell_type == "markdown"]
    return re.sub(r"[\s*`]+", " ", " ".join(cells))


def question(ref: str) -> Question:
    number, _, name = ref.partition("/")
    bank = usages()[number].bank
    assert bank is not None
    return bank.question(name)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.what)
def test_item_is_taught_asked_and_measured(item: Item) -> None:
    number, words = item.taught
    assert words in texts(number)
    asked = question(item.asked)
    usage = usages()[item.asked[:2]]
    calls = [use.call for use in usage.of(asked.id)]
    assert calls == ["predict", "reveal"] or usage.is_reviewed
    assert asked.is_measured or asked.kind == "reflection"


def test_every_section_of_the_article_has_an_item() -> None:
    sections = {
        int(n) for item in ITEMS for n in re.findall(r"section (\d)", item.what)
    }
    assert sections == {1, 2, 3, 4, 5, 6, 8}
    assert sum("takeaway" in item.what for item in ITEMS) == 4
    assert sum("mistake" in item.what for item in ITEMS) == 4
    assert sum("quiz" in item.what for item in ITEMS) == 2


def test_practice_has_the_three_hints_and_names_both_effects() -> None:
    """Section 8: less memory, more time, and which of the two is tighter."""
    team = question("07/team")
    assert isinstance(team, Reflection)
    for hint, word in zip(team.hints, ("memory", "cost", "limited"), strict=True):
        assert word in hint
    assert [one.id for one in team.rubric] == [
        "memory-effect",
        "time-effect",
        "tighter",
    ]
    assert team.asks_confidence


@pytest.mark.parametrize("number", [f"0{n}" for n in range(1, 8)])
def test_review_comes_back_to_every_lesson(number: str) -> None:
    usage = usages()["08"]
    assert usage.bank is not None
    revisited = [ref for q in usage.bank.questions.values() for ref in q.revisits]
    assert any(ref.startswith(number) for ref in revisited)
