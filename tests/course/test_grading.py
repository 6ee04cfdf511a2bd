"""Whatever is typed becomes an answer that can be graded, or one clear line."""

import json
import math
import reprlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ckptlab.course.grading import check_key, grade
from ckptlab.course.kinds import KINDS, Question
from ckptlab.course.kinds.choice import ChoiceQuestion
from ckptlab.course.kinds.number import NumberQuestion
from ckptlab.course.kinds.question import fill
from ckptlab.course.kinds.reflection import Reflection
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerError, AnswerKeyError, QuestionError

law = settings(derandomize=True, deadline=None, max_examples=300)

QUESTIONS = load_bank(Path(__file__).parent / "banks" / "every_kind.toml").questions
MEASURED = {name: q for name, q in QUESTIONS.items() if q.is_predicted & q.is_measured}
every_question = pytest.mark.parametrize("name", QUESTIONS)
every_measured = pytest.mark.parametrize("name", MEASURED)

RIGHT_TO_LEFT = "\N{RIGHT-TO-LEFT OVERRIDE}\N{ARABIC LETTER MARK}"
IDS = [
    *["blue", "green", "cod", "mole", "duck", "noon", "evening", "morning"],
    *["gas", "gluten"],
]
texts = st.one_of(
    st.text(max_size=80),
    st.text(st.characters(categories=["Cs", "Cf", "Co", "Nd", "Zl"]), max_size=80),
    st.sampled_from([*IDS, "<img src=x onerror=alert(1)>", RIGHT_TO_LEFT, "`", "{x}"]),
    st.from_regex(r"[-+]?[0-9]{1,4}[.,][0-9]{1,4}(e[0-9]{1,3})? ?[A-Za-z%×]{0,3}"),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1000, 1000),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.floats(1, 100),
    texts,
)
answers_in_shape = st.one_of(
    st.lists(st.floats(1, 100), min_size=3, max_size=3),
    st.lists(scalars, min_size=3, max_size=3),
    st.permutations(["morning", "noon", "evening"]),
    st.lists(st.sampled_from(["cod", "mole", "duck"])),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=10,
)
jsonlike = anything | answers_in_shape


def is_one_clear_line(text: str) -> bool:
    return 0 < len(text) < 250 and text.isprintable() and text == text.strip()


def outcome_of(function: Callable[[object], Any], value: object) -> tuple[Any, str]:
    """What a function gives for a value, or the message of its refusal."""
    try:
        return function(value), ""
    except (AnswerError, AnswerKeyError) as error:
        return None, str(error)


def pick() -> ChoiceQuestion:
    question = QUESTIONS["one"]
    assert isinstance(question, ChoiceQuestion)
    blue, green = question.choices
    told = replace(blue, feedback="It is {measured}, as {wood} is.")
    return replace(question, choices=(told, green))


def amount() -> NumberQuestion:
    question = QUESTIONS["amount"]
    assert isinstance(question, NumberQuestion)
    tolerance = replace(question.tolerance, too_low="{measured} it is.")
    return replace(question, answer=1024.0, tolerance=tolerance)


# -- whatever is typed ---------------------------------------------------------------


def test_bank_of_the_tests_has_every_kind() -> None:
    assert {question.kind for question in QUESTIONS.values()} == set(KINDS)


@every_question
@law
@given(typed=jsonlike)
@example(typed="9" * 2**20)
@example(typed="<b>" * 2**20)
@example(typed=["cod", "cod"])
@example(typed=10**5000)
@example(typed=-(10**5000))
@example(typed=[10**5000, 1, 1])
@example(typed="\U000e0001" * 50)
@example(typed=RIGHT_TO_LEFT * 50)
@example(typed="'\"\\" * 50)
@example(typed="\ud800")
@example(typed="1e299")
@example(typed=math.nan)
@example(typed=[math.nan, math.inf, -0.0])
def test_anything_typed_is_graded_or_refused_in_one_line(
    name: str, typed: object
) -> None:
    question = QUESTIONS[name]
    answer, refusal = outcome_of(question.read, typed)
    if refusal:
        assert is_one_clear_line(refusal)
        return
    assert question.fits(answer)
    assert question.text(answer)
    stored = json.loads(json.dumps(answer, allow_nan=False))
    assert question.fits(stored)
    assert question.read(stored) == answer or isinstance(typed, str)
    if question.is_measured:
        result = question.compare(answer, question.key)
        assert result.outcome in ("right", "near", "wrong")
        assert result.sentence.isprintable()
        assert result.sentence.endswith(".")
        assert question.compare(stored, question.key) == result
        graded = grade(question, answer, question.key, {})
        assert (graded.outcome, graded.comparison) == (result.outcome, result.sentence)


