"""Cards: a prediction is sealed, a reveal stays closed until then, text is text."""

import gc
import re
from pathlib import Path
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances

from ckptlab.course import quiz
from ckptlab.course.card import WIDGET_VIEW, Card, HtmlCard
from ckptlab.course.prediction_card import CONFIDENCES, PredictionCard
from ckptlab.course.progress import ProgressFile
from ckptlab.course.questions import load_bank
from ckptlab.course.record import Event
from ckptlab.course.reveal_card import RevealCard
from ckptlab.course.review_cards import ReviewCards
from ckptlab.course.session import SESSION, Session
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
topic = "About amount"
kind = "number"
unit = "bytes"
answer = 123_456_789
prompt = "How **much** of {weights}?"
explanation = "The zebra explains {secret}."
too_low = "More than that, by the yak."
too_high = "Less than that, by the gnu."

[[question]]
id = "pick"
topic = "About pick"
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
misconception = "the dingo is a wolf"
feedback = "The kudu was misled."

[[question]]
id = "task"
topic = "About task"
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
    path = tmp_path / "progress.json"
    monkeypatch.setenv("CKPTLAB_PROGRESS", str(path))
    vars(SESSION).update(vars(Session()))
    return path


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    file = tmp_path / "lesson.toml"
    file.write_text(BANK)
    open_lesson(file)
    return file


def open_lesson(bank: Path) -> None:
    """What a fresh kernel does: nothing is left of the session but the disk."""
    vars(SESSION).update(vars(Session()))
    SESSION.open(load_bank(bank))


def predict_amount() -> PredictionCard:
    return quiz.predict("amount", weights="3 MiB")


def reveal_amount(measured: object = 123_456_789) -> RevealCard:
    return quiz.reveal("amount", measured=measured, secret="octarine")


def reveal_pick() -> RevealCard:
    return quiz.reveal("pick", measured="a")


def send(card: Card, content: dict[str, Any]) -> None:
    """A message as the browser's part of the card sends it."""
    data = {"method": "custom", "content": content}
    card._handle_msg({"content": {"data": data}, "buffers": []})


def state(card: Card) -> dict[str, Any]:
    """What reaches the browser, its own code apart."""
    return {k: v for k, v in card.get_state().items() if k not in ("_esm", "_css")}


def twin(card: Card | ReviewCards) -> dict[str, str]:
    bundle = card._repr_mimebundle_()
    return {kind: data for kind, data in bundle.items() if kind.startswith("text/")}


def kept(card: PredictionCard) -> Any:
    """The prediction that a card shows as sealed, or None."""
    return card.state["prediction"]


def body(card: RevealCard) -> str:
    """What an open reveal says; nothing while it is closed."""
    return card.state.get("announcement", "") + card.state.get("body", "")


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
    assert kept(card)["answer"] == 2**26
    assert kept(card)["text"] == "64 MiB"
    assert card.error == ""


@pytest.mark.usefixtures("bank")
def test_committed_answer_is_on_the_disk_at_once(path: Path) -> None:
    quiz.predict("pick").commit("b", 80)
    answer = ProgressFile(path).record("lesson", "pick").prediction
    assert answer is not None
    assert (answer.answer, answer.confidence) == ("b", 80)


@pytest.mark.parametrize("typed", ["", "apples", EVIL, "-1 MiB", "nan", None, [], {}])
@pytest.mark.usefixtures("bank")
def test_bad_input_is_told_and_commits_nothing(typed: object, path: Path) -> None:
    card = predict_amount()
    send(card, {"answer": typed})
    assert "64 MiB" in card.error
    assert kept(card) is None
    assert not path.exists()


@pytest.mark.usefixtures("bank")
def test_empty_message_is_told_and_commits_nothing() -> None:
    card = quiz.predict("pick")
    send(card, {})
    assert card.error == "choose one of the answers first"
    assert kept(card) is None


