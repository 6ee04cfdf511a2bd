"""Lesson 01 in JupyterLab, as learners meet it: by mouse, keyboard, and axe."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Locator, expect

from ckptlab.course.kinds.exercise import Exercise
from ckptlab.course.questions import load_bank

if TYPE_CHECKING:
    from conftest import LessonPage

pytestmark = pytest.mark.browser

NAME = "01_weights_are_not_the_main_cost"
BANK = load_bank(
    Path(__file__).parents[2] / "lessons" / "questions" / f"{NAME}.toml"
).questions
QUESTIONS = [id for id, question in BANK.items() if not isinstance(question, Exercise)]
ANSWERS = {  # what a test commits where it matters to nobody
    "mlp-batch-32": "The weights",
    "mlp-batch-2048": "12",
    "gpt2-batch-1": "The weights: a batch of one is as small as it gets",
    "gpt2-batch-32": "3 GB",
}
THEMES = ("JupyterLab Light", "JupyterLab Dark")
HOSTILE = '<img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def lesson(open_lesson: Callable[[str], "LessonPage"]) -> "LessonPage":
    lesson = open_lesson(NAME)
    lesson.start_anew()
    return lesson


def ask(lesson: "LessonPage", question: str) -> tuple[Locator, Locator]:
    """The prediction and the reveal of a question that is still open."""
    if question in lesson.committed():
        lesson.start_anew()
    number = QUESTIONS.index(question)
    return lesson.predictions.nth(number), lesson.reveals.nth(number)


def ask_all(lesson: "LessonPage") -> None:
    if lesson.committed():
        lesson.start_anew()
    expect(lesson.predictions).to_have_count(len(QUESTIONS))
    expect(lesson.reveals).to_have_count(len(QUESTIONS))


def answer_all(lesson: "LessonPage") -> None:
    for number, question in enumerate(QUESTIONS):
        if question in lesson.committed():
            continue
        card = lesson.predictions.nth(number)
        field = card.get_by_role("textbox")
        if field.count():
            field.fill(ANSWERS[question])
        else:
            card.get_by_role("radio", name=ANSWERS[question], exact=True).check()
        if BANK[question].asks_confidence:
            card.get_by_role("radio", name="80 %").check()
        commit(card)
    for number in range(len(QUESTIONS)):
        expect(lesson.reveals.nth(number)).to_have_attribute("data-open", "true")


def commit(prediction: Locator) -> None:
    prediction.get_by_role("button", name="Commit prediction").click()


def expect_open(prediction: Locator, reveal: Locator) -> None:
    """The question still waits: the form can be used, the reveal shows nothing."""
    expect(prediction.get_by_role("button", name="Commit prediction")).to_be_enabled()
    expect(prediction.locator("input:disabled")).to_have_count(0)
    expect(reveal).to_have_attribute("data-open", "false")
    expect(reveal).not_to_contain_text("Measured")


def expect_sealed(prediction: Locator, committed: str) -> None:
    expect(status(prediction)).to_contain_text(f"Committed: {committed}.")
    expect(prediction.locator("input:enabled")).to_have_count(0)
    expect(prediction.locator("button[type=submit]")).to_have_attribute("hidden", "")
    expect(prediction.get_by_role("alert")).to_be_empty()


def status(card: Locator) -> Locator:
    return card.locator("p[role=status]")


def compared(reveal: Locator) -> dict[str, str]:
    expect(reveal).to_have_attribute("data-open", "true")
    names, values = reveal.locator("dt"), reveal.locator("dd")
    return dict(zip(names.all_text_contents(), values.all_text_contents(), strict=True))


def sentences(markdown: str) -> list[str]:
    """The sentences of a text, without their markup and the values filled in."""
    plain = " ".join(re.sub(r"[*`]", "", markdown).split())
    parts = re.split(r"\{\w+\}|(?<=[.:?]) ", plain)
    return [part.strip() for part in parts if len(part.strip()) > 20]


def plain_text(part: Locator) -> str:
    return " ".join((part.text_content() or "").split())


def explanations(question: Any) -> list[str]:
    texts = [question.explanation]
    texts += [text for _, text in question.remarks()]
    return [sentence for text in texts for sentence in sentences(text)]


def has_focus(part: Locator) -> bool:
    return bool(part.evaluate("part => part.contains(document.activeElement)"))


def tab_into(card: Locator, *, presses: int) -> None:
    for _ in range(presses):
        card.page.keyboard.press("Tab")
        if has_focus(card):
            return
    pytest.fail(f"the card was not reached with {presses} presses of Tab")


# -- nobody has answered ----------------------------------------------------------


def test_run_all_runs_every_cell_without_an_error(lesson: "LessonPage") -> None:
    mime = "[data-mime-type='application/vnd.jupyter.{}']"
    complaints = mime.format("error"), mime.format("stderr")
    assert lesson.outputs.locator(", ".join(complaints)).all_text_contents() == []
    counts = [int(text.strip("[]:")) for text in lesson.counters.all_text_contents()]
    assert counts == list(range(counts[0], counts[0] + len(counts)))


def test_run_all_leaves_every_question_open_and_tells_no_answer(
    lesson: "LessonPage",
) -> None:
    ask_all(lesson)
    for number in range(len(QUESTIONS)):
        expect_open(lesson.predictions.nth(number), lesson.reveals.nth(number))
    shown = " ".join(map(plain_text, lesson.outputs.all()))
    told = [s for id in QUESTIONS for s in explanations(BANK[id]) if s in shown]
    assert told == []


def test_arrow_keys_on_a_slider_change_picture_and_sentence(
    lesson: "LessonPage",
) -> None:
    explorer = lesson.cards.filter(has=lesson.page.get_by_role("slider"))
    slider = explorer.get_by_role("slider", name="Batch size")
    picture, summary = explorer.get_by_role("img"), status(explorer)
    one = plain_text(summary)
    weights, activations = re.match(
        r"(Weights .+?), (activations .+?)\. ", one
    ).groups()
    slider.focus()
    lesson.page.keyboard.press("ArrowRight")
    expect(summary).to_contain_text(weights)
    expect(summary).not_to_contain_text(activations)
    expect(picture).to_have_attribute("aria-label", plain_text(summary))
    expect(slider).to_have_attribute("aria-valuetext", "2")
    lesson.page.keyboard.press("ArrowLeft")
    expect(summary).to_have_text(one)
    expect(picture).to_have_attribute("aria-label", one)


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_in_open_cards(lesson: "LessonPage", theme: str) -> None:
    ask_all(lesson)
    refused = lesson.predictions.first
    commit(refused)
    expect(refused.get_by_role("alert")).to_have_text("choose one of the answers first")
    lesson.assert_axe_is_content(theme)


def test_open_cards_fit_into_a_window_of_600_pixels(lesson: "LessonPage") -> None:
    ask_all(lesson)
    lesson.assert_nothing_overflows(width=600)


def test_figures_fit_into_a_window_of_600_pixels(lesson: "LessonPage") -> None:
    figures = lesson.page.locator(".jp-RenderedSVG img")
    assert figures.count() >= 2
    with lesson.narrowed_to(600):
        widths = figures.evaluate_all(
            "all => all.map((e) => [e.offsetWidth, e.parentElement.clientWidth])"
        )
    assert all(0 < width <= room for width, room in widths)


# -- answering --------------------------------------------------------------------


def test_keyboard_alone_commits_a_choice_and_opens_its_reveal(
    lesson: "LessonPage",
) -> None:
    question = BANK["mlp-batch-32"]
    prediction, reveal = ask(lesson, question.id)
    press, cell = lesson.page.keyboard.press, lesson.cell_of(prediction)
    cell.locator(".jp-InputPrompt").click()  # the cell is selected, as when it was run
    tab_into(prediction, presses=3)
    press("ArrowDown")
    asked = prediction.get_by_role("group", name="Which takes more memory: its weights")
    expect(asked.get_by_role("radio", name="The activations")).to_be_checked()
    press("Tab")
    expect(prediction.get_by_role("button")).to_be_focused()
    press("Enter")
    expect_sealed(prediction, "The activations")
    expect(status(prediction)).to_be_focused()
    assert compared(reveal) == {
        "You predicted": "The activations",
        "Measured": "The weights",
    }
    text = plain_text(reveal)
    chosen, others = question.choice("activations"), {"weights", "equal"}
    assert all(s in text for s in sentences(chosen.feedback + question.explanation))
    unfit = [s for id in others for s in sentences(question.choice(id).feedback)]
    assert not [sentence for sentence in unfit if sentence in text]


def test_keyboard_leaves_the_card_for_the_notebook_again(lesson: "LessonPage") -> None:
    prediction = lesson.predictions.first
    cell = lesson.cell_of(prediction)
    prediction.evaluate(
        "card => card.querySelector('input:enabled, [tabindex]').focus()"
    )
    lesson.page.keyboard.press("Shift+Tab")
    assert not has_focus(prediction)
    lesson.page.keyboard.press("ArrowDown")
    number = int(cell.get_attribute("data-windowed-list-index") or "")
    expect(lesson.selected_cell).to_have_attribute(
        "data-windowed-list-index", str(number + 1)
    )


def test_number_that_cannot_be_read_is_refused_and_stays_in_the_field(
    lesson: "LessonPage",
) -> None:
    prediction, reveal = ask(lesson, "mlp-batch-2048")
    n_cells = lesson.cells.count()
    field = prediction.get_by_role("textbox", name="How many times the memory of")
    field.focus()
    rubbish = "a dozen, by x"  # a, b, d, x and y are commands of the notebook
    lesson.page.keyboard.type(rubbish)
    lesson.page.keyboard.press("Enter")
    expect(prediction.get_by_role("alert")).to_have_text(
        f"'{rubbish}' cannot be read; type how many times, as a number, such as '2.5'"
    )
    expect(field).to_have_value(rubbish)
    expect(status(prediction)).to_be_empty()
    expect_open(prediction, reveal)
    assert "mlp-batch-2048" not in lesson.committed()
    assert lesson.cells.count() == n_cells


def test_number_is_committed_with_enter_and_compared(lesson: "LessonPage") -> None:
    question = BANK["mlp-batch-2048"]
    prediction, reveal = ask(lesson, question.id)
    field = prediction.get_by_role("textbox")
    field.fill("8")
    lesson.page.keyboard.press("Enter")
    expect_sealed(prediction, "8 times")
    expect(field).to_have_value("8 times")
    measured = float(compared(reveal)["Measured"].removesuffix(" times"))
    assert measured == pytest.approx(question.answer, rel=0.01)
    assert compared(reveal)["You predicted"] == "8 times"
    text = plain_text(reveal)
    factor = re.search(r"Too high by a factor of ([\d.]+)\.", text)
    assert float(factor[1]) == pytest.approx(8 / measured, rel=0.01)
    assert all(
        s in text for s in sentences(question.tolerance.too_high + question.explanation)
    )
    assert question.id in lesson.committed()


def test_question_with_confidence_is_refused_without_it_then_accepted(
    lesson: "LessonPage",
) -> None:
    prediction, reveal = ask(lesson, "gpt2-batch-1")
    answer = "The activations, even at a batch of one"
    prediction.get_by_role("radio", name=answer).check()
    commit(prediction)
    expect(prediction.get_by_role("alert")).to_have_text("say how sure you are first")
    expect_open(prediction, reveal)
    expect(prediction.get_by_role("radio", name=answer)).to_be_checked()
    group = prediction.get_by_role("group", name="How sure are you?")
    group.get_by_role("radio", name="80 %").check()
    commit(prediction)
    expect_sealed(prediction, f"{answer} (80 % sure)")
    assert compared(reveal) == {
        "You predicted": f"{answer} (80 % sure)",
        "Measured": answer,
    }
    expect(reveal).to_contain_text("Your prediction holds.")


def test_markup_that_was_typed_is_shown_as_text_and_never_runs(
    lesson: "LessonPage",
) -> None:
    prediction, _ = ask(lesson, "gpt2-batch-32")
    prediction.get_by_role("radio", name="50 %").check()
    prediction.get_by_role("textbox").fill(HOSTILE)
    commit(prediction)
    expect(prediction.get_by_role("alert")).to_contain_text(HOSTILE)
    expect(prediction.locator("img")).to_have_count(0)
    assert lesson.page.evaluate("window.hacked") is None


# -- everything is answered -------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_in_committed_cards(lesson: "LessonPage", theme: str) -> None:
    answer_all(lesson)
    lesson.assert_axe_is_content(theme)


def test_committed_cards_fit_into_a_window_of_600_pixels(lesson: "LessonPage") -> None:
    answer_all(lesson)
    lesson.assert_nothing_overflows(width=600)


def test_answers_outlive_a_restart_of_the_kernel(lesson: "LessonPage") -> None:
    def seen() -> list[Any]:
        inputs = lesson.predictions.locator("input")
        return [
            lesson.reveals.all_text_contents(),
            status(lesson.predictions).all_text_contents(),
            inputs.evaluate_all("all => all.map(({ checked }) => checked)"),
            inputs.evaluate_all("all => all.map(({ disabled }) => disabled)"),
        ]

    answer_all(lesson)
    before = seen()
    assert all(before[-1])
    lesson.restart_kernel_and_run_all()
    assert lesson.counters.first.text_content() == "[1]:"
    expect(lesson.predictions).to_have_count(len(QUESTIONS))
    expect(lesson.reveals).to_have_count(len(QUESTIONS))
    assert seen() == before