@every_question
@law
@given(stored=jsonlike)
@example(stored=10**5000)
@example(stored=[10**5000] * 3)
@example(stored=[])
@example(stored={"cod": 1, "duck": 2})
@example(stored=[["cod"], {}])
def test_any_stored_value_fits_or_does_not(name: str, stored: object) -> None:
    question = QUESTIONS[name]
    fits = question.fits(stored)
    assert fits in (True, False)
    if fits and question.is_measured:
        result = question.compare(stored, question.key)
        assert result.outcome in ("right", "near", "wrong")
        assert isinstance(question.text(stored), str)


@every_question
@law
@given(measured=jsonlike)
@example(measured=10**5000)
@example(measured=-(10**400))
@example(measured=[1, 4, 10**400])
@example(measured=[1, 4, -16])
@example(measured=[1, 4, None])
@example(measured=[["cod"], "duck"])
@example(measured={"cod": 1, "duck": 2})
def test_any_measurement_agrees_or_does_not(name: str, measured: object) -> None:
    question = QUESTIONS[name]
    agreed = question.agree(measured)
    if agreed is not None:
        assert question.fits(agreed)
        assert question.compare(agreed, question.key).outcome == "right"


@every_measured
@law
@given(measured=jsonlike)
def test_any_measurement_is_an_answer_or_an_answer_key_error(
    name: str, measured: object
) -> None:
    question = QUESTIONS[name]
    agreed, refusal = outcome_of(partial(check_key, question), measured)
    if refusal:
        assert refusal.startswith(f"question '{name}': measured ")
        assert f"the answer key says {question.text(question.key)};" in refusal
    else:
        assert question.fits(agreed)


@law
@given(met=jsonlike)
def test_any_judgement_of_a_reflection_is_kept_or_refused_in_one_line(
    met: object,
) -> None:
    question = QUESTIONS["own-words"]
    assert isinstance(question, Reflection)
    judged, refusal = outcome_of(question.judge, met)
    if refusal:
        assert is_one_clear_line(refusal)
        return
    kept, outcome = judged
    assert set(kept) <= {"gas", "gluten"}
    assert outcome == ["wrong", "near", "right"][len(kept)]


# -- grading -------------------------------------------------------------------------


@every_measured
def test_key_is_right_and_shown_alike_on_both_sides(name: str) -> None:
    question = QUESTIONS[name]
    result = grade(question, question.key, question.key, {})
    assert (result.outcome, result.comparison) == ("right", "Your prediction holds.")
    assert result.predicted == result.measured == question.text(question.key)


@pytest.mark.parametrize(
    ("name", "answer", "outcome", "predicted", "measured"),
    [
        ("one", "blue", "wrong", "Blue", "Green"),
        ("several", ["cod"], "near", "A cod", "A cod; A duck"),
        ("amount", 2.0**31, "near", "2 GiB", "1.5 GiB"),
        ("estimate", 900.0, "wrong", "900", "300"),
        (
            "sequence",
            ["noon", "morning", "evening"],
            "near",
            "1. Noon; 2. Morning; 3. Evening",
            "1. Morning; 2. Noon; 3. Evening",
        ),
        (
            "curve",
            [1.0, 2.0, 2.0],
            "wrong",
            "1 at 1, 2 at 2, 2 at 4",
            "1 at 1, 4 at 2, 16 at 4",
        ),
    ],
)
def test_both_sides_are_shown_as_text(
    name: str, answer: object, outcome: str, predicted: str, measured: str
) -> None:
    question = QUESTIONS[name]
    result = grade(question, question.read(answer), question.key, {})
    assert (result.outcome, result.predicted) == (outcome, predicted)
    assert result.measured == measured


def test_feedback_is_filled_with_facts_and_the_measurement() -> None:
    result = grade(pick(), "blue", "green", {"wood": "moss"})
    assert result.feedback == "It is Green, as moss is."


def test_measurement_in_feedback_is_no_fact_of_the_lesson() -> None:
    result = grade(amount(), 1.0, 1030.0, {"measured": "nothing"})
    assert result.feedback == "1.01 KiB it is."


def test_place_where_a_curve_is_furthest_off_fills_its_feedback() -> None:
    result = grade(QUESTIONS["curve"], [1.0, 4.0, 2.0], [1.0, 4.0, 16.0], {})
    assert result.feedback == "At 4 the square is larger."


