"""Free text is kept as it is, and judged by its writer alone."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from ckptlab.course.kinds.reflection import (
    MOST_CHARACTERS,
    Criterion,
    Reflection,
)
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerError

QUESTIONS = load_bank(Path(__file__).parents[1] / "banks" / "every_kind.toml").questions


def words() -> Reflection:
    question = QUESTIONS["own-words"]
    assert isinstance(question, Reflection)
    return question


def test_answer_is_kept_without_the_space_around_it() -> None:
    assert words().read("  Yeast\nmakes <b>gas</b>. \n") == "Yeast\nmakes <b>gas</b>."


@pytest.mark.parametrize("typed", [None, "", " \n\t", 5, True, ["Yeast"], {}], ids=repr)
def test_nothing_written_asks_for_a_sentence(typed: object) -> None:
    with pytest.raises(AnswerError, match=r"^write your answer first; a sentence is"):
        words().read(typed)


def test_longest_answer_is_kept_and_a_longer_one_refused() -> None:
    assert words().read(f" {'x' * MOST_CHARACTERS} ") == "x" * MOST_CHARACTERS
    with pytest.raises(AnswerError) as caught:
        words().read("x" * (MOST_CHARACTERS + 1))
    assert str(caught.value) == (
        "your answer has 5,001 characters, and 5,000 can be kept; shorten it"
    )


def test_only_text_fits() -> None:
    assert words().fits("Yeast.")
    for stored in ("", None, 5, ["Yeast."], True):
        assert not words().fits(stored)


def test_answer_is_shown_as_it_is() -> None:
    assert words().text("<b>Yeast</b>") == "<b>Yeast</b>"


@pytest.mark.parametrize(
    ("met", "kept", "outcome"),
    [
        ([], [], "wrong"),
        (["gas"], ["gas"], "near"),
        (["gluten"], ["gluten"], "near"),
        (["gluten", "gas"], ["gas", "gluten"], "right"),
        (["gas", "gas"], ["gas"], "near"),
        (("gas",), ["gas"], "near"),
    ],
)
def test_rubric_decides_and_its_order_is_kept(
    met: list[str], kept: list[str], outcome: str
) -> None:
    assert words().judge(met) == (kept, outcome)


def test_some_points_of_three_are_near() -> None:
    ids = ("gas", "gluten", "heat")
    question = replace(words(), rubric=tuple(Criterion(one, one) for one in ids))
    for n_met, outcome in enumerate(["wrong", "near", "near", "right"]):
        for met in permutations(ids, n_met):
            kept = [one for one in ids if one in met]
            assert question.judge(met) == (kept, outcome)


@pytest.mark.parametrize(
    "met",
    [
        None,
        5,
        True,
        "gas",
        "",
        b"",
        {"gas"},
        {"gas": True},
        ["taste"],
        ["gas", None],
        [["gas"]],
    ],
    ids=repr,
)
def test_what_is_no_list_of_criteria_is_refused(met: object) -> None:
    with pytest.raises(AnswerError, match=r"^tick the points that your answer makes$"):
        words().judge(met)


def test_text_is_no_list_of_its_letters() -> None:
    rubric = (Criterion("a", "First."), Criterion("b", "Second."))
    with pytest.raises(AnswerError, match="tick the points"):
        replace(words(), rubric=rubric).judge("ab")


def test_form_counts_the_hints_and_does_not_tell_them() -> None:
    assert words().form() == {"nHints": 2, "mostCharacters": MOST_CHARACTERS}


def test_twin_holds_each_hint_closed() -> None:
    html = words().options_html()
    assert html.count("<details>") == 2
    assert "<summary>Hint 2</summary>" in html
    assert "<em>alive</em>" in html
    assert replace(words(), hints=()).options_html() == ""


def test_html_in_a_hint_comes_out_as_text() -> None:
    html = replace(words(), hints=("<script>",)).options_html()
    assert "<script>" not in html


def test_nothing_is_measured() -> None:
    assert not words().is_measured
    assert words().is_predicted
