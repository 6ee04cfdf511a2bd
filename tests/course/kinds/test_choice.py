"""One choice is right or wrong; of several, every one counts, ticked or not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.course.kinds.choice import Choice, ChoiceQuestion
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerError

law = settings(derandomize=True, deadline=None)

QUESTIONS = load_bank(Path(__file__).parents[1] / "banks" / "every_kind.toml").questions
LETTERS = "abcde"
subsets = st.sets(st.sampled_from(LETTERS))


def one() -> ChoiceQuestion:
    question = QUESTIONS["one"]
    assert isinstance(question, ChoiceQuestion)
    return question


def several() -> ChoiceQuestion:
    question = QUESTIONS["several"]
    assert isinstance(question, ChoiceQuestion)
    return question


def letters(right: set[str]) -> ChoiceQuestion:
    """Five choices, of which some are right."""
    choices = tuple(
        Choice(one, one.upper(), f"Of {one}.", "" if one in right else f"not {one}")
        for one in LETTERS
    )
    return replace(
        several(), choices=choices, answers=tuple(sorted(right, reverse=True))
    )


# -- one choice ----------------------------------------------------------------------


def test_choice_is_read_by_its_id() -> None:
    assert one().read("blue") == "blue"


@pytest.mark.parametrize("typed", [None, "", "c", "Blue", 1, ["blue"], {}], ids=repr)
def test_what_is_no_choice_asks_to_choose_first(typed: object) -> None:
    with pytest.raises(AnswerError, match=r"^choose one of the answers first$"):
        one().read(typed)
    assert not one().fits(typed)


@pytest.mark.parametrize(
    ("answer", "outcome", "sentence", "feedback"),
    [
        ("green", "right", "Your prediction holds.", "Well seen."),
        ("blue", "wrong", "The measurement says otherwise.", "That is the sky."),
    ],
)
def test_each_choice_has_its_own_feedback(
    answer: str, outcome: str, sentence: str, feedback: str
) -> None:
    result = one().compare(answer, "green")
    assert (result.outcome, result.sentence) == (outcome, sentence)
    assert result.feedback == (feedback,)


def test_choice_that_the_bank_no_longer_has_is_not_right() -> None:
    result = one().compare("gone", "green")
    assert (result.outcome, result.feedback) == ("wrong", ())
    assert one().text("gone") == "'gone'"
    assert not one().fits("gone")


def test_only_the_key_agrees() -> None:
    assert one().agree("green") == "green"
    assert all(one().agree(no) is None for no in ("blue", "gone", None, ["green"]))


# -- several choices -----------------------------------------------------------------


def test_ticked_choices_are_read_in_the_order_shown_and_each_once() -> None:
    assert several().read(["duck", "cod", "duck"]) == ["cod", "duck"]


@pytest.mark.parametrize(
    "typed", [None, [], "cod", ["cod", "gone"], [["cod"]], ("cod",), {"cod": 1}, True]
)
def test_what_is_no_list_of_choices_asks_to_tick_first(typed: object) -> None:
    with pytest.raises(AnswerError, match=r"^tick at least one of the answers first$"):
        several().read(typed)


@pytest.mark.parametrize(
    ("answer", "outcome", "sentence"),
    [
        (["cod", "duck"], "right", "Your prediction holds."),
        (["duck", "cod"], "right", "Your prediction holds."),
        (["cod"], "near", "You missed 1 that holds."),
        (["cod", "mole", "duck"], "near", "You ticked 1 that does not."),
        (
            ["cod", "mole"],
            "wrong",
            "You missed 1 that holds and ticked 1 that does not.",
        ),
        (["mole"], "wrong", "You missed 2 that hold and ticked 1"),
    ],
)
def test_several_are_right_together_and_near_when_one_is_off(
    answer: list[str], outcome: str, sentence: str
) -> None:
    result = several().compare(answer, ["cod", "duck"])
    assert result.outcome == outcome
    assert result.sentence.startswith(sentence)


@law
@given(subsets.filter(bool), subsets.filter(bool))
def test_outcome_and_feedback_count_the_choices_that_are_off(
    right: set[str], ticked: set[str]
) -> None:
    question = letters(right)
    off = [one for one in LETTERS if (one in right) != (one in ticked)]
    result = question.compare(question.read(sorted(ticked)), question.key)
    assert result.outcome == {0: "right", 1: "near"}.get(len(off), "wrong")
    told = off or sorted(ticked)
    assert result.feedback == tuple(f"Of {one}." for one in told)


@law
@given(subsets.filter(bool), subsets.filter(bool))
def test_sentence_counts_what_was_missed_and_what_was_wrong(
    right: set[str], ticked: set[str]
) -> None:
    question = letters(right)
    sentence = question.compare(sorted(ticked), question.key).sentence
    counts = [int(word) for word in sentence.split() if word.isdigit()]
    missed = sum(one not in ticked for one in right)
    wrong = sum(one not in right for one in ticked)
    assert counts == [count for count in (missed, wrong) if count]


@law
@given(subsets.filter(bool), subsets)
def test_only_the_right_choices_agree_in_any_order(
    right: set[str], measured: set[str]
) -> None:
    agreed = letters(right).agree(sorted(measured, reverse=True))
    assert agreed == (sorted(right) if measured == right else None)
    assert letters(right).agree(frozenset(measured)) == agreed


def test_measurement_with_something_unknown_in_it_does_not_agree() -> None:
    assert several().agree(["cod", "duck"]) == ["cod", "duck"]
    for measured in (["cod", "duck", "gone"], ["cod", "duck", None], "cod", None):
        assert several().agree(measured) is None


def test_several_are_shown_in_one_text() -> None:
    assert several().text(["cod", "duck"]) == "A cod; A duck"
    assert several().text(["cod", "gone"]) == "A cod; 'gone'"


# -- misconceptions, and what is drawn -----------------------------------------------


def test_misconceptions_are_those_of_the_wrong_choices() -> None:
    assert one().misconceptions("green") == []
    assert one().misconceptions("blue") == ["grass mirrors the sky"]
    assert several().misconceptions(["cod", "mole"]) == ["everything small swims"]
    assert several().misconceptions(["cod", "duck"]) == []


def test_id_that_holds_another_brings_no_misconception_of_it() -> None:
    blue = replace(one().choices[0], id="green-blue", misconception="longer")
    question = replace(one(), choices=(*one().choices, blue))
    assert question.misconceptions("green-blue") == ["longer"]
    assert question.misconceptions("blue") == ["grass mirrors the sky"]


def test_form_tells_the_browser_how_many_may_be_chosen_and_not_the_key() -> None:
    assert [q.form()["takesSeveral"] for q in (one(), several())] == [False, True]
    choices = one().form()["choices"]
    assert choices == [
        {"id": "blue", "html": "<p>Blue</p>"},
        {"id": "green", "html": "<p>Green</p>"},
    ]
    assert json.loads(json.dumps(several().form())) == several().form()


def test_html_in_a_choice_comes_out_as_text() -> None:
    bad = replace(one().choices[0], text="<img src=x onerror=alert(1)>")
    question = replace(one(), choices=(bad, one().choices[1]))
    shown = question.options_html() + question.form()["choices"][0]["html"]
    assert "<img" not in shown
    assert shown.count("&lt;img") == 2


def test_remarks_pair_each_choice_with_its_feedback() -> None:
    assert one().remarks() == [("Blue", "That is the sky."), ("Green", "Well seen.")]
