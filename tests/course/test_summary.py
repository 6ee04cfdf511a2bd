"""What a learner and a teacher are told is what the records say."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.course.kinds.question import Answer, Outcome
from ckptlab.course.questions import load_bank
from ckptlab.course.record import Event, Record
from ckptlab.course.summary import (
    Calibration,
    LookAgain,
    calibrate,
    describe_calibration,
    export_csv,
    export_json,
    export_rows,
    look_again,
    summarize_lessons,
)

law = settings(derandomize=True, deadline=None)

BANK = load_bank(Path(__file__).parent / "banks" / "every_kind.toml")
BANKS = {BANK.lesson: BANK}
COLUMNS = [
    "lesson",
    "question",
    "prediction",
    "confidence_percent",
    "outcome",
    "second_try",
    "second_outcome",
    "shown_without_prediction",
    "hints_opened",
    "time",
]

Records = dict[tuple[str, str], Record]


def predicted(
    answer: Answer = "blue",
    outcome: Outcome | None = None,
    confidence: int | None = None,
    **more: Any,
) -> Record:
    prediction = Event(
        "lesson", "q", "predicted", answer, confidence, time="2026-01-02T03:04:05+00:00"
    )
    was_revealed = outcome is not None
    return Record(prediction, outcome, was_revealed=was_revealed, **more)


SHOWN = Record(was_shown=True)


def numbered(records: list[Record], lesson: str = "01_lesson") -> Records:
    return {(lesson, f"q{number}"): one for number, one in enumerate(records)}


outcomes = st.sampled_from(["right", "near", "wrong", None])
any_record = (
    st.builds(predicted, st.text(), outcomes, st.none() | st.integers(0, 100))
    | st.just(SHOWN)
    | st.just(Record())
    | st.just(Record(n_hints=1))
)
any_records = st.lists(any_record, max_size=30).map(numbered)


# -- lessons -------------------------------------------------------------------------


def test_lesson_counts_its_predictions_outcomes_and_what_was_shown() -> None:
    records = {
        ("every_kind", "one"): predicted("green", "right", 90),
        ("every_kind", "amount"): predicted(1.0, "near"),
        ("every_kind", "estimate"): predicted(1.0, "wrong", 60),
        ("every_kind", "several"): predicted(["cod"], None),
        ("every_kind", "curve"): SHOWN,
        ("every_kind", "own-words"): Record(n_hints=2),
    }
    (lesson,) = summarize_lessons(records, BANKS)
    assert lesson.lesson == "every_kind"
    assert lesson.n_questions == len(BANK.questions) - 1  # an exercise asks for none
    assert lesson.n_predicted == 4
    assert lesson.outcomes == {"right": 1, "near": 1, "wrong": 1}
    assert lesson.n_waiting == 1
    assert lesson.n_shown == 1


def test_second_try_counts_as_no_prediction() -> None:
    second = Event("lesson", "q", "tried again", "green")
    record = predicted("blue", "wrong", second_try=second, second_outcome="right")
    (lesson,) = summarize_lessons({("01", "q"): record}, {})
    assert (lesson.n_predicted, lesson.outcomes) == (1, {"wrong": 1})


def test_lessons_come_by_name_whether_they_have_a_bank_or_a_record() -> None:
    records = numbered([predicted()], "zebra") | numbered([predicted()], "ant")
    lessons = summarize_lessons(records, BANKS)
    assert [one.lesson for one in lessons] == ["ant", "every_kind", "zebra"]
    assert [one.n_questions for one in lessons] == [None, 7, None]
    assert [one.n_predicted for one in lessons] == [1, 0, 1]


def test_nothing_predicted_gives_no_lessons() -> None:
    assert summarize_lessons({}, {}) == []


@law
@given(any_records)
def test_every_prediction_is_in_one_lesson_once(records: Records) -> None:
    lessons = summarize_lessons(records | numbered([predicted()], "02"), {})
    assert sum(one.n_predicted for one in lessons) == 1 + sum(
        record.prediction is not None for record in records.values()
    )
    assert all(0 <= one.n_waiting <= one.n_predicted for one in lessons)


# -- calibration ---------------------------------------------------------------------


@law
@given(any_records)
def test_calibration_counts_as_by_hand(records: Records) -> None:
    expected = []
    for confidence in range(101):
        made = [
            record
            for record in records.values()
            if record.prediction is not None
            and record.prediction.confidence == confidence
            and record.outcome is not None
        ]
        n_right = len([record for record in made if record.outcome == "right"])
        if made:
            expected.append(Calibration(confidence, len(made), n_right))
    assert calibrate(records) == expected
    for one in expected:
        assert one.right_percent == pytest.approx(100 * one.n_right / one.n_predictions)


def test_near_miss_is_not_right_and_what_waits_does_not_count() -> None:
    records = numbered(
        [predicted("a", outcome, 70) for outcome in ("right", "near", "wrong", None)]
    )
    assert calibrate(records) == [Calibration(70, 3, 1)]


def test_confidence_of_nothing_is_a_confidence() -> None:
    records = numbered([predicted("a", "wrong", 0), predicted("a", "wrong", None)])
    assert calibrate(records) == [Calibration(0, 1, 0)]


@pytest.mark.parametrize(
    ("calibrations", "expected"),
    [
        ([], "No prediction with a confidence is revealed yet."),
        (
            [Calibration(90, 4, 0)],
            "You were 90 % sure on average, and right 0 % of the time; five "
            "predictions or more say whether that fits.",
        ),
        (
            [Calibration(90, 5, 0)],
            "You were 90 % sure on average, and right 0 % of the time: surer than "
            "right. When you next feel sure, look for a reason.",
        ),
        (
            [Calibration(10, 5, 5)],
            "You were 10 % sure on average, and right 100 % of the time: you know "
            "more than you think.",
        ),
        (
            [Calibration(50, 2, 1), Calibration(100, 8, 8)],
            "You were 90 % sure on average, and right 90 % of the time: well judged.",
        ),
        (
            [Calibration(75, 10, 6)],  # 15 apart is near enough
            "You were 75 % sure on average, and right 60 % of the time: well judged.",
        ),
        (
            [Calibration(45, 10, 6)],
            "You were 45 % sure on average, and right 60 % of the time: well judged.",
        ),
    ],
)
def test_calibration_is_told_in_one_sentence(
    calibrations: list[Calibration], expected: str
) -> None:
    assert describe_calibration(calibrations) == expected


# -- what to look at again -----------------------------------------------------------


def test_surest_errors_come_first_then_near_misses_then_the_unseen() -> None:
    records = numbered(
        [
            SHOWN,
            predicted("a", "near", 100),
            predicted("a", "wrong"),
            predicted("a", "right", 100),
            predicted("a", "near", 50),
            predicted("a", "wrong", 95),
            predicted("a", None, 95),
            predicted("a", "wrong", 0),
            predicted("a", "wrong", 60),
            Record(n_hints=1),
            predicted("a", "near"),
        ]
    )
    assert [(one.topic, one.why) for one in look_again(records, {})] == [
        ("q5", "missed, 95 % sure"),
        ("q8", "missed, 60 % sure"),
        ("q2", "missed"),
        ("q7", "missed, 0 % sure"),
        ("q1", "close, 100 % sure"),
        ("q4", "close, 50 % sure"),
        ("q10", "close"),
        ("q0", "opened without a prediction"),
    ]


@law
@given(any_records)
def test_all_that_went_wrong_is_looked_at_again_and_nothing_else(
    records: Records,
) -> None:
    found = look_again(records, {})
    expected = {
        question
        for (_, question), record in records.items()
        if record.was_shown or record.outcome in ("near", "wrong")
    }
    assert len(found) == len(expected)
    assert {one.topic for one in found} == expected
    kinds = [one.why.split()[0].rstrip(",") for one in found]
    assert kinds == sorted(kinds, key=["missed", "close", "opened"].index)


def test_what_matters_the_same_comes_in_the_order_of_the_work() -> None:
    records = {("01", question): SHOWN for question in "cab"}
    assert [one.topic for one in look_again(records, {})] == ["c", "a", "b"]


def test_missed_choice_tells_the_belief_behind_it() -> None:
    records = {("every_kind", "one"): predicted("blue", "wrong", 80)}
    assert look_again(records, BANKS) == [
        LookAgain(
            "every_kind",
            "The colour of grass",
            "missed, 80 % sure",
            ("grass mirrors the sky",),
        )
    ]


def test_beliefs_are_told_of_wrong_choices_alone() -> None:
    records = {
        ("every_kind", "several"): predicted(["cod", "mole"], "near"),
        ("every_kind", "amount"): predicted(1.0, "wrong"),
        ("every_kind", "one"): SHOWN,
    }
    beliefs = {one.topic: one.misconceptions for one in look_again(records, BANKS)}
    assert beliefs == {
        "What swims": ("everything small swims",),
        "The weight of a file": (),
        "The colour of grass": (),
    }


@pytest.mark.parametrize("banks", [{}, BANKS])
def test_question_that_no_bank_knows_is_told_by_its_id(banks: Any) -> None:
    records = {("every_kind", "gone"): SHOWN}
    assert [one.topic for one in look_again(records, banks)] == ["gone"]


# -- export --------------------------------------------------------------------------


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def every_kind_of_record() -> Records:
    second = Event("every_kind", "one", "tried again", "green", time="later")
    return {
        ("every_kind", "one"): predicted(
            "blue", "wrong", 80, second_try=second, second_outcome="right"
        ),
        ("every_kind", "several"): predicted(["cod", "duck"], "right"),
        ("every_kind", "own-words"): predicted("Yeast.", None, 60, n_hints=2),
        ("every_kind", "curve"): SHOWN,
        ("every_kind", "gone"): predicted("of another day", "near"),
        ("elsewhere", "q"): predicted(["x", "y"]),
    }


def test_table_has_one_row_a_question_in_the_order_of_the_work() -> None:
    rows = export_rows(every_kind_of_record(), BANKS)
    places = [(row["lesson"], row["question"]) for row in rows]
    assert places == list(every_kind_of_record())
    assert all(list(row) == COLUMNS for row in rows)
    assert list(rows[0].values()) == [
        "every_kind",
        "one",
        "Blue",
        80,
        "wrong",
        "Green",
        "right",
        False,
        0,
        "2026-01-02T03:04:05+00:00",
    ]
    assert [row["prediction"] for row in rows[1:]] == [
        "A cod; A duck",
        "Yeast.",
        "",
        "of another day",
        "['x', 'y']",
    ]
    assert [row["hints_opened"] for row in rows] == [0, 0, 2, 0, 0, 0]
    assert [row["shown_without_prediction"] for row in rows].index(True) == 3


def test_answer_that_no_longer_fits_its_question_is_exported_as_it_stands() -> None:
    records = {("every_kind", "one"): predicted("gone"), ("every_kind", "curve"): SHOWN}
    assert export_rows(records, BANKS)[0]["prediction"] == "gone"


@pytest.mark.parametrize("export", [export_csv, export_json])
def test_no_name_stands_in_an_export_unless_given(export: Any) -> None:
    records = every_kind_of_record()
    assert "name" not in export(records, BANKS)
    assert export(records, BANKS, "") == export(records, BANKS)
    assert export(records, BANKS, "Ada L.").count("Ada L.") == len(records)


def test_given_name_is_the_first_column() -> None:
    records = every_kind_of_record()
    for rows in (
        read_csv(export_csv(records, BANKS, "Ada")),
        json.loads(export_json(records, BANKS, "Ada")),
    ):
        assert all(list(row) == ["name", *COLUMNS] for row in rows)
        assert {row["name"] for row in rows} == {"Ada"}


def test_csv_and_json_say_the_same() -> None:
    records = every_kind_of_record()
    told = json.loads(export_json(records, BANKS))
    assert told == export_rows(records, BANKS)
    as_texts = [
        {key: "" if value is None else str(value) for key, value in row.items()}
        for row in told
    ]
    assert read_csv(export_csv(records, BANKS)) == as_texts


def test_nothing_predicted_is_a_table_without_rows() -> None:
    assert export_csv({}, BANKS).split() == [",".join(COLUMNS)]
    assert export_csv({}, BANKS, "Ada").split() == [",".join(["name", *COLUMNS])]
    assert json.loads(export_json({}, BANKS)) == []


FORMULAS = ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1+1", "\r=1+1", '=HYPERLINK("x")']


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_is_a_formula(formula: str) -> None:
    second = Event(formula, formula, "tried again", formula)
    prediction = Event(formula, formula, "predicted", formula, time=formula)
    record = Record(prediction, "wrong", True, second_try=second)
    text = export_csv({(formula, formula): record}, {}, formula)
    (row,) = read_csv(text)
    defused = {key for key, cell in row.items() if cell == f"'{formula}"}
    expected = {"name", "lesson", "question", "prediction", "second_try", "time"}
    assert defused == expected
    (told,) = json.loads(export_json({(formula, formula): record}, {}, formula))
    assert told["prediction"] == formula


@law
@given(st.text(st.sampled_from("=+-@\t\r\n'\"a,; ") | st.characters(codec="utf-8")))
def test_any_text_comes_back_from_the_table_but_for_a_formulas_quote(
    text: str,
) -> None:
    record = predicted(text)
    rows = read_csv(export_csv({(text, "q"): record, ("l", "r"): record}, {}))
    assert len(rows) == 2
    for cell in (rows[0]["lesson"], rows[0]["prediction"], rows[1]["prediction"]):
        assert cell == (f"'{text}" if text[:1] in tuple("=+-@\t\r") else text)
        assert not cell.startswith(tuple("=+-@\t\r"))


@pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "two\r\nlines",
        'a "quoted" word',
        "one, two; three",
        '"',
        "",
        "重み 🙂",
        "\u202eright to left",
        "<b>bold</b>",
    ],
)
def test_text_of_several_lines_quotes_and_commas_is_one_cell(text: str) -> None:
    records = {("every_kind", "own-words"): predicted(text)}
    (row,) = read_csv(export_csv(records, BANKS))
    assert row["prediction"] == text
    assert json.loads(export_json(records, BANKS))[0]["prediction"] == text


@pytest.mark.parametrize("text", ["\ud800", "\x00", "重み"])
def test_json_is_plain_ascii_whatever_was_typed(text: str) -> None:
    told = export_json({("l", "q"): predicted(text)}, {})
    assert told.isascii()
    assert json.loads(told)[0]["prediction"] == text


@law
@given(any_records)
def test_counts_of_the_table_are_those_of_the_lessons(records: Records) -> None:
    rows = export_rows(records, {})
    lessons = summarize_lessons(records, {})
    told = Counter(row["outcome"] for row in rows if row["outcome"])
    assert sum((one.outcomes for one in lessons), Counter()) == told
    shown = sum(one.n_shown for one in lessons)
    assert shown == sum(row["shown_without_prediction"] for row in rows)
