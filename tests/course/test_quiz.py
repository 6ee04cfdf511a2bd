"""Cards: a prediction is sealed, a reveal stays closed until then, text is text."""

import gc
import re
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances

from ckptlab.course import quiz
from ckptlab.course.card import WIDGET_VIEW, Card, HtmlCard
from ckptlab.course.progress import AnswerBook, CommittedAnswer
from ckptlab.course.questions import load_bank
from ckptlab.errors import (
    AnswerError,
    AnswerKeyError,
    QuestionError,
    UnknownQuestionError,
)

EVIL = "<img src=x onerror=alert(1)>"
HTML = "text/html"

BANK = """
title = "A lesson"

[[question]]
id = "amount"
kind = "number"
unit = "bytes"
answer = 123_456_789
prompt = "How **much** of {weights}?"
explanation = "The zebra explains {secret}."
too_low = "More than that, by the yak."
too_high = "Less than that, by the gnu."

[[question]]
id = "pick"
kind = "choice"
confidence = true
prompt = "Which?"
explanation = "The quagga explains."
answer = "a"
[[question.choice]]
id = "a"
text = "This one"
feedback = "The okapi judged well."
[[question.choice]]
id = "b"
text = "That one"
feedback = "The kudu was misled."

[[question]]
id = "task"
kind = "exercise"
answer = 7
prompt = "Find it."
explanation = "At {attempt} it is {ratio}."
too_low = "At {attempt} only {ratio}."
too_high = "At {attempt} already {ratio}."
"""
SECRETS = ["123456789", "118 MiB", "zebra", "octarine", "yak", "gnu", "quagga", "okapi"]


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of answers of a session that has not opened a lesson yet."""
    path = tmp_path / "answers.jsonl"
    monkeypatch.setenv("CKPTLAB_ANSWERS", str(path))
    monkeypatch.setattr(quiz, "_session", quiz._Session())
    return path


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    file = tmp_path / "lesson.toml"
    file.write_text(BANK)
    open_lesson(file)
    return file


def open_lesson(bank: Path) -> None:
    """What a fresh kernel does: nothing is left of the session but the disk."""
    quiz.open_lesson(load_bank(bank))


def predict_amount() -> quiz.PredictionCard:
    return quiz.predict("amount", weights="3 MiB")


def reveal_amount(measured: object = 123_456_789) -> quiz.RevealCard:
    return quiz.reveal("amount", measured=measured, secret="octarine")


def reveal_pick() -> quiz.RevealCard:
    return quiz.reveal("pick", measured="a")


def send(card: Card, content: dict[str, Any]) -> None:
    """A message as the browser's part of the card sends it."""
    data = {"method": "custom", "content": content}
    card._handle_msg({"content": {"data": data}, "buffers": []})


def state(card: Card) -> dict[str, Any]:
    """What reaches the browser, its own code apart."""
    return {k: v for k, v in card.get_state().items() if k not in ("_esm", "_css")}


def twin(card: Card) -> dict[str, str]:
    bundle = card._repr_mimebundle_()
    return {kind: data for kind, data in bundle.items() if kind.startswith("text/")}


def measure(number: int) -> float:
    return number / 6


# -- before a lesson is open ---------------------------------------------------------


def test_predicting_before_the_first_cell_says_to_run_it() -> None:
    with pytest.raises(UnknownQuestionError, match=r"run its first cell, lesson\("):
        quiz.predict("amount")


def test_revealing_before_the_first_cell_says_to_run_it() -> None:
    with pytest.raises(UnknownQuestionError, match=r"run its first cell, lesson\("):
        quiz.reveal("amount", measured=1)


def test_checking_before_the_first_cell_says_to_run_it() -> None:
    with pytest.raises(UnknownQuestionError, match=r"run its first cell, lesson\("):
        quiz.check("task", None, measure)


def test_progress_can_be_asked_for_before_the_first_cell(path: Path) -> None:
    assert quiz.progress().path == str(path)


# -- the prediction ------------------------------------------------------------------


@pytest.mark.usefixtures("bank")
def test_form_of_a_choice_offers_every_choice_and_confidence() -> None:
    form = quiz.predict("pick").form
    assert [choice["id"] for choice in form["choices"]] == ["a", "b"]
    assert [entry["percent"] for entry in form["confidences"]] == [20, 50, 80, 95]
    assert "sample" not in form