@pytest.mark.usefixtures("bank")
def test_error_goes_with_the_next_good_answer() -> None:
    card = predict_amount()
    send(card, {"answer": "apples"})
    card.commit("1 MiB")
    assert card.error == ""
    assert kept(card)["text"] == "1 MiB"


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
    assert kept(card) is None
    assert not path.exists()


@pytest.mark.parametrize("confidence", CONFIDENCES)
@pytest.mark.usefixtures("bank")
def test_every_confidence_on_offer_is_taken(confidence: int) -> None:
    card = quiz.predict("pick")
    send(card, {"answer": "a", "confidence": confidence})
    assert kept(card)["text"] == f"This one ({confidence} % sure)"


@pytest.mark.usefixtures("bank")
def test_commit_in_python_raises_what_the_card_would_show() -> None:
    with pytest.raises(AnswerError, match="how sure"):
        quiz.predict("pick").commit("a")


@pytest.mark.usefixtures("bank")
def test_second_commit_of_another_answer_changes_nothing_and_says_so(
    path: Path,
) -> None:
    card, reveal = quiz.predict("pick"), reveal_pick()
    card.commit("b", 20)
    before = (dict(card.state), dict(reveal.state), path.read_bytes())
    send(card, {"do": "commit", "answer": "a", "confidence": 95})
    assert card.error == "this question was answered before, in another window"
    assert (card.state, reveal.state, path.read_bytes()) == before


@pytest.mark.usefixtures("bank")
def test_double_click_is_one_commit(path: Path) -> None:
    card, reveal = predict_amount(), reveal_amount()
    for _ in range(2):
        send(card, {"do": "commit", "answer": "1 MiB"})
    assert card.error == ""
    assert (card.state["stage"], card.state["second"]) == ("revealed", None)
    assert "Second try" not in body(reveal)
    for _ in range(2):
        send(card, {"do": "try again", "answer": "118 MiB"})
    assert card.state["second"]["text"] == "118 MiB"
    assert path.read_bytes().count(b"tried again") == 1


@pytest.mark.usefixtures("bank")
def test_every_message_is_replied_to_even_when_nothing_changes() -> None:
    card = predict_amount()
    for number, typed in enumerate(("apples", "apples", "1 MiB", "1 MiB"), start=1):
        send(card, {"do": "commit", "answer": typed})
        assert card.n_replies == number


@pytest.mark.usefixtures("bank")
def test_second_try_after_erasing_elsewhere_opens_the_question_again(
    path: Path,
) -> None:
    card, reveal = predict_amount(), reveal_amount()
    card.commit("1 MiB")
    assert reveal.state["isOpen"]
    path.unlink()
    send(card, {"do": "try again", "answer": "118 MiB"})
    assert card.error == "your answers were erased meanwhile; predict anew"
    assert card.state["stage"] == "open"
    assert ProgressFile(path).records() == {}


def test_first_cell_again_keeps_what_the_disk_refused(bank: Path, path: Path) -> None:
    path.mkdir()
    predict_amount().commit("1 MiB")
    SESSION.open(load_bank(bank))
    assert kept(predict_amount())["text"] == "1 MiB"
    path.rmdir()
    quiz.predict("pick").commit("b", 20)
    assert len(ProgressFile(path).records()) == 2


def test_markdown_of_a_choice_is_plain_where_no_markup_shows(tmp_path: Path) -> None:
    file = tmp_path / "lesson.toml"
    file.write_text(BANK.replace('"That one"', '"`That` **one** & <so>"'))
    open_lesson(file)
    card, reveal = quiz.predict("pick"), reveal_pick()
    card.commit("b", 20)
    assert kept(card)["text"] == "That one & <so> (20 % sure)"
    assert "<dd><bdi>That one &amp; &lt;so&gt; (20 % sure)</bdi></dd>" in body(reveal)


