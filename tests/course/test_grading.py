"""Answers are read as learners type them, and graded by ratio."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ckptlab.course.grading import (
    attempt_exercise,
    check_key,
    fill,
    format_answer,
    grade,
    read_answer,
    sample,
)
from ckptlab.course.questions import (
    UNITS,
    Choice,
    ChoiceQuestion,
    Exercise,
    NumberQuestion,
)
from ckptlab.errors import AnswerError, AnswerKeyError, QuestionError

law = settings(derandomize=True, deadline=None)
amounts = st.floats(1e-12, 1e20)

PICK = ChoiceQuestion(
    id="pick",
    prompt="Which?",
    explanation="Because.",
    asks_confidence=False,
    choices=(
        Choice("a", "This one", "Well judged: {measured}."),
        Choice("b", "That one", "You may have thought of {weights}."),
    ),
    answer="a",
)
AMOUNT = NumberQuestion(
    id="amount",
    prompt="How much of {weights}?",
    explanation="Because.",
    asks_confidence=False,
    unit="bytes",
    answer=1024.0,
    right_within=2.0,
    near_within=4.0,
    too_low="More than that: {measured}.",
    too_high="Less than that: {measured}.",
)
TASK = Exercise(
    id="task",
    prompt="Find it.",
    explanation="At {attempt} it is {ratio}.",
    asks_confidence=False,
    answer=7,
    too_low="At {attempt} only {ratio}.",
    too_high="At {attempt} already {ratio}.",
)


def amount_in(unit: str) -> NumberQuestion:
    return replace(AMOUNT, unit=unit)


def measure(number: int) -> float:
    """Exactly on the target at 6, so that 7 is the first to pass it."""
    return number / 6


# -- reading -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "typed", "number"),
    [
        ("bytes", "64 MiB", 2**26),
        ("bytes", " 80 gb ", 8e10),
        ("seconds", "12 ms", 0.012),
        ("seconds", "1.5 min", 90),
        ("FLOPs", "2.5 TFLOPs", 2.5e12),
        ("times", "2.5", 2.5),
        ("times", "2.5x", 2.5),
        ("times", "2.5 ×", 2.5),
        ("times", "3 times", 3),
        ("times", 4, 4),
        ("count", "12", 12),
        ("count", "1,024", 1024),
        ("count", "0", 0),
    ],
)
def test_number_is_read_in_the_unit_of_the_question(
    unit: str, typed: object, number: float
) -> None:
    assert read_answer(amount_in(unit), typed) == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(
    "typed",
    [
        *["apples", "64 apples", "-1", "nan", "inf", "1e999", "x", "1 2", "½"],
        *["<img src=x onerror=alert(1)>", "__import__('os')", None, True],
    ],
    ids=repr,
)
@pytest.mark.parametrize("unit", UNITS)
def test_what_cannot_be_read_is_shown_with_a_sample(unit: str, typed: object) -> None:
    question = amount_in(unit)
    with pytest.raises(AnswerError) as caught:
        read_answer(question, typed)
    message = str(caught.value)
    assert message.startswith(f"{str(typed)!r} cannot be read; type ")
    assert message.endswith(f"such as {sample(question)!r}")
    assert "\n" not in message


@pytest.mark.parametrize("unit", UNITS)
def test_samples_can_be_read(unit: str) -> None:
    assert read_answer(amount_in(unit), sample(amount_in(unit))) > 0


@pytest.mark.parametrize("typed", ["", "   ", "\n"], ids=repr)
@pytest.mark.parametrize("unit", UNITS)
def test_empty_field_asks_for_a_number_first(unit: str, typed: str) -> None:
    with pytest.raises(AnswerError, match="type a number first, such as '"):
        read_answer(amount_in(unit), typed)


@pytest.mark.parametrize("unit", UNITS)
def test_refusal_shows_no_inner_error(unit: str) -> None:
    with pytest.raises(AnswerError) as caught:
        read_answer(amount_in(unit), "apples")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_refusal_of_a_long_text_stays_short() -> None:
    with pytest.raises(AnswerError) as caught:
        read_answer(AMOUNT, "apples " * 1000)
    assert len(str(caught.value)) < 160


@law
@given(st.text(max_size=20), st.sampled_from(UNITS))
def test_any_text_is_a_number_or_an_answer_error(typed: str, unit: str) -> None:
    try:
        number = read_answer(amount_in(unit), typed)
    except AnswerError:
        return
    assert isinstance(number, float)
    assert 0 <= number < math.inf


def test_choice_is_read_by_its_id() -> None:
    assert read_answer(PICK, "b") == "b"


@pytest.mark.parametrize("typed", [None, "", "c", "This one", 1, ["a"]], ids=repr)
def test_what_is_no_choice_asks_to_choose_first(typed: object) -> None:
    with pytest.raises(AnswerError, match=r"^choose one of the answers first$"):
        read_answer(PICK, typed)


def test_exercise_takes_no_prediction() -> None:
    with pytest.raises(AnswerError, match="'task' takes no prediction"):
        read_answer(TASK, "7")


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
    assert grade(AMOUNT, answer, 1024.0, {}).outcome == outcome


@law
@given(amounts, amounts)
def test_answer_and_measurement_could_change_places(one: float, other: float) -> None:
    there, back = grade(AMOUNT, one, other, {}), grade(AMOUNT, other, one, {})
    assert there.outcome == back.outcome


@law
@given(amounts, st.floats(1, 10))
def test_over_and_underestimating_are_graded_alike(
    measured: float, factor: float
) -> None:
    bounds = (AMOUNT.right_within, AMOUNT.near_within)
    assume(all(not math.isclose(factor, bound) for bound in bounds))
    over = grade(AMOUNT, measured * factor, measured, {})
    under = grade(AMOUNT, measured / factor, measured, {})
    assert over.outcome == under.outcome


@law
@given(amounts, amounts)
def test_what_is_off_is_told_on_its_side(answer: float, measured: float) -> None:
    result = grade(AMOUNT, answer, measured, {})
    assume(result.outcome != "right")
    side, remark = ("low", "More") if answer < measured else ("high", "Less")
    assert f"oo {side} by a factor of " in result.comparison
    assert result.feedback.startswith(f"{remark} than that: ")


@pytest.mark.parametrize(
    ("answer", "measured", "outcome"),
    [(0, 0, "right"), (0, 5, "wrong"), (5, 0, "wrong"), (0.0, 1e-300, "wrong")],
)
def test_nothing_is_only_right_where_nothing_was_measured(
    answer: float, measured: float, outcome: str
) -> None:
    assert grade(AMOUNT, answer, measured, {}).outcome == outcome


@pytest.mark.parametrize(
    ("answer", "comparison"),
    [
        (1500, "Your prediction holds."),
        (3072, "Close: too high by a factor of 3."),
        (128, "Too low by a factor of 8."),
        (1024 * 12345, "Too high by a factor of 12,345."),
    ],
)
def test_comparison_says_how_far_off(answer: float, comparison: str) -> None:
    assert grade(AMOUNT, answer, 1024.0, {}).comparison == comparison


def test_both_sides_are_shown_with_their_unit() -> None:
    result = grade(AMOUNT, 2**26, 1536.0, {})
    assert (result.predicted, result.measured) == ("64 MiB", "1.5 KiB")
    assert "1.5 KiB" in result.feedback


def test_right_number_needs_no_feedback() -> None:
    assert grade(AMOUNT, 1024, 1024.0, {}).feedback == ""


@pytest.mark.parametrize(
    ("answer", "outcome", "predicted", "feedback"),
    [
        ("a", "right", "This one", "Well judged: This one."),
        ("b", "wrong", "That one", "You may have thought of 3 MiB."),
    ],
)
def test_each_choice_has_its_own_feedback(
    answer: str, outcome: str, predicted: str, feedback: str
) -> None:
    result = grade(PICK, answer, "a", {"weights": "3 MiB"})
    assert (result.outcome, result.feedback) == (outcome, feedback)
    assert (result.predicted, result.measured) == (predicted, "This one")


def test_choice_that_the_bank_no_longer_has_is_not_right() -> None:
    result = grade(PICK, "gone", "a", {})
    assert (result.outcome, result.predicted) == ("wrong", "'gone'")


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
    ],
)
def test_answers_are_shown_in_the_unit(unit: str, answer: float, shown: str) -> None:
    assert format_answer(amount_in(unit), answer) == shown


# -- answer keys ---------------------------------------------------------------------


@pytest.mark.parametrize("measured", [1024, 1024.0, 1024 * 1.009, 1024 / 1.009])
def test_measurement_near_the_key_is_accepted_as_it_is(measured: float) -> None:
    assert check_key(AMOUNT, measured) == measured


@pytest.mark.parametrize(
    "measured",
    [1024 * 1.011, 1024 / 1.011, 0, -1024, math.nan, math.inf, "1024", None, [1024]],
    ids=repr,
)
def test_measurement_that_contradicts_the_key_is_refused(measured: object) -> None:
    with pytest.raises(AnswerKeyError, match=r"^question 'amount': measured .+ 1 KiB;"):
        check_key(AMOUNT, measured)


def test_true_is_not_the_number_one() -> None:
    with pytest.raises(AnswerKeyError):
        check_key(replace(AMOUNT, answer=1.0), True)


def test_measured_choice_must_be_the_key() -> None:
    assert check_key(PICK, "a") == "a"
    with pytest.raises(AnswerKeyError) as caught:
        check_key(PICK, "b")
    assert "'pick': measured That one, but the answer key says This one" in str(
        caught.value
    )


def test_exercise_has_no_key_to_reveal() -> None:
    with pytest.raises(AnswerKeyError, match=r"'task' is checked by check\(\)"):
        check_key(TASK, 7)


# -- filling texts -------------------------------------------------------------------


def test_placeholders_are_filled_once_and_braces_kept() -> None:
    question = replace(AMOUNT, prompt="{{x}} of {weights}")
    assert fill(question, "prompt", {"weights": "{y}", "z": 1}) == "{x} of {y}"


def test_missing_fact_is_told_with_question_and_key() -> None:
    with pytest.raises(QuestionError) as caught:
        fill(AMOUNT, "prompt", {"activations": 1})
    message = str(caught.value)
    assert "question 'amount', key 'prompt' asks for ['weights']" in message
    assert "['activations']" in message


# -- exercises -----------------------------------------------------------------------


def test_smallest_number_solves_the_exercise() -> None:
    assert attempt_exercise(TASK, 7, measure) == (True, "At 7 it is 1.17.")


@pytest.mark.parametrize(
    ("attempt", "feedback"),
    [
        (1, "At 1 only 0.167."),
        (6, "At 6 only 1."),
        (8, "At 8 already 1.33."),
        (600, "At 600 already 100."),
    ],
)
def test_other_numbers_are_told_which_way_to_go(attempt: int, feedback: str) -> None:
    assert attempt_exercise(TASK, attempt, measure) == (False, feedback)


def test_none_means_not_tried_yet() -> None:
    is_solved, feedback = attempt_exercise(TASK, None, measure)
    assert not is_solved
    assert feedback.startswith("Not tried yet")


@pytest.mark.parametrize("attempt", [7.0, "7", True, 0, -7, [7], math.nan], ids=repr)
def test_what_is_no_whole_number_from_1_is_shown_as_typed(attempt: object) -> None:
    is_solved, feedback = attempt_exercise(TASK, attempt, measure)
    assert not is_solved
    assert feedback.startswith(f"`{attempt!r}` is not a whole number from 1 up")


@pytest.mark.parametrize(
    "attempt", [10**400, -(10**5000), 10**5000], ids=["e400", "-e5000", "e5000"]
)
def test_huge_attempt_is_answered_without_a_measurement(attempt: int) -> None:
    def measure_near_the_key(number: int) -> float:
        assert number < 10**6
        return measure(number)

    is_solved, feedback = attempt_exercise(TASK, attempt, measure_near_the_key)
    assert not is_solved
    assert len(feedback) < 200


@pytest.mark.parametrize("typed", ["1,5", "2,50", "1,0000", "12,34 times"])
def test_decimal_comma_is_refused_and_not_read_as_ten_times_as_much(typed: str) -> None:
    with pytest.raises(AnswerError, match="cannot be read"):
        read_answer(replace(AMOUNT, unit="times"), typed)


def test_numpy_numbers_are_numbers() -> None:
    assert check_key(AMOUNT, np.float32(1024)) == 1024
    assert check_key(AMOUNT, np.int64(1024)) == 1024
    is_solved, _ = attempt_exercise(TASK, np.int64(TASK.answer), measure)
    assert is_solved


@law
@given(
    st.none()
    | st.booleans()
    | st.integers(-(10**100), 10**100)
    | st.floats()
    | st.text()
    | st.binary()
    | st.lists(st.integers())
)
def test_no_attempt_raises(attempt: object) -> None:
    is_solved, feedback = attempt_exercise(TASK, attempt, measure)
    assert is_solved == (attempt == 7 and isinstance(attempt, int))
    assert feedback


@pytest.mark.parametrize("attempt", [None, 7, "seven"])
@pytest.mark.parametrize("key", [1, 6, 8])
def test_wrong_answer_key_is_told_whatever_the_attempt(
    key: int, attempt: object
) -> None:
    with pytest.raises(AnswerKeyError, match=f"exercise 'task': the answer key {key} "):
        attempt_exercise(replace(TASK, answer=key), attempt, measure)


def test_exercise_that_1_solves_never_measures_0() -> None:
    def measure_from_1(number: int) -> float:
        assert number >= 1
        return 2.0 * number

    assert attempt_exercise(replace(TASK, answer=1), 1, measure_from_1)[0]