@pytest.mark.usefixtures("bank")
def test_form_of_a_number_shows_a_sample_and_its_prompt_filled() -> None:
    form = predict_amount().form
    assert form["prompt"] == "<p>How <strong>much</strong> of 3 MiB?</p>"
    assert (form["sample"], form["confidences"]) == ("64 MiB", [])
    assert "choices" not in form


@pytest.mark.usefixtures("bank")
def test_prediction_card_knows_nothing_of_the_answer() -> None:
    cards = [predict_amount(), quiz.predict("pick")]
    told = str([(state(card), twin(card)) for card in cards])
    assert not [secret for secret in SECRETS if secret in told]


@pytest.mark.usefixtures("bank")
def test_message_from_the_browser_commits() -> None:
    card = predict_amount()
    send(card, {"answer": " 64 mib ", "confidence": None})
    assert card.committed["answer"] == 2**26
    assert card.committed["text"] == "64 MiB"
    assert card.error == ""


@pytest.mark.usefixtures("bank")
def test_committed_answer_is_on_the_disk_at_once(path: Path) -> None:
    quiz.predict("pick").commit("b", 80)
    (answer,) = AnswerBook(path).answers()
    assert (answer.lesson, answer.question) == ("lesson", "pick")
    assert (answer.answer, answer.confidence) == ("b", 80)


@pytest.mark.parametrize("typed", ["", "apples", EVIL, "-1 MiB", "nan", None, [], {}])
@pytest.mark.usefixtures("bank")
def test_bad_input_is_told_and_commits_nothing(typed: object, path: Path) -> None:
    card = predict_amount()
    send(card, {"answer": typed})
    assert "64 MiB" in card.error
    assert card.committed == {}
    assert not path.exists()


@pytest.mark.usefixtures("bank")
def test_empty_message_is_told_and_commits_nothing() -> None:
    card = quiz.predict("pick")
    send(card, {})
    assert card.error == "choose one of the answers first"
    assert card.committed == {}


@pytest.mark.usefixtures("bank")
def test_error_goes_with_the_next_good_answer() -> None:
    card = predict_amount()
    send(card, {"answer": "apples"})
    card.commit("1 MiB")
    assert card.error == ""
    assert card.committed["text"] == "1 MiB"


@pytest.mark.usefixtures("bank")
def test_same_mistake_twice_is_told_twice() -> None:
    card, told = predict_amount(), []
    card.observe(lambda change: told.append(change["new"]), "error")
    send(card, {"answer": "apples"})
    send(card, {"answer": "apples"})
    assert [bool(text) for text in told] == [True, False, True]


@pytest.mark.parametrize("confidence", [None, 0, 51, 100, "50", True])
@pytest.mark.usefixtures("bank")
def test_question_that_asks_confidence_refuses_to_do_without(
    confidence: object, path: Path
) -> None:
    card = quiz.predict("pick")
    send(card, {"answer": "a", "confidence": confidence})
    assert card.error == "say how sure you are first"
    assert card.committed == {}
    assert not path.exists()


@pytest.mark.parametrize("confidence", quiz.CONFIDENCES)
@pytest.mark.usefixtures("bank")
def test_every_confidence_on_offer_is_taken(confidence: int) -> None:
    card = quiz.predict("pick")
    send(card, {"answer": "a", "confidence": confidence})
    assert card.committed["text"] == f"This one ({confidence} % sure)"


@pytest.mark.usefixtures("bank")
def test_commit_in_python_raises_what_the_card_would_show() -> None:
    with pytest.raises(AnswerError, match="how sure"):
        quiz.predict("pick").commit("a")


@pytest.mark.usefixtures("bank")
def test_second_commit_changes_nothing(path: Path) -> None:
    card, reveal = quiz.predict("pick"), reveal_pick()
    card.commit("b", 20)
    sealed, opened, kept = dict(card.committed), reveal.body_html, path.read_bytes()
    send(card, {"answer": "a", "confidence": 95})
    card.commit("a", 95)
    assert card.committed == sealed
    assert reveal.body_html == opened
    assert path.read_bytes() == kept


@pytest.mark.usefixtures("bank")
def test_second_card_of_a_question_cannot_change_the_answer() -> None:
    first, second = quiz.predict("pick"), quiz.predict("pick")
    first.commit("b", 20)
    second.commit("a", 95)
    assert second.committed == first.committed