@pytest.mark.usefixtures("bank")
def test_second_try_after_the_reveal_is_kept_beside_the_first(path: Path) -> None:
    card, reveal = quiz.predict("pick"), reveal_pick()
    card.commit("b", 20)
    assert card.state["stage"] == "revealed"
    card.try_again("a")
    assert card.state["stage"] == "done"
    assert (kept(card)["answer"], card.state["second"]["answer"]) == ("b", "a")
    assert "<dt>You predicted</dt><dd><bdi>That one (20 % sure)</bdi>" in body(reveal)
    assert "<dt>Second try</dt><dd><bdi>This one (✓ Right)</bdi>" in body(reveal)
    assert body(reveal).startswith("✗ Not so.")
    record = ProgressFile(path).record("lesson", "pick")
    assert (record.outcome, record.second_outcome) == ("wrong", "right")


@pytest.mark.usefixtures("bank")
def test_third_try_changes_nothing(path: Path) -> None:
    card, reveal = predict_amount(), reveal_amount()
    card.commit("1 MiB")
    card.try_again("2 MiB")
    before = (dict(card.state), body(reveal), path.read_bytes())
    card.try_again("118 MiB")
    assert (card.state, body(reveal), path.read_bytes()) == before


@pytest.mark.usefixtures("bank")
def test_feedback_to_the_second_try_follows_that_to_the_first() -> None:
    card, reveal = predict_amount(), reveal_amount()
    card.commit("1 MiB")
    assert "yak" in body(reveal)
    assert "gnu" not in body(reveal)
    card.try_again("1 GiB")
    assert body(reveal).index("yak") < body(reveal).index("gnu")


@pytest.mark.usefixtures("bank")
def test_reveal_opens_without_a_prediction_when_asked_and_keeps_that(
    path: Path,
) -> None:
    card, reveal = quiz.predict("pick"), reveal_pick()
    send(reveal, {"do": "show"})
    assert "Opened without a prediction." in body(reveal)
    assert "quagga" in body(reveal)
    assert "You predicted" not in body(reveal)
    assert (card.state["stage"], kept(card)) == ("revealed", None)
    assert ProgressFile(path).record("lesson", "pick").was_shown


@pytest.mark.usefixtures("bank")
def test_answer_after_that_is_a_second_try_and_no_prediction(path: Path) -> None:
    card, reveal = quiz.predict("pick"), reveal_pick()
    reveal.show_anyway()
    card.try_again("a")
    record = ProgressFile(path).record("lesson", "pick")
    assert record.prediction is None
    assert record.second_outcome == "right"
    assert "Second try" in body(reveal)


@pytest.mark.usefixtures("bank")
def test_showing_anyway_after_a_prediction_changes_nothing(path: Path) -> None:
    card, reveal = quiz.predict("pick"), reveal_pick()
    card.commit("b", 20)
    before = (dict(card.state), dict(reveal.state), path.read_bytes())
    send(reveal, {"do": "show"})
    assert (card.state, reveal.state, path.read_bytes()) == before


@pytest.mark.usefixtures("bank")
def test_second_card_of_a_question_cannot_change_the_answer() -> None:
    first, second = quiz.predict("pick"), quiz.predict("pick")
    first.commit("b", 20)
    with pytest.raises(AnswerError, match="answered before"):
        second.commit("a", 95)
    assert second.state == first.state


def test_fresh_session_shows_the_earlier_answer_sealed(bank: Path) -> None:
    card = quiz.predict("pick")
    card.commit("b", 20)
    open_lesson(bank)
    assert kept(quiz.predict("pick")) == kept(card)


@pytest.mark.usefixtures("bank")
def test_answer_that_could_not_be_saved_is_told_on_the_card(path: Path) -> None:
    path.mkdir()
    card = predict_amount()
    card.commit("1 MiB")
    assert card.state["warning"].startswith(f"Not saved to {path}")
    assert card.state["warning"] in quiz.progress().live_html


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
    assert [body(card) for card in cards] == ["", ""]
    told = str([state(card) for card in cards])
    assert not [secret for secret in SECRETS if secret in told]


@pytest.mark.usefixtures("bank")
def test_bad_input_leaves_the_reveal_closed() -> None:
    card, reveal = predict_amount(), reveal_amount()
    send(card, {"answer": "apples"})
    assert body(reveal) == ""


