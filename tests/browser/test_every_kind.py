"""Every kind of question in JupyterLab, answered by the keyboard alone."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from conftest import Hands, LessonPage

pytestmark = pytest.mark.browser

THEMES = ("JupyterLab Light", "JupyterLab Dark")
HOSTILE = '<img src=x onerror="window.hacked=1">\u202e'
KINDS = ("one", "several", "amount", "estimate", "sequence", "curve", "own-words")


@pytest.fixture(scope="module")
def lesson(open_lesson: Callable[[str], "LessonPage"]) -> "LessonPage":
    lesson = open_lesson("every_kind")
    lesson.start_anew()
    return lesson


def asks(lesson: "LessonPage", question: str) -> Locator:
    return lesson.page.locator(f".ckptlab-card[data-asks={question}]")


def reveals(lesson: "LessonPage", question: str) -> Locator:
    return lesson.page.locator(f".ckptlab-card[data-reveals={question}]")


def status(card: Locator) -> Locator:
    return card.locator("p.ckptlab-status")


def answer_one(hands: "Hands") -> None:
    hands.go("radio", "Blue")
    hands.press("Space")
    hands.say_how_sure()
    hands.commit()


def answer_several(hands: "Hands") -> None:
    for name in ("A cod", "A duck"):
        hands.go("checkbox", name)
        hands.press("Space")
    hands.commit()


def answer_amount(hands: "Hands") -> None:
    hands.go("textbox", "How large is the file?")
    hands.lesson.page.keyboard.type("1,5 GiB")
    hands.press("Enter")
    expect(status(hands.card)).to_contain_text("Committed: 1.5 GiB.")
    expect(status(hands.card)).to_be_focused()


def answer_estimate(hands: "Hands") -> None:
    slider = hands.go("slider", "How many metres has the tower?")
    expect(slider).to_have_attribute("aria-valuetext", "not set yet")
    for _ in range(13):
        hands.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "299")
    hands.say_how_sure()
    hands.commit()


def answer_sequence(hands: "Hands") -> None:
    up = hands.go("button", "Move up: Morning")
    hands.press("Enter")
    expect(up).to_be_focused()
    expect(hands.card.get_by_text("Morning: place 2 of 3.")).to_be_visible()
    hands.press("Enter")
    expect(up).to_be_disabled()  # so the focus has gone to the button beside it
    expect(hands.card.get_by_role("button", name="Move down: Morning")).to_be_focused()
    hands.commit()


def answer_curve(hands: "Hands") -> None:
    sliders = hands.card.get_by_role("slider")
    expect(sliders).to_have_count(3)
    hands.go("slider", "Side 1")
    hands.press("Home")
    hands.go("slider", "Side 4")
    hands.press("End")
    picture = hands.card.get_by_role("img")
    expect(picture).to_have_attribute(
        "aria-label", "Your sketch: 1 at 1, 10 at 2, 100 at 4"
    )
    hands.commit()


def answer_own_words(hands: "Hands") -> None:
    hands.go("button", "Open hint 1 of 2")
    hands.press("Enter")
    expect(hands.card.get_by_text("Something in it is alive.")).to_be_visible()
    expect(hands.card.get_by_text("elastic")).to_have_count(0)
    hands.go("textbox", "Why does bread rise?")
    hands.lesson.page.keyboard.type(f"Yeast.\n{HOSTILE}")
    hands.say_how_sure()
    hands.commit()


ANSWER = {
    "one": answer_one,
    "several": answer_several,
    "amount": answer_amount,
    "estimate": answer_estimate,
    "sequence": answer_sequence,
    "curve": answer_curve,
    "own-words": answer_own_words,
}
COMPARED = {
    "one": ("✗ Not so.", "That is the sky."),
    "several": ("✓ Right.", "A duck swims and flies."),
    "amount": ("✓ Right.", "It is 1.5 GiB."),
    "estimate": ("✓ Right.", "It has 300 metres."),
    "sequence": ("✓ Right.", "The sun decides."),
    "curve": ("✗ Not so. Too high by a factor of 6.25", "At 4 the square is smaller."),
    "own-words": ("Compare your answer with the rubric.", "Yeast makes gas, and"),
}


def answer_all(lesson: "LessonPage") -> None:
    for question in KINDS:
        if question not in lesson.committed():
            ANSWER[question](lesson.hands_on(asks(lesson, question)))


def seen(lesson: "LessonPage") -> list[Any]:
    """What all cards show, but for the progress card's hour and path."""
    inputs = lesson.predictions.locator("input, textarea")
    return [
        lesson.reveals.all_text_contents(),
        status(lesson.predictions).all_text_contents(),
        inputs.evaluate_all("all => all.map(({ checked, value }) => [checked, value])"),
        inputs.evaluate_all("all => all.map(({ disabled }) => disabled)"),
        lesson.predictions.locator("li").all_text_contents(),
    ]


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_in_open_cards(lesson: "LessonPage", theme: str) -> None:
    if lesson.committed():
        lesson.start_anew()
    lesson.assert_axe_is_content(theme)