def test_fresh_session_shows_the_earlier_answer_sealed(bank: Path) -> None:
    card = quiz.predict("pick")
    card.commit("b", 20)
    open_lesson(bank)
    assert quiz.predict("pick").committed == card.committed


@pytest.mark.usefixtures("bank")
def test_answer_that_could_not_be_saved_is_told_on_the_card(path: Path) -> None:
    path.mkdir()
    card = predict_amount()
    card.commit("1 MiB")
    assert card.committed["warning"].startswith(f"not saved to {path}")
    assert card.committed["warning"] in quiz.progress().live_html


@pytest.mark.usefixtures("bank")
def test_prompt_that_asks_for_a_missing_fact_is_refused() -> None:
    with pytest.raises(QuestionError, match=r"'amount', key 'prompt' .*\['weights'\]"):
        quiz.predict("amount")


@pytest.mark.usefixtures("bank")
def test_cards_of_the_wrong_kind_are_told_the_right_one() -> None:
    with pytest.raises(UnknownQuestionError, match=r"show it with check\(\)"):
        quiz.predict("task")
    with pytest.raises(UnknownQuestionError, match=r"show it with predict\(\)"):
        quiz.check("pick", None, measure)


# -- the reveal ----------------------------------------------------------------------


@pytest.mark.usefixtures("bank")
def test_closed_reveal_sends_nothing_of_what_was_measured() -> None:
    cards = [reveal_amount(), reveal_pick()]
    assert [card.body_html for card in cards] == ["", ""]
    told = str([state(card) for card in cards])
    assert not [secret for secret in SECRETS if secret in told]


@pytest.mark.usefixtures("bank")
def test_bad_input_leaves_the_reveal_closed() -> None:
    card, reveal = predict_amount(), reveal_amount()
    send(card, {"answer": "apples"})
    assert reveal.body_html == ""


@pytest.mark.usefixtures("bank")
def test_reveal_opens_by_itself_on_commit() -> None:
    card, reveal = predict_amount(), reveal_amount()
    send(card, {"answer": "1 MiB"})
    assert "Too low by a factor of 118." in reveal.body_html
    assert "<dt>You predicted</dt><dd>1 MiB</dd>" in reveal.body_html
    assert "<dt>Measured</dt><dd>118 MiB</dd>" in reveal.body_html
    assert "yak" in reveal.body_html
    assert "The zebra explains octarine." in reveal.body_html


@pytest.mark.usefixtures("bank")
def test_every_reveal_of_the_question_opens_and_no_other() -> None:
    first, second, other = reveal_pick(), reveal_pick(), reveal_amount()
    quiz.predict("pick").commit("b", 20)
    assert first.body_html == second.body_html != ""
    assert other.body_html == ""


@pytest.mark.usefixtures("bank")
def test_reveal_that_no_variable_holds_opens_too() -> None:
    model_id = reveal_pick().model_id
    gc.collect()
    quiz.predict("pick").commit("b", 20)
    assert _instances[model_id].body_html != ""


@pytest.mark.usefixtures("bank")
def test_reveal_after_the_commit_is_open_from_the_start() -> None:
    quiz.predict("pick").commit("b", 20)
    assert "The kudu was misled." in reveal_pick().body_html


def test_reveal_is_open_in_a_fresh_session(bank: Path) -> None:
    earlier = reveal_pick()
    quiz.predict("pick").commit("b", 20)
    open_lesson(bank)
    assert reveal_pick().body_html == earlier.body_html != ""


@pytest.mark.parametrize(
    ("answer", "outcome", "sign", "feedback"),
    [
        ("a", "right", "✓ Right", "The okapi judged well."),
        ("b", "wrong", "✗ Not so", "The kudu was misled."),
    ],
)
@pytest.mark.usefixtures("bank")
def test_open_reveal_says_the_outcome_in_words_and_the_feedback_that_fits(
    answer: str, outcome: str, sign: str, feedback: str
) -> None:
    reveal = reveal_pick()
    quiz.predict("pick").commit(answer, 95)
    assert f'data-outcome="{outcome}"><strong>{sign}.</strong>' in reveal.body_html
    assert re.findall(r"The \w+ (?:judged well|was misled)\.", reveal.body_html) == [
        feedback
    ]
    assert "(95 % sure)" in reveal.body_html


@pytest.mark.usefixtures("bank")
def test_measurement_that_contradicts_the_key_raises() -> None:
    with pytest.raises(AnswerKeyError, match=r"measured 64 MiB, .* 118 MiB"):
        reveal_amount(2**26)
    with pytest.raises(AnswerKeyError, match="'pick': measured That one"):
        quiz.reveal("pick", measured="b")