@pytest.mark.usefixtures("bank")
def test_reveal_opens_by_itself_on_commit() -> None:
    card, reveal = predict_amount(), reveal_amount()
    send(card, {"answer": "1 MiB"})
    assert "Too low by a factor of 118." in body(reveal)
    assert "<dt>You predicted</dt><dd><bdi>1 MiB</bdi></dd>" in body(reveal)
    assert "<dt>Measured</dt><dd><bdi>118 MiB</bdi></dd>" in body(reveal)
    assert "yak" in body(reveal)
    assert "The zebra explains octarine." in body(reveal)


@pytest.mark.usefixtures("bank")
def test_every_reveal_of_the_question_opens_and_no_other() -> None:
    first, second, other = reveal_pick(), reveal_pick(), reveal_amount()
    quiz.predict("pick").commit("b", 20)
    assert body(first) == body(second) != ""
    assert body(other) == ""


@pytest.mark.usefixtures("bank")
def test_reveal_that_no_variable_holds_opens_too() -> None:
    model_id = reveal_pick().model_id
    gc.collect()
    quiz.predict("pick").commit("b", 20)
    assert body(_instances[model_id]) != ""


@pytest.mark.usefixtures("bank")
def test_reveal_after_the_commit_is_open_from_the_start() -> None:
    quiz.predict("pick").commit("b", 20)
    assert "The kudu was misled." in body(reveal_pick())


def test_reveal_is_open_in_a_fresh_session(bank: Path) -> None:
    earlier = reveal_pick()
    quiz.predict("pick").commit("b", 20)
    open_lesson(bank)
    assert body(reveal_pick()) == body(earlier) != ""


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
    assert reveal.state["outcome"] == outcome
    assert reveal.state["announcement"].startswith(f"{sign}. ")
    assert re.findall(r"The \w+ (?:judged well|was misled)\.", body(reveal)) == [
        feedback
    ]
    assert "(95 % sure)" in body(reveal)


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
def test_progress_counts_what_was_committed_and_how_right_it_was() -> None:
    row = '<th scope="row">lesson: A lesson</th><td>{} of 2</td><td>{}</td>'
    assert row.format(0, 0) in quiz.progress().live_html
    reveal_pick()
    quiz.predict("pick").commit("a", 20)
    assert row.format(1, 1) in quiz.progress().live_html


@pytest.mark.usefixtures("bank")
def test_progress_lists_every_prediction_with_its_second_try() -> None:
    reveal_pick()
    card = quiz.predict("pick")
    card.commit("b", 95)
    card.try_again("a")
    predict_amount().commit("1 MiB")
    html = quiz.progress().live_html
    assert "<summary>Your predictions in lesson lesson</summary>" in html
    first = "<td>That one (95 % sure)</td><td>✗ Not so</td><td>This one (✓ Right)</td>"
    assert f'<th scope="row">About pick</th>{first}' in html
    assert '<th scope="row">About amount</th><td>1 MiB</td><td>–</td><td>–</td>' in html


@pytest.mark.usefixtures("bank")
def test_progress_says_what_to_look_at_again_and_the_belief_behind_it() -> None:
    reveal_pick()
    quiz.predict("pick").commit("b", 95)
    html = quiz.progress().live_html
    assert "<strong>About pick</strong> (lesson lesson, missed, 95 % sure)" in html
    assert "the dingo is a wolf" in html
    assert 'aria-label="95 % sure: 0 of 1 right"' in html


def test_erasing_progress_lets_the_learner_start_anew(bank: Path, path: Path) -> None:
    quiz.predict("pick").commit("b", 20)
    card = quiz.progress()
    assert "erase(sure=True)" in card.erase()
    assert path.exists()
    assert card.erase(sure=True).startswith("Erased: 1 prediction.")
    assert "<td>0 of 2</td>" in card.live_html
    assert not path.exists()
    open_lesson(bank)
    assert kept(quiz.predict("pick")) is None
    assert body(reveal_pick()) == ""


