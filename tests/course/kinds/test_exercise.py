"""An exercise is solved by an answer that reaches its goal, and tells why not."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ckptlab.course.kinds.exercise import MOST_TIMES_KEY, Exercise
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerKeyError, PlanError, QuestionError

law = settings(derandomize=True, deadline=None)

QUESTIONS = load_bank(Path(__file__).parents[1] / "banks" / "every_kind.toml").questions


def task(answer: int = 7) -> Exercise:
    question = QUESTIONS["task"]
    assert isinstance(question, Exercise)
    return replace(question, answer=answer)


def measure(number: int) -> float:
    """Exactly on the target at 6, so that 7 is the first to pass it."""
    return number / 6


def test_smallest_number_solves_the_exercise() -> None:
    assert task().attempt(7, measure) == (True, "At 7 it is 1.17.")


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
    assert task().attempt(attempt, measure) == (False, feedback)


@law
@given(st.integers(1, 60), st.integers(1, 700))
def test_one_number_alone_solves_and_the_rest_are_told_their_side(
    key: int, attempt: int
) -> None:
    def pass_at_key(number: int) -> float:
        return number / (key - 0.5)

    is_solved, feedback = task(key).attempt(attempt, pass_at_key)
    assert is_solved == (attempt == key)
    side = "only" if attempt < key else "it is" if attempt == key else "already"
    assert feedback.startswith((f"At {attempt} {side}", "That is far too high"))
    assert feedback.startswith("That is far") == (attempt > MOST_TIMES_KEY * key)


def test_none_means_not_tried_yet() -> None:
    is_solved, feedback = task().attempt(None, measure)
    assert not is_solved
    assert feedback.startswith("Not tried yet")


@pytest.mark.parametrize("attempt", [7.0, "7", True, 0, -7, [7], math.nan], ids=repr)
def test_what_is_no_whole_number_from_1_is_shown_as_typed(attempt: object) -> None:
    is_solved, feedback = task().attempt(attempt, measure)
    assert not is_solved
    assert feedback.startswith(f"`{attempt!r}` is not a whole number from 1 up")


def test_what_is_shown_cannot_end_its_code_marks() -> None:
    _, feedback = task().attempt("`<b>`" * 20, measure)
    assert feedback.count("`") == 4
    assert len(feedback) < 120


@pytest.mark.parametrize(
    "attempt", [10**400, -(10**5000), 10**5000], ids=["e400", "-e5000", "e5000"]
)
def test_huge_attempt_is_answered_without_a_measurement(attempt: int) -> None:
    def measure_near_the_key(number: int) -> float:
        assert number < 10**6
        return measure(number)

    is_solved, feedback = task().attempt(attempt, measure_near_the_key)
    assert not is_solved
    assert len(feedback) < 200


def test_attempts_are_measured_up_to_a_hundred_times_the_key() -> None:
    most = MOST_TIMES_KEY * 7
    assert task().attempt(most, measure)[1].startswith(f"At {most} already")
    assert task().attempt(most + 1, measure)[1].startswith("That is far too high")


def test_numpy_numbers_are_numbers() -> None:
    assert task().attempt(np.int64(7), measure) == (True, "At 7 it is 1.17.")


@law
@given(
    st.none()
    | st.booleans()
    | st.integers(-(10**100), 10**100)
    | st.floats()
    | st.text()
    | st.binary()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.floats())
)
@example("x" * 2**20)
@example("\ud800\N{RIGHT-TO-LEFT OVERRIDE}")
def test_no_attempt_raises(attempt: object) -> None:
    is_solved, feedback = task().attempt(attempt, measure)
    assert is_solved == (attempt == 7 and isinstance(attempt, int))
    assert 0 < len(feedback) < 250
    assert feedback.isprintable()


@pytest.mark.parametrize("attempt", [None, 7, "seven"])
@pytest.mark.parametrize("key", [1, 6, 8])
def test_wrong_answer_key_is_told_whatever_the_attempt(
    key: int, attempt: object
) -> None:
    with pytest.raises(AnswerKeyError, match=f"exercise 'task': the answer key {key} "):
        task(key).attempt(attempt, measure)


def test_exercise_that_1_solves_never_measures_0() -> None:
    def measure_from_1(number: int) -> float:
        assert number >= 1
        return 2.0 * number

    assert task(1).attempt(1, measure_from_1)[0]


def test_fact_that_no_attempt_has_is_told_with_its_key() -> None:
    question = replace(task(), too_high="At {attempt} {weights}.")
    assert not question.attempt(1, measure)[0]
    with pytest.raises(QuestionError, match="question 'task', key 'too_high'"):
        question.attempt(8, measure)


def test_exercise_is_never_predicted() -> None:
    assert not task().is_predicted
    assert task().key == 7


# -- the other goals -----------------------------------------------------------------


def plan_task() -> Exercise:
    """Solved by a text of at most five letters."""
    return replace(task(), goal="at most", answer="abc", too_high="{attempt}: {ratio}")


def length(text: str) -> float:
    if not text.isalpha():
        raise PlanError(f"{text!r} holds more than letters\n  ^ here")
    return len(text) / 5


def equal_task() -> Exercise:
    return replace(task(), goal="equal", answer=19.0)


@pytest.mark.parametrize("text", ["a", "abcde"])
def test_at_most_is_solved_up_to_the_target(text: str) -> None:
    assert plan_task().attempt(text, length)[0]


def test_at_most_tells_what_is_too_much() -> None:
    assert plan_task().attempt("abcdefghij", length) == (False, "abcdefghij: 2")


def test_refusal_of_the_measure_is_the_feedback_line_by_line() -> None:
    is_solved, feedback = plan_task().attempt("a1", length)
    assert not is_solved
    assert feedback == "```text\n'a1' holds more than letters\n  ^ here\n```"


@pytest.mark.parametrize("tried", [7, ["a"], b"a", "a" * 1001, True], ids=ascii)
def test_what_is_no_short_text_is_refused_before_it_is_measured(tried: object) -> None:
    is_solved, feedback = plan_task().attempt(tried, length)
    assert not is_solved
    assert feedback.endswith("is not a short text; write one, between quotes.")


@pytest.mark.parametrize(
    ("tried", "start"),
    [
        (19, "At 19 it is 1."),
        (19.15, "At 19.15 it is 1.01."),
        (18.7, "At 18.7 only 0.984."),
        (19.3, "At 19.3 already 1.02."),
        (-19, "At -19 only -1."),
    ],
)
def test_equal_is_solved_to_one_percent(tried: float, start: str) -> None:
    is_solved, feedback = equal_task().attempt(tried, lambda number: number / 19)
    assert feedback == start
    assert is_solved == ("it is" in start)


@pytest.mark.parametrize("tried", ["19", [19], math.inf, math.nan, 1e301, True])
def test_what_is_no_number_is_refused(tried: object) -> None:
    is_solved, feedback = equal_task().attempt(tried, lambda number: number / 19)
    assert not is_solved
    assert feedback.endswith("is not a number; write one, such as `100`.")


@pytest.mark.parametrize("exercise", [plan_task(), equal_task()])
def test_wrong_key_of_every_goal_is_told(exercise: Exercise) -> None:
    with pytest.raises(AnswerKeyError, match="exercise 'task': the answer key"):
        exercise.attempt(None, lambda _: 2.0)