def test_open_cards_fit_into_a_window_of_400_pixels(lesson: "LessonPage") -> None:
    if lesson.committed():
        lesson.start_anew()
    lesson.assert_nothing_overflows(width=400)


def test_nothing_in_a_card_moves_by_itself(lesson: "LessonPage") -> None:
    moving = lesson.cards.evaluate_all(
        """cards => cards.flatMap((card) => [card, ...card.querySelectorAll("*")])
          .filter((part) => {
            const { animationName, transitionDuration } = getComputedStyle(part);
            return animationName !== "none" || transitionDuration !== "0s";
          }).map((part) => part.outerHTML)"""
    )
    assert moving == []


def test_every_control_has_a_name(lesson: "LessonPage") -> None:
    for role in ("radio", "checkbox", "textbox", "slider", "button", "img"):
        controls = lesson.cards.get_by_role(role)  # type: ignore[arg-type]
        named = lesson.cards.get_by_role(role, name=re.compile(r"\w"))  # type: ignore[arg-type]
        assert controls.count() == named.count() > 0


@pytest.mark.parametrize("theme", THEMES)
def test_keyboard_alone_answers_every_kind(lesson: "LessonPage", theme: str) -> None:
    lesson.start_anew()
    lesson.choose_theme(theme)
    for question in KINDS:
        card, reveal = asks(lesson, question), reveals(lesson, question)
        expect(reveal).to_have_attribute("data-open", "false")
        ANSWER[question](lesson.hands_on(card))
        assert question in lesson.committed()
        expect(card.locator("input:enabled, textarea:enabled")).to_have_count(0)
        outcome, words = COMPARED[question]
        expect(reveal.locator("[role=status]").first).to_contain_text(outcome)
        expect(reveal).to_contain_text(words)
    assert lesson.page.evaluate("window.hacked") is None
    expect(lesson.cards.locator("img")).to_have_count(0)


def test_keyboard_goes_to_the_comparison_and_judges_it(lesson: "LessonPage") -> None:
    answer_all(lesson)
    reveal = reveals(lesson, "own-words")
    hands = lesson.hands_on(asks(lesson, "own-words"))
    hands.go("button", "Go to the comparison")
    hands.press("Enter")
    expect(reveal.locator(".ckptlab-label")).to_be_focused()
    hands.card = reveal
    hands.go("checkbox", "Yeast makes gas.")
    hands.press("Space")
    hands.go("button", "Keep my marks")
    hands.press("Enter")
    said = reveal.get_by_text("Kept: 1 of 2 points.")
    expect(said).to_be_focused()


def test_keyboard_makes_a_second_try_beside_the_first(lesson: "LessonPage") -> None:
    answer_all(lesson)
    card, reveal = asks(lesson, "one"), reveals(lesson, "one")
    hands = lesson.hands_on(card)
    hands.go("button", "Second try")
    hands.press("Enter")
    expect(card.get_by_role("radio", name="Blue")).to_be_focused()
    hands.press("ArrowDown")
    hands.go("button", "Commit second try")
    hands.press("Enter")
    expect(status(card)).to_contain_text("Second try: Green.")
    expect(status(card)).to_be_focused()
    expect(reveal).to_contain_text("Blue (80 % sure)")
    expect(reveal).to_contain_text("Green (✓ Right)")
    expect(card.get_by_role("button", name="Second try")).to_have_count(0)