# -- text is text --------------------------------------------------------------------


def html_of(card: Card) -> str:
    """All that is shown as HTML; answers in a state and `error` are shown as text."""
    traits = {k: v for k, v in state(card).items() if k not in ("error", "said")}
    if isinstance(card, PredictionCard):
        traits.pop("state")
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
    ProgressFile(path).add(Event("lesson", "pick", "predicted", EVIL, 20))
    ProgressFile(path).add(Event(EVIL, EVIL, "predicted", EVIL))
    ProgressFile(path).add(Event(EVIL, EVIL, "revealed", outcome="wrong"))
    open_lesson(bank)
    cards = [quiz.predict("pick"), reveal_pick(), quiz.progress()]
    html = "".join(html_of(card) for card in cards)
    assert "<img" not in html
    # progress shows lesson, question and answer; no card has such a choice to show
    assert html.count("&lt;img") == 6


def test_answer_that_no_longer_fits_its_question_counts_as_none(
    bank: Path, path: Path
) -> None:
    ProgressFile(path).add(Event("lesson", "amount", "predicted", "weights"))
    ProgressFile(path).add(Event("lesson", "pick", "predicted", 3.5, 20))
    open_lesson(bank)
    assert kept(predict_amount()) is None
    assert (body(reveal_amount()), body(reveal_pick())) == ("", "")
    predict_amount().commit("1 MiB")
    assert kept(predict_amount())["text"] == "1 MiB"


def test_reveal_still_opens_by_itself_after_the_first_cell_is_run_again(
    bank: Path,
) -> None:
    reveal = reveal_pick()
    SESSION.open(load_bank(bank))
    quiz.predict("pick").commit("b", 20)
    assert "You predicted" in body(reveal)


@pytest.mark.usefixtures("bank")
def test_confidence_that_was_not_asked_for_is_not_kept() -> None:
    card = predict_amount()
    card.commit("3 MiB", EVIL)  # type: ignore[arg-type]
    assert kept(card)["confidence"] is None


@pytest.mark.usefixtures("bank")
def test_confidence_of_another_kind_is_refused() -> None:
    card = quiz.predict("pick")
    with pytest.raises(AnswerError, match="how sure"):
        card.commit("b", [20])  # type: ignore[arg-type]


def test_path_of_the_answers_is_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bank: Path
) -> None:
    (tmp_path / EVIL).mkdir()
    monkeypatch.setenv("CKPTLAB_PROGRESS", str(tmp_path / EVIL))
    open_lesson(bank)
    predict_amount().commit("1 MiB")  # refused, for there is a folder
    html = html_of(quiz.progress())
    assert "<img" not in html
    assert html.count("&lt;img") == 2


def test_html_card_shows_one_html_where_widgets_run_and_another_elsewhere() -> None:
    card = HtmlCard(live_html="<p>live</p>", twin_html="<p>twin</p>", twin_text="twin")
    assert (state(card)["kind"], state(card)["live_html"]) == ("html", "<p>live</p>")
    assert twin(card) == {"text/plain": "twin", HTML: "<p>twin</p>"}


# -- every kind ----------------------------------------------------------------------

EVERY_KIND = Path(__file__).parent / "banks" / "every_kind.toml"
MEASURED: dict[str, Any] = {
    "one": "green",
    "several": ["duck", "cod"],
    "amount": 1.5 * 2**30,
    "estimate": 300,
    "sequence": ["morning", "noon", "evening"],
    "curve": [1, 4, 16],
    "own-words": None,
}
TYPED: dict[str, Any] = {
    "one": "blue",
    "several": ["mole", "cod"],
    "amount": "1,5 GiB",
    "estimate": 100,
    "sequence": ["noon", "morning", "evening"],
    "curve": [1, 2, 4],
    "own-words": f"Yeast, {EVIL}",
}
every_kind = pytest.mark.parametrize("question", MEASURED)


