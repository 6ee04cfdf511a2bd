"""Numbers are read as learners type them, and graded by ratio; sliders likewise."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from ckptlab.course.kinds.number import (
    SAMPLES,
    UNITS,
    NumberQuestion,
    SliderQuestion,
    is_number,
    short,
)
from ckptlab.course.kinds.question import Comparison
from ckptlab.course.kinds.scale import Scale
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerError

law = settings(derandomize=True, deadline=None)
amounts = st.floats(1e-12, 1e20)

QUESTIONS = load_bank(Path(__file__).parents[1] / "banks" / "every_kind.toml").questions
every_unit = pytest.mark.parametrize("unit", UNITS)


def amount(unit: str = "bytes", answer: float = 1024.0) -> NumberQuestion:
    """Right within a factor of 2, and near within 4."""
    question = QUESTIONS["amount"]
    assert isinstance(question, NumberQuestion)
    tolerance = replace(question.tolerance, right_within=2.0, near_within=4.0)
    return replace(question, unit=unit, answer=answer, tolerance=tolerance)


def estimate() -> SliderQuestion:
    question = QUESTIONS["estimate"]
    assert isinstance(question, SliderQuestion)
    return question


def compare(answer: float, measured: float = 1024.0) -> Comparison:
    return amount().compare(answer, measured)


def refusal(unit: str, typed: object) -> str:
    with pytest.raises(AnswerError) as caught:
        amount(unit).read(typed)
    assert caught.value.__cause__ is None
    assert not caught.value.__context__ or caught.value.__suppress_context__
    return str(caught.value)


# -- reading -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "typed", "number"),
    [
        ("bytes", "64 MiB", 2**26),
        ("bytes", " 80 gb ", 8e10),
        ("bytes", "1,5 GiB", 1.5 * 2**30),
        ("seconds", "12 ms", 0.012),
        ("seconds", "1.5 min", 90),
        ("seconds", "0,25 s", 0.25),
        ("FLOPs", "2.5 TFLOPs", 2.5e12),
        ("FLOPs", "2,5e3 MFLOPs", 2.5e9),
        ("times", "2.5", 2.5),
        ("times", "2.5x", 2.5),
        ("times", "2.5 ×", 2.5),
        ("times", "2,5 ×", 2.5),
        ("times", "3 times", 3),
        ("times", "3 TIMES", 3),
        ("times", 4, 4),
        ("count", "12", 12),
        ("count", "1,024", 1024),
        ("count", "0", 0),
        ("percent", "30", 30),
        ("percent", "30%", 30),
        ("percent", "12,5 %", 12.5),
        ("percent", 99.9, 99.9),
    ],
)
def test_number_is_read_in_the_unit_of_the_question(
    unit: str, typed: object, number: float
) -> None:
    assert amount(unit).read(typed) == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("1,5", 1.5),
        ("2,50", 2.5),
        ("1,0000", 1),
        ("12,34 times", 12.34),
        ("1234,5", 1234.5),
        ("0,5", 0.5),
        ("0,500", 0.5),
        ("0,5000", 0.5),
        ("1,500", 1500),
        ("1,500.5", 1500.5),
        ("1,500,000", 1.5e6),
        ("12,345", 12345),
        ("10,000", 10000),
    ],
)
def test_comma_is_for_decimals_unless_it_groups_thousands(
    typed: str, number: float
) -> None:
    assert amount("times").read(typed) == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(
    "typed", ["1,5,5", "1,500,0", "1,5.5", "1234,567", ",5", "1,", "1.5,5", "-1,5"]
)
def test_comma_that_could_mean_two_things_is_refused(typed: str) -> None:
    assert refusal("times", typed).startswith(f"{typed!r} cannot be read; type ")


@law
@given(st.integers(0, 10**6), st.from_regex(r"[0-9]{1,8}", fullmatch=True))
def test_comma_before_other_than_three_digits_is_a_point(
    whole: int, decimals: str
) -> None:
    assume(len(decimals) != 3 or whole == 0)
    number = float(f"{whole}.{decimals}")
    assert amount("count").read(f"{whole},{decimals}") == number


@law
@given(st.integers(0, 10**15))
def test_thousands_may_be_grouped(number: int) -> None:
    assert amount("count").read(f"{number:,}") == number
    assert amount("bytes").read(f"{number:,} B") == number


@pytest.mark.parametrize(
    "typed",
    [
        *["apples", "64 apples", "-1", "nan", "inf", "1e999", "x", "1 2", "½"],
        *["<img src=x onerror=alert(1)>", "__import__('os')", None, True],
        *[[], [1], {}, {"1": 1}, math.nan, math.inf, -2, b"5"],
    ],
    ids=repr,
)
@every_unit
def test_what_cannot_be_read_is_shown_with_a_sample(unit: str, typed: object) -> None:
    message = refusal(unit, typed)
    sample = f"such as {SAMPLES[unit]!r}"
    if typed is None:
        assert message == f"type a number first, {sample}"
    else:
        assert message.startswith(f"{str(typed)!r} cannot be read; type ")
        assert message.endswith(sample)


@every_unit
def test_samples_can_be_read(unit: str) -> None:
    assert amount(unit).read(SAMPLES[unit]) > 0  # type: ignore[operator]
    assert amount(unit).form()["sample"] == SAMPLES[unit]


@pytest.mark.parametrize("typed", ["", "   ", "\n", None], ids=repr)
@every_unit
def test_empty_field_asks_for_a_number_first(unit: str, typed: str | None) -> None:
    expected = f"type a number first, such as {SAMPLES[unit]!r}"
    assert refusal(unit, typed) == expected


@pytest.mark.parametrize(
    "typed",
    ["apples " * 1000, "9" * 2**20, 10**400, 10**5000, "\U000e0001" * 50, "\\'\"" * 30],
    ids=["long", "1 MB", "e400", "e5000", "unseen", "quotes"],
)
@every_unit
def test_refusal_of_a_long_text_stays_short(unit: str, typed: object) -> None:
    message = refusal(unit, typed)
    assert len(message) < 200
    assert message.isprintable()


def test_number_beyond_all_measurements_asks_for_less() -> None:
    assert refusal("count", "1.1e30") == (
        "'1.1e30' is beyond anything that could be measured; type less"
    )
    assert amount("count").read("1e30") == 1e30


def test_longest_number_that_is_read_has_60_characters() -> None:
    assert amount("count").read("0" * 59 + "7") == 7
    assert "cannot be read" in refusal("count", "0" * 60 + "7")


@law
@given(st.text(max_size=20), st.sampled_from(UNITS))
@example("٣", "count")
@example("1,5\N{RIGHT-TO-LEFT MARK}", "times")
@example("1_0,5", "times")
def test_any_text_is_a_number_or_an_answer_error(typed: str, unit: str) -> None:
    try:
        number = amount(unit).read(typed)
    except AnswerError:
        return
    assert isinstance(number, float)
    assert 0 <= number < math.inf


@law
@given(amounts, st.sampled_from(UNITS))
def test_what_is_shown_can_be_typed(number: float, unit: str) -> None:
    shown = amount(unit).text(number)
    assume(len(shown) <= 60)
    smallest = {"bytes": 1.0, "seconds": 1e-9}.get(unit, 0)
    assert amount(unit).read(shown) == pytest.approx(number, rel=6e-3, abs=smallest)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        *[(0, True), (0.0, True), (5, True), (9.9e299, True), (10**299, True)],
        *[(-1, False), (1e300, False), (10**400, False), (math.nan, False)],
        *[(math.inf, False), (True, False), ("5", False), (None, False), ([], False)],
    ],
    ids=str,
)
def test_number_that_can_be_compared_fits(value: object, fits: bool) -> None:
    assert is_number(value) == amount().fits(value) == fits


# -- grading -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (1024, "right"),
        (2048, "right"),
        (512, "right"),
        (2049, "near"),
        (511, "near"),
        (4096, "near"),
        (256, "near"),
        (4097, "wrong"),
        (255, "wrong"),
        (0, "wrong"),
    ],
)
def test_number_is_graded_by_ratio(answer: float, outcome: str) -> None:
    assert compare(answer).outcome == outcome


@law
@given(amounts, amounts)
def test_outcome_is_that_of_the_exact_ratio(answer: float, measured: float) -> None:
    low, high = sorted((Fraction(answer), Fraction(measured)))
    assume(all(not math.isclose(high / low, bound) for bound in (2, 4)))
    outcome = "right" if high / low < 2 else "near" if high / low < 4 else "wrong"
    assert compare(answer, measured).outcome == outcome


@law
@given(amounts, amounts)
def test_answer_and_measurement_could_change_places(one: float, other: float) -> None:
    assert compare(one, other).outcome == compare(other, one).outcome


@law
@given(amounts, st.floats(1, 10))
def test_over_and_underestimating_are_graded_alike(
    measured: float, factor: float
) -> None:
    assume(all(not math.isclose(factor, bound) for bound in (2, 4)))
    over, under = (
        compare(measured * factor, measured),
        compare(measured / factor, measured),
    )
    assert over.outcome == under.outcome


@law
@given(amounts, amounts)
def test_what_is_off_is_told_on_its_side(answer: float, measured: float) -> None:
    result = compare(answer, measured)
    assume(result.outcome != "right")
    side, remark = ("low", "more") if answer < measured else ("high", "less")
    assert result.sentence.startswith(f"Too {side} by a factor of ")
    assert result.feedback == (f"There is {remark} in it.",)


@pytest.mark.parametrize(
    ("answer", "measured", "outcome"),
    [(0, 0, "right"), (0, 5, "wrong"), (5, 0, "wrong"), (0.0, 1e-300, "wrong")],
)
def test_nothing_is_only_right_where_nothing_was_measured(
    answer: float, measured: float, outcome: str
) -> None:
    assert compare(answer, measured).outcome == outcome


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (1500, "Your prediction holds."),
        (3072, "Too high by a factor of 3."),
        (400, "Too low by a factor of 2.56."),
        (128, "Too low by a factor of 8."),
        (1024 * 12345, "Too high by a factor of 12,345."),
        (0, "Too low: one of the two is 0, and the other is not."),
    ],
)
def test_sentence_says_how_far_off(answer: float, sentence: str) -> None:
    assert compare(answer).sentence == sentence


def test_right_number_needs_no_feedback() -> None:
    assert compare(1024).feedback == ()


@pytest.mark.parametrize(
    ("unit", "answer", "shown"),
    [
        ("bytes", 2.0**26, "64 MiB"),
        ("seconds", 0.012, "12 ms"),
        ("FLOPs", 2.5e12, "2.5 TFLOPs"),
        ("times", 3.99, "3.99 times"),
        ("times", 12345.0, "12,345 times"),
        ("count", 770.0, "770"),
        ("count", 1e6, "1,000,000"),
        ("percent", 12.5, "12.5 %"),
        ("percent", 100, "100 %"),
    ],
)
def test_answers_are_shown_in_the_unit(unit: str, answer: float, shown: str) -> None:
    assert amount(unit).text(answer) == shown


def test_short_numbers_have_three_digits_and_no_power_of_ten() -> None:
    numbers = (0.125, 2.345, 99.94, 100, 999.6, 1234567)
    assert " ".join(map(short, numbers)) == "0.125 2.35 99.9 100 1,000 1,234,567"


# -- answer keys ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "measured",
    [1024, 1024.0, 1024 * 1.009, 1024 / 1.009, np.float32(1024), Fraction(1024)],
)
def test_measurement_near_the_key_agrees_as_it_is(measured: float) -> None:
    agreed = amount().agree(measured)
    assert agreed == measured
    assert type(agreed) is float


@pytest.mark.parametrize(
    "measured",
    [
        *[1024 * 1.011, 1024 / 1.011, 0, -1024, math.nan, math.inf, -math.inf],
        *["1024", None, [1024], {}, 10**400, -(10**400), 1024j],
    ],
    ids=str,
)
def test_measurement_that_contradicts_the_key_does_not_agree(measured: object) -> None:
    assert amount().agree(measured) is None


def test_true_is_not_the_number_one() -> None:
    assert amount(answer=1.0).agree(1) == 1
    assert amount(answer=1.0).agree(True) is None


# -- what is drawn -------------------------------------------------------------------


@every_unit
def test_form_holds_a_sample_and_a_word_for_the_unit(unit: str) -> None:
    form = amount(unit).form()
    assert set(form) == {"sample", "unit"}
    words = {"times": "times", "count": "", "percent": "%"}
    assert form["unit"] == words.get(unit, "with its unit")


def test_remarks_are_those_of_its_tolerance() -> None:
    remarks = [
        ("Too low", "There is more in it."),
        ("Too high", "There is less in it."),
    ]
    assert amount().remarks() == remarks


# -- sliders -------------------------------------------------------------------------


def test_slider_is_read_between_its_ends() -> None:
    for position in (1, 1.0, 300, 1000):
        assert estimate().read(position) == position
    assert type(estimate().read(300)) is float


def test_untouched_slider_asks_to_move_it_first() -> None:
    with pytest.raises(AnswerError, match="move the slider first"):
        estimate().read(None)


@pytest.mark.parametrize(
    "typed",
    [0.99, 1000.1, 0, -5, "300", "", True, math.nan, math.inf, 10**400, [300], {}],
    ids=str,
)
def test_what_is_not_on_the_slider_is_shown_with_its_ends(typed: object) -> None:
    with pytest.raises(AnswerError) as caught:
        estimate().read(typed)
    assert str(caught.value) == (
        f"{str(typed)[:40]!r} is not on the slider; choose between 1 and 1,000"
    )


def test_slider_is_graded_like_a_typed_number() -> None:
    outcomes = [estimate().compare(answer, 300.0).outcome for answer in (350, 500, 700)]
    assert outcomes == ["right", "near", "wrong"]
    assert estimate().agree(301) == 301
    assert estimate().agree(310) is None


def test_form_of_a_slider_has_a_text_for_each_position() -> None:
    form = estimate().form()
    assert (form["positions"][0], form["positions"][-1]) == (1, 1000)
    assert (form["texts"][0], form["texts"][-1]) == ("1", "1,000")
    assert len(form["positions"]) == len(form["texts"]) == 41
    assert json.loads(json.dumps(form)) == form
    assert estimate().options_html() == "<p>Between 1 and 1,000.</p>"


# -- scales --------------------------------------------------------------------------

scales = st.builds(
    lambda low, growth, steps, scale: Scale(low, low * growth, scale, steps),
    st.floats(1e-6, 1e12),
    st.floats(1.001, 1e6),
    st.integers(2, 500),
    st.sampled_from(["ratio", "difference"]),
)
RATIO = Scale(1.0, 1000.0, "ratio", 3)
DIFFERENCE = Scale(0.0, 30.0, "difference", 3)


@pytest.mark.parametrize(
    ("scale", "positions"),
    [
        (RATIO, [1, 10, 100, 1000]),
        (DIFFERENCE, [0, 10, 20, 30]),
        (replace(RATIO, steps=2), [1, 31.6, 1000]),
        (Scale(2, 1024, "ratio", 9), [2**power for power in range(1, 10)] + [1024]),
    ],
)
def test_each_step_multiplies_or_adds(scale: Scale, positions: list[float]) -> None:
    assert scale.positions == pytest.approx(positions, rel=5e-3)
    assert (scale.positions[0], scale.positions[-1]) == (scale.low, scale.high)


@law
@given(scales)
@example(Scale(1001, 1098, "difference", 97))
@example(Scale(1001, 1098, "ratio", 97))
def test_positions_climb_from_end_to_end_and_can_all_be_chosen(scale: Scale) -> None:
    positions = scale.positions
    assert len(positions) == scale.steps + 1
    assert (positions[0], positions[-1]) == (scale.low, scale.high)
    assert positions == sorted(positions)
    question = replace(estimate(), scale=scale)
    assert [question.read(position) for position in positions] == positions


@law
@given(scales, st.floats(0, 1))
def test_share_climbs_from_0_to_1(scale: Scale, share: float) -> None:
    if scale.scale == "ratio":
        value = scale.low * (scale.high / scale.low) ** share
    else:
        value = scale.low + (scale.high - scale.low) * share
    assert scale.share(value) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("scale", [RATIO, DIFFERENCE])
def test_what_lies_beyond_an_end_is_drawn_at_the_end(scale: Scale) -> None:
    assert scale.share(scale.low) == scale.share(0) == 0
    assert scale.share(scale.high) == scale.share(1e30) == 1