@pytest.mark.usefixtures("bank")
def test_explanation_that_asks_for_a_missing_fact_is_refused() -> None:
    with pytest.raises(QuestionError, match=r"'amount', key 'explanation' .*secret"):
        quiz.reveal("amount", measured=123_456_789)


@pytest.mark.usefixtures("bank")
def test_unknown_question_lists_those_of_the_lesson() -> None:
    with pytest.raises(UnknownQuestionError, match="amount, pick, task"):
        quiz.reveal("pock", measured="a")


# -- twins ---------------------------------------------------------------------------


@pytest.mark.usefixtures("bank")
def test_twins_are_the_same_before_and_after_the_commit() -> None:
    cards = [quiz.predict("pick"), reveal_pick(), quiz.progress()]
    before = [twin(card) for card in cards]
    cards[0].commit("b", 20)
    assert [twin(card) for card in cards] == before


def test_twins_are_the_same_for_every_learner(bank: Path) -> None:
    before = [twin(quiz.predict("pick")), twin(reveal_pick()), twin(quiz.progress())]
    quiz.predict("pick").commit("b", 20)
    open_lesson(bank)
    after = [twin(quiz.predict("pick")), twin(reveal_pick()), twin(quiz.progress())]
    assert after == before


@pytest.mark.usefixtures("bank")
def test_twin_holds_the_answer_in_a_closed_section_only() -> None:
    for card, measured in ((reveal_amount(), "118 MiB"), (reveal_pick(), "This one")):
        bundle = twin(card)
        inside = re.findall(r"<details>(.*?)</details>", bundle[HTML], re.S)
        outside = re.sub(r"<details>.*?</details>", "", bundle[HTML], flags=re.S)
        assert f"Measured: {measured}" in "".join(inside)
        told = outside + bundle["text/plain"]
        assert not [secret for secret in [*SECRETS, measured] if secret in told]


@pytest.mark.usefixtures("bank")
def test_twin_of_a_reveal_has_the_feedback_to_every_answer() -> None:
    assert all(w in twin(reveal_amount())[HTML] for w in ("zebra", "yak", "gnu"))
    assert all(w in twin(reveal_pick())[HTML] for w in ("quagga", "okapi", "kudu"))


@pytest.mark.usefixtures("bank")
def test_twin_of_a_prediction_has_the_prompt_and_every_choice() -> None:
    html = twin(quiz.predict("pick"))[HTML]
    assert all(text in html for text in ("Which?", "This one", "That one"))
    assert "3 MiB" in twin(predict_amount())[HTML]


@pytest.mark.usefixtures("bank")
def test_display_offers_the_widget_beside_its_twin() -> None:
    card = reveal_pick()
    bundle = card._repr_mimebundle_()
    assert set(bundle) == {"text/plain", HTML, WIDGET_VIEW}
    assert bundle[WIDGET_VIEW]["model_id"] == card.model_id


# -- exercises -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempt", "verdict", "feedback"),
    [
        (None, "○ Open", "Not tried yet"),
        (6, "✗ Not yet", "At 6 only 1."),
        (8, "✗ Not yet", "At 8 already 1.33."),
        (7, "✓ Solved", "At 7 it is 1.17."),
    ],
)
@pytest.mark.usefixtures("bank")
def test_report_on_an_attempt_has_a_verdict_and_feedback(
    attempt: int | None, verdict: str, feedback: str
) -> None:
    card = quiz.check("task", attempt, measure)
    assert f"{verdict}." in card.live_html
    assert feedback in card.live_html
    assert twin(card)[HTML] == card.live_html


@pytest.mark.parametrize(
    "attempt", [EVIL, "", 7.5, -1, 0, True, [1], {}, object(), b"\xff", float("nan")]
)
@pytest.mark.usefixtures("bank")
def test_no_attempt_raises(attempt: object) -> None:
    assert "✗ Not yet." in quiz.check("task", attempt, measure).live_html


@pytest.mark.usefixtures("bank")
def test_wrong_key_of_an_exercise_raises_before_any_attempt() -> None:
    with pytest.raises(AnswerKeyError, match="exercise 'task': the answer key 7"):
        quiz.check("task", None, lambda number: number / 7)


# -- progress ------------------------------------------------------------------------