def ask(question: str) -> tuple[PredictionCard, RevealCard]:
    open_lesson(EVERY_KIND)
    reveal = quiz.reveal(question, measured=MEASURED[question])
    return quiz.predict(question), reveal


@every_kind
def test_every_kind_is_sealed_compared_and_found_again(question: str) -> None:
    card, reveal = ask(question)
    assert (card.state["stage"], reveal.state) == ("open", {"isOpen": False})
    send(card, {"do": "commit", "answer": TYPED[question], "confidence": 80})
    assert card.state["stage"] == "revealed"
    assert reveal.state["isOpen"]
    again, reveal_again = ask(question)
    assert (again.state, reveal_again.state) == (card.state, reveal.state)


@every_kind
def test_form_and_closed_reveal_of_every_kind_hold_no_explanation(
    question: str,
) -> None:
    card, reveal = ask(question)
    known = load_bank(EVERY_KIND).question(question)
    secrets = [known.explanation.split("{")[0], *(text for _, text in known.remarks())]
    told = str([state(card), state(reveal)])
    assert not [secret for secret in secrets if secret.split("{")[0] in told]


@every_kind
def test_twin_of_every_kind_asks_and_answers_in_a_closed_section(question: str) -> None:
    card, reveal = ask(question)
    known = load_bank(EVERY_KIND).question(question)
    assert known.prompt.replace("**", "") in re.sub("<.*?>", "", twin(card)[HTML])
    outside = re.sub(r"<details>.*?</details>", "", twin(reveal)[HTML], flags=re.S)
    assert outside == ""
    assert known.explanation.split("{")[0].strip() in twin(reveal)[HTML]
    card.commit(TYPED[question], 80)
    assert (twin(card), twin(reveal)) == tuple(map(twin, ask(question)))


def test_hints_open_one_by_one_and_are_counted(path: Path) -> None:
    card, reveal = ask("own-words")
    assert card.state["hints"] == []
    send(card, {"do": "hint"})
    assert card.state["hints"] == ["<p>Something in it is <em>alive</em>.</p>"]
    for _ in range(3):
        send(card, {"do": "hint"})
    assert len(card.state["hints"]) == 2
    card.commit("Yeast.", 50)
    send(card, {"do": "hint"})
    assert "<dt>Hints opened</dt><dd><bdi>2</bdi></dd>" in body(reveal)
    assert ProgressFile(path).record("every_kind", "own-words").n_hints == 2


def test_reflection_is_judged_by_its_author_and_the_marks_are_kept(path: Path) -> None:
    card, reveal = ask("own-words")
    card.commit("Yeast makes gas.", 50)
    assert [one["met"] for one in reveal.state["rubric"]] == [None, None]
    send(reveal, {"do": "mark", "met": ["gas"]})
    assert [one["met"] for one in reveal.state["rubric"]] == [True, False]
    assert ProgressFile(path).record("every_kind", "own-words").outcome == "near"
    send(reveal, {"do": "mark", "met": ["gas", "gluten"]})
    assert ProgressFile(path).record("every_kind", "own-words").outcome == "right"
    send(reveal, {"do": "mark", "met": [EVIL]})
    assert reveal.error == "tick the points that your answer makes"


def test_reflection_refuses_a_measurement_and_the_others_need_one() -> None:
    open_lesson(EVERY_KIND)
    with pytest.raises(AnswerKeyError, match="'own-words' is a reflection"):
        quiz.reveal("own-words", measured="gas")
    with pytest.raises(AnswerKeyError, match="'amount': measured None"):
        quiz.reveal("amount")
    with pytest.raises(AnswerKeyError, match=r"'task' is checked by check\(\)"):
        quiz.reveal("task", measured=7)


def test_sketch_draws_the_measured_curve_over_the_guess() -> None:
    card, reveal = ask("curve")
    card.commit(TYPED["curve"])
    chart = reveal.state["chart"]
    assert [curve["name"] for curve in chart["curves"]] == ["measured", "your sketch"]
    # from 1 to 100 by ratio: 10 stands in the middle, 4 at log 4 / log 100
    assert chart["curves"][0]["shares"] == pytest.approx(
        [0, 0.30103, 0.60206], abs=1e-5
    )


