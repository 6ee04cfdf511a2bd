"""The whole course as a learner without a mouse takes it, from first to last card."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ckptlab.course.kinds import Question
from ckptlab.course.questions import Bank, load_bank

if TYPE_CHECKING:
    from conftest import Hands, LessonPage

pytestmark = pytest.mark.browser

LESSONS = Path(__file__).parents[2] / "lessons"
BANKS = [load_bank(path) for path in sorted(LESSONS.glob("questions/*.toml"))]


def answer(hands: "Hands", question: Question) -> None:
    """Answer somehow, as somebody does who only wants to get on."""
    page, card = hands.lesson.page, hands.card
    if question.kind == "choice":
        hands.lesson.tab_to(card.locator("fieldset input").first)
        hands.press("Space")
    elif question.kind == "number":
        hands.lesson.tab_to(card.get_by_role("textbox"))
        page.keyboard.type("12")
    elif question.kind in ("slider", "sketch"):
        hands.lesson.tab_to(card.get_by_role("slider").first)
        hands.press("ArrowRight")
    elif question.kind == "reflection":
        hands.go("button", "Open hint 1")
        hands.press("Enter")
        hands.lesson.tab_to(card.get_by_role("textbox"))
        page.keyboard.type("It keeps less, and it takes longer.")
    if question.asks_confidence:
        hands.say_how_sure()
    hands.commit()


def take(lesson: "LessonPage", bank: Bank) -> None:
    """Run a lesson and answer all its questions."""
    lesson.run_all_by_keyboard()
    asked = lesson.predictions.evaluate_all("all => all.map((e) => e.dataset.asks)")
    assert sorted(asked) == sorted(bank.predicted)
    for question_id in asked:
        card = lesson.page.locator(f".ckptlab-card[data-asks={question_id}]")
        reveal = lesson.page.locator(f".ckptlab-card[data-reveals={question_id}]")
        expect(reveal).to_have_attribute("data-open", "false")
        answer(lesson.hands_on(card), bank.questions[question_id])
        expect(reveal).to_have_attribute("data-open", "true")


def test_course_is_taken_by_the_keyboard_from_nothing_to_the_summary(
    open_lesson: Callable[[str], "LessonPage"],
) -> None:
    for bank in BANKS:
        lesson = open_lesson(bank.lesson)
        if bank is BANKS[0]:
            lesson.forget_everything()
        take(lesson, bank)
    n_predicted = sum(len(bank.predicted) for bank in BANKS)
    assert len(lesson.answered()) == n_predicted
    summary = lesson.cards.filter(has_text="Your progress")
    hands = lesson.hands_on(summary)
    hands.go("button", "Refresh")
    hands.press("Enter")
    expect(summary.get_by_text("Read anew.")).to_be_visible()
    rows = (
        summary.locator("table")
        .first.locator("tbody tr")
        .filter(has_text=re.compile(r"^\d\d: "))
    )
    done = [row.locator("td").first.text_content() for row in rows.all()]
    wanted = [len(bank.predicted) for bank in BANKS]
    assert done == [f"{number} of {number}" for number in wanted]
    expect(summary).to_contain_text("You were 80 % sure on average")