def test_second_try_of_a_reflection_begins_in_its_field_and_keeps_what_is_written(
    lesson: "LessonPage",
) -> None:
    answer_all(lesson)
    card, reveal = asks(lesson, "own-words"), reveals(lesson, "own-words")
    hands = lesson.hands_on(card)
    hands.go("button", "Second try")
    hands.press("Enter")
    field = card.get_by_role("textbox")
    expect(field).to_be_focused()
    field.fill("Yeast makes gas, and gluten holds it.")
    reveal.get_by_role("checkbox", name="Gluten holds the gas.").press("Space")
    reveal.get_by_role("button", name="Keep my marks").press("Enter")
    expect(reveal.get_by_text("Kept:")).to_be_visible()
    expect(field).to_have_value("Yeast makes gas, and gluten holds it.")
    expect(field).to_be_enabled()
    card.get_by_role("button", name="Commit second try").press("Enter")
    expect(status(card)).to_contain_text("Second try: Yeast makes gas, and gluten")


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_in_committed_cards(lesson: "LessonPage", theme: str) -> None:
    answer_all(lesson)
    lesson.assert_axe_is_content(theme)


def test_committed_cards_fit_into_a_window_of_400_pixels(lesson: "LessonPage") -> None:
    answer_all(lesson)
    lesson.assert_nothing_overflows(width=400)


def test_answers_outlive_a_reload_of_the_page(lesson: "LessonPage") -> None:
    answer_all(lesson)
    before = seen(lesson)
    lesson.reload()
    lesson.run_all()
    expect(lesson.predictions).to_have_count(len(KINDS))
    assert seen(lesson) == before


def test_answers_outlive_a_restart_of_the_kernel(lesson: "LessonPage") -> None:
    answer_all(lesson)
    before = seen(lesson)
    lesson.restart_kernel_and_run_all()
    expect(lesson.predictions).to_have_count(len(KINDS))
    assert seen(lesson) == before


def test_double_click_commits_once_and_leaves_the_second_try(
    lesson: "LessonPage",
) -> None:
    lesson.start_anew()
    card, reveal = asks(lesson, "several"), reveals(lesson, "several")
    card.get_by_role("checkbox", name="A mole").check()
    card.get_by_role("button", name="Commit").dblclick()
    expect(reveal).to_have_attribute("data-open", "true")
    expect(card.get_by_role("button", name="Second try")).to_be_visible()
    expect(reveal).not_to_contain_text("Second try")


def test_long_words_stay_inside_a_card(lesson: "LessonPage") -> None:
    lesson.start_anew()
    card = asks(lesson, "own-words")
    card.get_by_role("textbox").fill("x" * 300)
    card.get_by_role("radio", name="80 %").check()
    card.get_by_role("button", name="Commit").click()
    expect(status(card)).to_contain_text("Committed: xxx")
    lesson.assert_nothing_overflows(width=400)


def test_keyboard_opens_an_answer_without_a_prediction(lesson: "LessonPage") -> None:
    lesson.start_anew()
    card, reveal = asks(lesson, "several"), reveals(lesson, "several")
    hands = lesson.hands_on(reveal)
    hands.go("button", "Show me anyway")
    hands.press("Enter")
    expect(reveal.locator("[role=status]")).to_have_text("Opened without a prediction.")
    expect(reveal.locator(".ckptlab-label")).to_be_focused()
    expect(reveal).to_contain_text("Two of the three do.")
    expect(status(card)).to_contain_text("Opened without a prediction.")
    assert "several" not in lesson.committed()


def test_keyboard_erases_everything_after_being_asked(lesson: "LessonPage") -> None:
    lesson.start_anew()
    answer_amount(lesson.hands_on(asks(lesson, "amount")))
    progress = lesson.cards.last
    hands = lesson.hands_on(progress)
    hands.go("button", "Refresh")
    hands.press("Enter")
    expect(status(progress)).to_have_text("Read anew.")
    hands.go("button", "Erase all my answers")
    hands.press("Enter")
    keep = progress.get_by_role("button", name="Keep them")
    expect(keep).to_be_focused()
    expect(progress.get_by_role("group", name="Erase 1 prediction")).to_be_visible()
    hands.press("Enter")
    assert "amount" in lesson.committed()
    expect(progress.get_by_role("button", name="Erase all my answers")).to_be_focused()
    hands.press("Enter")
    hands.go("button", "Erase for good")
    hands.press("Enter")
    expect(status(progress)).to_contain_text("Erased: 1 prediction.")
    assert lesson.committed() == set()
    expect(asks(lesson, "amount").get_by_role("textbox")).to_be_enabled()
    expect(reveals(lesson, "amount")).to_have_attribute("data-open", "false")