@pytest.mark.usefixtures("bank")
def test_progress_lists_what_was_committed() -> None:
    assert "No prediction committed yet." in quiz.progress().live_html
    quiz.predict("pick").commit("b", 20)
    rows = '<th scope="row">lesson</th><td>pick</td><td>b</td><td>20 %</td>'
    assert rows in quiz.progress().live_html


def test_erasing_progress_lets_the_learner_start_anew(bank: Path, path: Path) -> None:
    quiz.predict("pick").commit("b", 20)
    card = quiz.progress()
    assert card.erase().startswith("Erased: 1.")
    assert "No prediction committed yet." in card.live_html
    assert not path.exists()
    open_lesson(bank)
    assert quiz.predict("pick").committed == {}
    assert reveal_pick().body_html == ""


# -- text is text --------------------------------------------------------------------


def html_of(card: Card) -> str:
    """All that is shown as HTML: `error` and `committed` are shown as text."""
    traits = {k: v for k, v in state(card).items() if k not in ("error", "committed")}
    return str(traits) + twin(card)[HTML]


@pytest.mark.parametrize("typed", [EVIL, f"`{EVIL}", f"\n\n{EVIL}", f"](x) ` {EVIL}"])
@pytest.mark.usefixtures("bank")
def test_attempt_is_shown_as_text(typed: str) -> None:
    html = html_of(quiz.check("task", typed, measure))
    assert "<img" not in html
    assert "&lt;img" in html


@pytest.mark.usefixtures("bank")
def test_refused_answer_reaches_no_html() -> None:
    card, reveal = predict_amount(), reveal_amount()
    send(card, {"answer": EVIL})
    assert EVIL in card.error
    assert "img" not in html_of(card) + html_of(reveal) + html_of(quiz.progress())


def test_answers_of_an_edited_file_are_shown_as_text(bank: Path, path: Path) -> None:
    AnswerBook(path).commit(CommittedAnswer("lesson", "pick", EVIL, 20))
    AnswerBook(path).commit(CommittedAnswer(EVIL, EVIL, EVIL, EVIL))  # type: ignore[arg-type]
    open_lesson(bank)
    cards = [quiz.predict("pick"), reveal_pick(), quiz.progress()]
    html = "".join(html_of(card) for card in cards)
    assert "<img" not in html
    # the table of progress shows them; the cards have no such choice to show
    assert html.count("&lt;img") == 5


def test_answer_that_no_longer_fits_its_question_counts_as_none(
    bank: Path, path: Path
) -> None:
    AnswerBook(path).commit(CommittedAnswer("lesson", "amount", "weights"))
    AnswerBook(path).commit(CommittedAnswer("lesson", "pick", 3.5, 20))
    open_lesson(bank)
    assert predict_amount().committed == {}
    assert (reveal_amount().body_html, reveal_pick().body_html) == ("", "")


def test_reveal_still_opens_by_itself_after_the_first_cell_is_run_again(
    bank: Path,
) -> None:
    reveal = reveal_pick()
    open_lesson(bank)
    quiz.predict("pick").commit("b", 20)
    assert "You predicted" in reveal.body_html


@pytest.mark.usefixtures("bank")
def test_confidence_that_was_not_asked_for_is_not_kept() -> None:
    card = predict_amount()
    card.commit("3 MiB", EVIL)  # type: ignore[arg-type]
    assert card.committed["confidence"] is None


@pytest.mark.usefixtures("bank")
def test_confidence_of_another_kind_is_refused() -> None:
    card = quiz.predict("pick")
    with pytest.raises(AnswerError, match="how sure"):
        card.commit("b", [20])  # type: ignore[arg-type]


def test_path_of_the_answers_is_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bank: Path
) -> None:
    (tmp_path / EVIL).mkdir()
    monkeypatch.setenv("CKPTLAB_ANSWERS", str(tmp_path / EVIL))
    open_lesson(bank)
    predict_amount().commit("1 MiB")  # refused, for there is a folder
    html = html_of(quiz.progress())
    assert "<img" not in html
    assert html.count("&lt;img") == 2


def test_html_card_shows_one_html_where_widgets_run_and_another_elsewhere() -> None:
    card = HtmlCard(live_html="<p>live</p>", twin_html="<p>twin</p>", twin_text="twin")
    assert (state(card)["kind"], state(card)["live_html"]) == ("html", "<p>live</p>")
    assert twin(card) == {"text/plain": "twin", HTML: "<p>twin</p>"}