HOSTILE = [
    *(None, True, -1, float("nan"), float("inf"), 10**400, "", EVIL, "x" * 10**6),
    *("[x](javascript:alert(1))", "\u202egnp.exe", [], {}, [[]], [EVIL], {"a": EVIL}),
    *([float("nan")] * 3, ["cod", EVIL], ["noon", "noon", "noon"]),
]


@every_kind
@pytest.mark.parametrize("typed", HOSTILE, ids=lambda typed: ascii(typed)[:20])
def test_hostile_answer_is_refused_in_one_line_or_kept_as_text(
    question: str, typed: object
) -> None:
    card, reveal = ask(question)
    send(card, {"do": "commit", "answer": typed, "confidence": 80})
    if card.state["stage"] == "open":
        assert card.error
        assert "\n" not in card.error
        assert len(card.error) < 250
        assert reveal.state == {"isOpen": False}
    else:
        assert question == "own-words"  # free text may say anything
    shown = html_of(reveal) + html_of(quiz.progress())
    assert "<img" not in shown
    assert 'href="javascript' not in shown


@pytest.mark.parametrize("message", [None, [], "x", {"do": []}, {"do": "erase"}, {}])
@every_kind
def test_strange_message_is_no_error_in_the_kernel(
    question: str, message: object
) -> None:
    card, reveal = ask(question)
    for one in (card, reveal, quiz.progress()):
        send(one, message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        EVIL,
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "![x](javascript:alert(1))",
        "<a href='javascript:alert(1)'>x</a>",
        "[x]: javascript:alert(1)\n\n[x]",
        "<javascript:alert(1)>",
        "[x](java&#x0A;script:alert(1))",
    ],
)
def test_evil_bank_runs_nothing(tmp_path: Path, evil: str) -> None:
    file = tmp_path / "lesson.toml"
    text = BANK
    for place in (
        "Which?",
        "This one",
        "The okapi judged well.",
        "The quagga explains.",
    ):
        text = text.replace(f'"{place}"', f"'''{evil}'''")
    file.write_text(text)
    open_lesson(file)
    card, reveal = quiz.predict("pick"), reveal_pick()
    card.commit("a", 20)
    html = str(card.form) + body(reveal) + twin(card)[HTML] + twin(reveal)[HTML]
    tags = re.findall(r"<(\w+)", html)
    assert not set(tags) & {"script", "iframe", "object", "svg", "style"}
    links = re.findall(r'(?:href|src)="([^"]*)', html)
    assert not [one for one in links if not one.startswith(("http", "#"))]


# -- exporting -----------------------------------------------------------------------


@pytest.mark.usefixtures("bank")
def test_export_writes_csv_and_json_and_keeps_what_is_there(tmp_path: Path) -> None:
    quiz.predict("pick").commit("b", 20)
    for suffix in (".csv", ".json"):
        file = tmp_path / f"mine{suffix}"
        assert quiz.progress().export(file).endswith(str(file))
        assert "That one" in file.read_text()
        with pytest.raises(AnswerError, match="is there already; give another name"):
            quiz.progress().export(file)


@pytest.mark.usefixtures("bank")
def test_export_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    with pytest.raises(AnswerError, match=r"'.xls' is no format; use .csv or .json"):
        quiz.progress().export(tmp_path / "mine.xls")
    with pytest.raises(AnswerError, match=r"cannot be written \(No such file"):
        quiz.progress().export(tmp_path / "nowhere" / "mine.csv")