def test_feedback_of_several_choices_stands_in_paragraphs() -> None:
    result = grade(QUESTIONS["several"], ["mole", "duck"], ["cod", "duck"], {})
    assert result.feedback == "A cod is a fish.\n\nA mole digs."


@pytest.mark.parametrize("name", ["amount", "estimate", "curve", "sequence"])
def test_what_holds_needs_no_feedback(name: str) -> None:
    question = QUESTIONS[name]
    assert grade(question, question.key, question.key, {}).feedback == ""


def test_fact_that_feedback_misses_is_told_with_its_question() -> None:
    with pytest.raises(QuestionError, match=r"question 'one', key 'feedback' .*'wood'"):
        grade(pick(), "blue", "green", {"grass": 1})


# -- answer keys ---------------------------------------------------------------------


@every_measured
def test_key_itself_is_accepted(name: str) -> None:
    question = QUESTIONS[name]
    assert check_key(question, question.key) == question.key


@pytest.mark.parametrize(
    ("name", "measured", "shown", "key"),
    [
        ("one", "blue", "Blue", "Green"),
        ("one", None, "None", "Green"),
        ("several", ["cod", "mole"], "A cod; A mole", "A cod; A duck"),
        ("several", [], "", "A cod; A duck"),
        ("amount", 2**30, "1 GiB", "1.5 GiB"),
        ("amount", "apples", "'apples'", "1.5 GiB"),
        ("amount", math.nan, "nan", "1.5 GiB"),
        ("amount", [2**30], f"[{2**30}]", "1.5 GiB"),
        ("amount", None, "None", "1.5 GiB"),
        ("estimate", 10**400, reprlib.repr(10**400), "300"),
        ("sequence", ["noon"], "1. Noon", "1. Morning; 2. Noon; 3. Evening"),
        ("sequence", None, "None", "1. Morning; 2. Noon; 3. Evening"),
        ("curve", [1, 4, 17], "1 at 1, 4 at 2, 17 at 4", "1 at 1, 4 at 2, 16 at 4"),
        ("curve", [1, 4], "[1, 4]", "1 at 1, 4 at 2, 16 at 4"),
    ],
)
def test_measurement_that_contradicts_the_key_is_shown_beside_it(
    name: str, measured: object, shown: str, key: str
) -> None:
    with pytest.raises(AnswerKeyError) as caught:
        check_key(QUESTIONS[name], measured)
    assert str(caught.value).startswith(
        f"question '{name}': measured {shown}, but the answer key says {key}; "
        "if you changed a cell above, undo it"
    )


def test_measurement_near_the_key_is_kept_as_it_was_measured() -> None:
    assert check_key(amount(), 1030) == 1030
    assert check_key(QUESTIONS["curve"], (1, 4.03, 16)) == [1, 4.03, 16]


def test_order_in_which_several_were_measured_does_not_matter() -> None:
    assert check_key(QUESTIONS["several"], {"duck", "cod"}) == ["cod", "duck"]


def test_numpy_numbers_are_numbers() -> None:
    for measured in (np.float32(1024), np.int64(1024)):
        assert check_key(amount(), measured) == 1024
    kept = check_key(QUESTIONS["curve"], list(np.array([1.0, 4.0, 16.0])))
    assert json.loads(json.dumps(kept)) == [1, 4, 16]


def test_exercise_has_no_measurement_that_agrees() -> None:
    with pytest.raises(AnswerKeyError, match="question 'task': measured 7, but"):
        check_key(QUESTIONS["task"], 7)


# -- filling texts -------------------------------------------------------------------


def test_placeholders_are_filled_once_and_braces_kept() -> None:
    text = fill(pick(), "prompt", "{{x}} of {weights}", {"weights": "{y}", "z": 1})
    assert text == "{x} of {y}"


def test_missing_fact_is_told_with_question_and_key() -> None:
    with pytest.raises(QuestionError) as caught:
        fill(pick(), "prompt", "{weights}", {"activations": 1})
    message = str(caught.value)
    assert "question 'one', key 'prompt' asks for ['weights']" in message
    assert "['activations']" in message


def test_question_without_a_key_of_its_own_has_none() -> None:
    for question in QUESTIONS.values():
        if not question.is_measured:
            with pytest.raises(NotImplementedError):
                _ = question.key
            assert question.agree("anything") is None


def test_only_what_is_predicted_can_be_read() -> None:
    def refusal(question: Question) -> str:
        with pytest.raises(AnswerError) as caught:
            question.read("7")
        return str(caught.value)

    task = QUESTIONS["task"]
    assert refusal(task) == "question 'task' takes no prediction"
    assert not task.fits(7)
