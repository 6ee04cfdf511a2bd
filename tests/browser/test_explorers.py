"""Explorers in JupyterLab: by keyboard, without flicker, and never behind."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, expect

if TYPE_CHECKING:
    from conftest import LessonPage

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def explorer(open_lesson: Callable[[str], "LessonPage"]) -> Locator:
    """One whose picture takes 0.3 s, and that counts how often it was drawn."""
    lesson = open_lesson("slow_explorer")
    lesson.run_all()
    return lesson.cards.first


def summary(explorer: Locator) -> Locator:
    return explorer.locator(".ckptlab-status")


def drawn(explorer: Locator) -> int:
    text = summary(explorer).text_content() or ""
    return int(re.findall(r"picture (\d+)", text)[0])


def test_drag_over_many_values_asks_for_few_pictures_and_ends_with_the_last(
    explorer: Locator,
) -> None:
    before = drawn(explorer)
    slider = explorer.get_by_role("slider", name="Size")
    slider.focus()
    for _ in range(20):
        explorer.page.keyboard.press("ArrowRight")
    expect(summary(explorer)).to_contain_text("Size 20,")
    assert 2 <= drawn(explorer) - before <= 10
    expect(slider).to_have_attribute("aria-valuetext", "20")


def test_old_picture_stands_until_the_new_one_is_there(explorer: Locator) -> None:
    seen = explorer.page.evaluate_handle(
        """card => {
          const seen = [];
          const look = () => seen.push([card.querySelectorAll("svg").length,
            card.querySelector(".ckptlab-status").textContent]);
          new MutationObserver(look).observe(card,
            { childList: true, subtree: true, characterData: true });
          return seen;
        }""",
        explorer.element_handle(),
    )
    explorer.get_by_role("slider", name="Size").focus()
    for _ in range(5):
        explorer.page.keyboard.press("ArrowLeft")
    expect(summary(explorer)).to_contain_text("Size 15,")
    assert all(n_pictures == 1 and words for n_pictures, words in seen.json_value())


def test_every_control_is_worked_by_the_keyboard_and_reset(explorer: Locator) -> None:
    press = explorer.page.keyboard.press
    explorer.get_by_role("button", name="Next").press("Enter")
    expect(summary(explorer)).to_contain_text("step 2,")
    explorer.get_by_role("button", name="Back").press("Enter")
    expect(summary(explorer)).to_contain_text("step 1,")
    explorer.get_by_role("combobox", name="Colour").focus()
    press("ArrowDown")
    expect(summary(explorer)).to_contain_text("colour blue,")
    switch = explorer.get_by_role("button", name="Light")
    expect(switch).to_have_attribute("aria-pressed", "false")
    expect(switch).to_have_text("Lightoff")
    switch.press("Space")
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(summary(explorer)).to_contain_text("light True,")
    explorer.get_by_role("button", name="Reset").press("Enter")
    expect(summary(explorer)).to_contain_text("Size 0, step 1, colour red, light False")
    expect(switch).to_have_text("Lightoff")
    expect(explorer.get_by_role("slider", name="Size")).to_have_value("0")


# -- those of the lessons ------------------------------------------------------------

NAMES = sorted(
    path.stem
    for path in (Path(__file__).parents[2] / "lessons").glob("*.ipynb")
    if "explore_" in path.read_text(encoding="utf-8")
)


@pytest.fixture(scope="module", params=NAMES)
def lesson(
    request: pytest.FixtureRequest, open_lesson: Callable[[str], "LessonPage"]
) -> "LessonPage":
    lesson = open_lesson(request.param)
    lesson.run_all()
    return lesson


def of(lesson: "LessonPage") -> Locator:
    reset = lesson.page.get_by_role("button", name="Reset", exact=True)
    return lesson.cards.filter(has=reset)


def settle(explorer: Locator, before: str) -> str:
    """What the sentence says once it has changed."""
    expect(summary(explorer)).not_to_have_text(before)
    return summary(explorer).text_content() or ""


def test_keyboard_works_every_control_of_a_lessons_explorer(
    lesson: "LessonPage",
) -> None:
    explorer = of(lesson)
    start = summary(explorer).text_content() or ""
    for slider in explorer.get_by_role("slider").all():
        slider.focus()
        at_end = slider.input_value() == slider.get_attribute("max")
        lesson.page.keyboard.press("Home" if at_end else "End")
        settle(explorer, start)
        explorer.get_by_role("button", name="Reset").press("Enter")
        expect(summary(explorer)).to_have_text(start)
    for control in explorer.get_by_role("combobox").all():
        control.focus()
        is_last = control.evaluate("e => e.selectedIndex === e.options.length - 1")
        lesson.page.keyboard.press("ArrowUp" if is_last else "ArrowDown")
        settle(explorer, start)
        explorer.get_by_role("button", name="Reset").press("Enter")
        expect(summary(explorer)).to_have_text(start)
    for switch in explorer.locator("button[aria-pressed]").all():
        pressed = switch.get_attribute("aria-pressed")
        switch.press("Space")
        settle(explorer, start)
        assert switch.get_attribute("aria-pressed") != pressed
        explorer.get_by_role("button", name="Reset").press("Enter")
        expect(summary(explorer)).to_have_text(start)
    n_controls = explorer.locator("input, select, button[aria-pressed]").count()
    assert n_controls >= 1


def test_picture_of_a_lessons_explorer_says_in_words_what_it_shows(
    lesson: "LessonPage",
) -> None:
    explorer = of(lesson)
    picture = explorer.get_by_role("img")
    expect(picture).to_have_attribute(
        "aria-label", summary(explorer).text_content() or ""
    )


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_axe_finds_nothing_in_a_whole_lesson(lesson: "LessonPage", theme: str) -> None:
    lesson.assert_axe_is_content(theme)


def test_whole_lesson_fits_into_a_window_of_600_pixels(lesson: "LessonPage") -> None:
    lesson.assert_nothing_overflows(width=600)