@pytest.mark.usefixtures("bank")
def test_download_hands_the_browser_the_same_file(tmp_path: Path) -> None:
    quiz.predict("pick").commit("b", 20)
    card = quiz.progress()
    send(card, {"do": "download", "format": ".csv", "name": "Ada"})
    card.export(tmp_path / "mine.csv", name="Ada")
    assert card.download["file"] == "ckptlab_progress.csv"
    with (tmp_path / "mine.csv").open(newline="") as file:
        assert card.download["text"] == file.read()
    send(card, {"do": "download", "format": EVIL})
    assert card.said.endswith("is no format; use .csv or .json")


@pytest.mark.usefixtures("bank")
def test_erasing_from_the_browser_opens_every_card_again() -> None:
    card, reveal, shown = quiz.predict("pick"), reveal_pick(), quiz.progress()
    card.commit("b", 20)
    send(shown, {"do": "erase"})
    assert shown.said == "Erased: 1 prediction. Every question is open again."
    assert (card.state["stage"], reveal.state) == ("open", {"isOpen": False})
    assert shown.n_predictions == 0


@pytest.mark.usefixtures("bank")
def test_refused_erasing_says_why_and_forgets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiz.predict("pick").commit("b", 20)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse)
    told = quiz.progress().erase(sure=True)
    assert told.startswith("Not erased: Read-only file system.")
    assert kept(quiz.predict("pick"))["answer"] == "b"


# -- review --------------------------------------------------------------------------

REVIEW = BANK.replace(
    'id = "amount"', 'id = "amount"\nrevisits = ["01_one/a", "01_one/b"]'
).replace('id = "pick"', 'id = "pick"\nrevisits = ["02_two/c"]')


def open_review(folder: Path) -> None:
    file = folder / "review.toml"
    file.write_text(REVIEW)
    open_lesson(file)


def answer_before(path: Path, ref: str, outcome: str, sure: int | None = None) -> None:
    lesson, question = ref.split("/")
    ProgressFile(path).add(Event(lesson, question, "predicted", "x", sure))
    ProgressFile(path).add(Event(lesson, question, "revealed", outcome=outcome))


def review() -> ReviewCards:
    facts = {"amount": {"weights": "3 MiB", "secret": "octarine"}}
    return quiz.review({"amount": 123_456_789, "pick": "a"}, facts)


@pytest.mark.parametrize(
    ("before", "order"),
    [
        ({}, ["amount", "pick"]),
        ({"02_two/c": "wrong"}, ["pick", "amount"]),
        ({"02_two/c": "near"}, ["pick", "amount"]),
        ({"02_two/c": "right"}, ["amount", "pick"]),
        ({"02_two/c": "near", "01_one/b": "wrong"}, ["amount", "pick"]),
        ({"01_one/a": "right", "01_one/b": "right"}, ["pick", "amount"]),
        ({"01_one/a": "right", "01_one/b": "wrong"}, ["amount", "pick"]),
    ],
)
def test_review_begins_with_what_was_missed(
    tmp_path: Path, path: Path, before: dict[str, str], order: list[str]
) -> None:
    for ref, outcome in before.items():
        answer_before(path, ref, outcome)
    open_review(tmp_path)
    cards = review()
    assert cards.order == order
    assert [card.question_id for card in cards.children[::2]] == order
    assert [card.question_id for card in cards.children[1::2]] == order


def test_surest_error_comes_before_an_unsure_one(tmp_path: Path, path: Path) -> None:
    answer_before(path, "01_one/a", "wrong", 20)
    answer_before(path, "02_two/c", "wrong", 95)
    open_review(tmp_path)
    assert review().order == ["pick", "amount"]


def test_twin_of_a_review_is_the_same_for_every_learner(
    tmp_path: Path, path: Path
) -> None:
    open_review(tmp_path)
    before = twin(review())
    answer_before(path, "02_two/c", "wrong")
    open_review(tmp_path)
    assert twin(review()) == before
    assert before[HTML].index("How <strong>much") < before[HTML].index("Which?")


def test_review_without_a_measurement_says_which_is_missing(tmp_path: Path) -> None:
    open_review(tmp_path)
    with pytest.raises(QuestionError, match=r"a measurement of \['pick'\]"):
        quiz.review({"amount": 123_456_789}, {})
