"""A sketched curve is as good as the point that is furthest off."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ckptlab.course.kinds.sketch import SketchQuestion
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerError

law = settings(derandomize=True, deadline=None)
heights = st.lists(st.floats(1, 100), min_size=3, max_size=3)

QUESTIONS = load_bank(Path(__file__).parents[1] / "banks" / "every_kind.toml").questions


def curve() -> SketchQuestion:
    question = QUESTIONS["curve"]
    assert isinstance(question, SketchQuestion)
    return question


def ratio(one: float, other: float) -> Fraction:
    low, high = sorted((Fraction(one), Fraction(other)))
    return high / low


# -- reading -------------------------------------------------------------------------


def test_curve_is_read_as_numbers_one_a_point() -> None:
    answer = curve().read([1, 2, 100])
    assert answer == [1.0, 2.0, 100.0]
    assert all(type(value) is float for value in answer)


def test_untouched_curve_asks_to_move_a_slider_first() -> None:
    with pytest.raises(AnswerError, match="move a slider first"):
        curve().read(None)


@pytest.mark.parametrize("typed", [[], [1, 2], [1] * 4, (1, 2, 3), "123", 5, {}])
def test_curve_with_too_few_or_too_many_points_is_refused(typed: object) -> None:
    with pytest.raises(AnswerError, match=r"^set all 3 sliders$"):
        curve().read(typed)
    assert not curve().fits(typed)


@pytest.mark.parametrize(
    "value",
    [0.999, 100.1, -1, 0, None, True, "2", math.nan, math.inf, 10**400, [2]],
    ids=str,
)
def test_point_that_is_not_on_its_slider_is_refused(value: object) -> None:
    with pytest.raises(AnswerError, match="is not on the slider; choose between 1 and"):
        curve().read([1, value, 3])


def test_ends_of_the_slider_are_on_it() -> None:
    assert curve().read([1, 100, 1]) == [1, 100, 1]


def test_stored_curve_fits_by_its_length_and_numbers() -> None:
    assert curve().fits([0, 1e6, 3])
    for stored in ([1, 2], [1, 2, "3"], [1, 2, None], [1, 2, math.nan], [1, 2, True]):
        assert not curve().fits(stored)


# -- grading -------------------------------------------------------------------------


@law
@given(heights, heights)
def test_worst_point_decides_and_is_named(
    answer: list[float], measured: list[float]
) -> None:
    question = curve()
    ratios = [ratio(*pair) for pair in zip(answer, measured, strict=True)]
    worst = ratios.index(max(ratios))
    assume(all(not math.isclose(max(ratios), bound) for bound in (1.3, 2)))
    others = ratios[:worst] + ratios[worst + 1 :]
    assume(not any(math.isclose(ratios[worst], other) for other in others))
    result = question.compare(answer, measured)
    assert result.outcome == (
        "right" if max(ratios) <= 1.3 else "near" if max(ratios) <= 2 else "wrong"
    )
    if result.outcome != "right":
        at = ("1", "2", "4")[worst]
        is_low = answer[worst] < measured[worst]
        assert result.facts == {"at": at}
        assert result.sentence.startswith("Too low" if is_low else "Too high")
        assert result.sentence.endswith(f"furthest off (Side {at}).")
        side = question.tolerance.too_low if is_low else question.tolerance.too_high
        assert result.feedback == (side,)


@law
@given(heights, heights)
def test_curve_is_no_better_than_any_of_its_points(
    answer: list[float], measured: list[float]
) -> None:
    question, rank = curve(), ["right", "near", "wrong"].index
    points = [
        rank(question.tolerance.compare(*pair).outcome)
        for pair in zip(answer, measured, strict=True)
    ]
    assert rank(question.compare(answer, measured).outcome) == max(points)


@pytest.mark.parametrize(
    ("answer", "outcome", "sentence"),
    [
        ([1.2, 4, 16], "right", "Your prediction holds."),
        ([1, 4, 8], "near", "Too low by a factor of 2, where your curve is furthest "),
        ([4, 4, 8], "wrong", "Too high by a factor of 4, where your curve is furthest"),
        (
            [1, 4, 0],
            "wrong",
            "Too low: one of the two is 0, and the other is not, where your curve is",
        ),
    ],
)
def test_sentence_says_how_far_and_where(
    answer: list[float], outcome: str, sentence: str
) -> None:
    result = curve().compare(answer, curve().key)
    assert result.outcome == outcome
    assert result.sentence.startswith(sentence)


def test_points_between_whole_numbers_and_large_ones_are_named_plainly() -> None:
    question = replace(curve(), at=(0.5, 1e6, 2e6))
    assert question.compare([9, 4, 16], question.key).facts == {"at": "0.5"}
    assert question.compare([1, 90, 16], question.key).facts == {"at": "1,000,000"}
    assert question.text([1, 4, 16]) == "1 at 0.5, 4 at 1,000,000, 16 at 2,000,000"


# -- answer keys ---------------------------------------------------------------------


def test_every_point_must_be_near_its_key() -> None:
    assert curve().agree([1.009, 4, 15.9]) == [1.009, 4, 15.9]
    assert curve().agree((1, 4, 16)) == [1, 4, 16]
    for at in range(3):
        measured: list[object] = [1, 4, 16]
        for bad in (17 if at == 2 else 2, 0, None, "4", True if at else 2, 10**400):
            measured[at] = bad
            assert curve().agree(measured) is None


@pytest.mark.parametrize("measured", [None, 1, "abc", [1, 4], [1, 4, 16, 64], {1, 4}])
def test_what_is_no_curve_does_not_agree(measured: object) -> None:
    assert curve().agree(measured) is None


# -- what is drawn -------------------------------------------------------------------


def test_curves_are_drawn_as_shares_of_the_slider() -> None:
    chart = curve().chart([("yours", [1, 10, 100]), ("measured", [0.1, 1e6, 10])])
    yours, measured = chart["curves"]
    assert (yours["name"], yours["shares"]) == ("yours", pytest.approx([0, 0.5, 1]))
    assert measured["shares"] == pytest.approx([0, 1, 0.5])
    assert chart["at"] == ["1", "2", "4"]
    assert (chart["xLabel"], chart["yLabel"]) == ("Side", "Area")
    assert chart["ends"] == ["1", "100"]


def test_form_holds_the_slider_and_no_curve() -> None:
    form = curve().form()
    assert form["curves"] == []
    assert form["positions"][0] == 1
    assert len(form["positions"]) == len(form["texts"]) == 41
    assert json.loads(json.dumps(form)) == form


def test_labels_come_out_as_text() -> None:
    html = replace(curve(), x_label="<b>", y_label="<i>").options_html()
    assert "&lt;b&gt;" in html
    assert "&lt;i&gt;" in html


def test_remarks_are_those_of_its_tolerance() -> None:
    assert curve().remarks() == [
        ("Too low", "At {at} the square is larger."),
        ("Too high", "At {at} the square is smaller."),
    ]
