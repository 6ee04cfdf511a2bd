"""What may follow what, and what a hostile file cannot smuggle in."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import reduce
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.course.record import EVENTS, Event, Record

law = settings(derandomize=True, deadline=None)


def event(name: str, answer: Any = None, **details: Any) -> Event:
    return Event("lesson", "q", name, answer, **details)


PREDICTED = event("predicted", "a", confidence=80)
HINT, SECOND_HINT = event("hint", 1), event("hint", 2)
SHOWN = event("shown")
REVEALED = event("revealed", outcome="wrong")
TRIED_AGAIN = event("tried again", "b")
MARKED = event("marked", ["gas"], outcome="near")
ALL = (PREDICTED, HINT, SECOND_HINT, SHOWN, REVEALED, TRIED_AGAIN, MARKED)


def fold(events: Iterable[Event], start: Record | None = None) -> Record:
    return reduce(Record.after, events, start or Record())


# -- what may follow what ------------------------------------------------------------

FOLLOWERS = [
    ((), {"predicted", "hint 1", "shown"}),
    ((HINT,), {"predicted", "hint 2", "shown"}),
    ((HINT, SECOND_HINT), {"predicted", "shown"}),
    ((PREDICTED,), {"revealed", "marked"}),
    ((HINT, PREDICTED), {"revealed", "marked"}),
    ((SHOWN,), {"tried again"}),
    ((PREDICTED, REVEALED), {"tried again", "marked"}),
    ((PREDICTED, MARKED), {"revealed"}),
    ((PREDICTED, REVEALED, MARKED), {"tried again"}),
    ((SHOWN, TRIED_AGAIN), {"revealed"}),
    ((SHOWN, TRIED_AGAIN, REVEALED), set()),
    ((PREDICTED, REVEALED, TRIED_AGAIN), {"revealed", "marked"}),
    ((PREDICTED, REVEALED, TRIED_AGAIN, REVEALED), {"marked"}),
    ((PREDICTED, REVEALED, TRIED_AGAIN, REVEALED, MARKED), set()),
]


def name_of(one: Event) -> str:
    return f"{one.event} {one.answer}" if one.event == "hint" else one.event


def name_of_all(events: object) -> str:
    if isinstance(events, tuple):
        return ", ".join(map(name_of, events)) or "nothing"
    return ""


@pytest.mark.parametrize(("before", "followers"), FOLLOWERS, ids=name_of_all)
def test_only_these_events_change_the_record_after(
    before: tuple[Event, ...], followers: set[str]
) -> None:
    record = fold(before)
    assert {name_of(one) for one in ALL if record.after(one) != record} == followers


def test_every_state_is_tried() -> None:
    """Every record that the events can reach is the start of a line above."""
    reached, new = {Record()}, [Record()]
    while new:
        record = new.pop()
        after = {record.after(one) for one in ALL} - reached
        reached |= after
        new += after

    def shape(record: Record) -> tuple[object, ...]:
        return (
            record.prediction is None,
            record.was_revealed,
            record.was_shown,
            record.second_try is None,
            record.second_outcome is None,
        )

    assert {shape(fold(before)) for before, _ in FOLLOWERS} == set(map(shape, reached))


def test_nothing_is_untouched_and_closed() -> None:
    assert Record().is_untouched
    assert not Record().is_open


def test_record_says_what_was_predicted_and_how_right_it_was() -> None:
    record = fold([PREDICTED, REVEALED])
    assert record == Record(PREDICTED, "wrong", was_revealed=True)
    assert record.is_open
    assert not record.is_untouched


def test_prediction_alone_opens_nothing() -> None:
    record = fold([PREDICTED])
    assert not record.is_open
    assert not record.is_untouched
    assert record.outcome is None


def test_opening_without_a_prediction_is_kept_and_ends_predicting() -> None:
    record = fold([SHOWN, PREDICTED])
    assert record == Record(was_shown=True)
    assert record.is_open
    assert not record.is_untouched


def test_first_reveal_judges_the_prediction_and_the_next_the_second_try() -> None:
    right = event("revealed", outcome="right")
    record = fold([PREDICTED, REVEALED, TRIED_AGAIN, right])
    assert (record.outcome, record.second_outcome) == ("wrong", "right")
    assert record.second_try == TRIED_AGAIN
    assert fold([PREDICTED, REVEALED, right]).outcome == "wrong"


def test_each_try_is_judged_once() -> None:
    right, wrong = (
        event("revealed", outcome="right"),
        event("revealed", outcome="wrong"),
    )
    record = fold([PREDICTED, right, TRIED_AGAIN, right, wrong, wrong])
    assert (record.outcome, record.second_outcome) == ("right", "right")


def test_second_try_after_opening_is_judged_too() -> None:
    record = fold([SHOWN, TRIED_AGAIN, REVEALED])
    assert (record.outcome, record.second_outcome) == (None, "wrong")


def test_second_try_stands_too() -> None:
    record = fold([PREDICTED, REVEALED, TRIED_AGAIN, event("tried again", "c")])
    assert record.second_try == TRIED_AGAIN


def test_hints_count_in_their_order_and_before_the_prediction_alone() -> None:
    assert fold([HINT, SECOND_HINT]).n_hints == 2
    assert fold([HINT, HINT]).n_hints == 1
    assert fold([SECOND_HINT]).n_hints == 0
    assert fold([HINT, PREDICTED, SECOND_HINT]).n_hints == 1


def test_reflection_may_be_judged_again() -> None:
    again = event("marked", ["gas", "gluten"], outcome="right")
    record = fold([PREDICTED, event("revealed"), MARKED, again])
    assert (record.met, record.outcome) == (("gas", "gluten"), "right")


def test_judged_reflection_stays_judged_when_it_is_revealed_after() -> None:
    record = fold([PREDICTED, MARKED, event("revealed")])
    assert (record.met, record.outcome, record.was_revealed) == (("gas",), "near", True)


def test_reflection_that_meets_nothing_is_judged_all_the_same() -> None:
    record = fold([PREDICTED, event("revealed"), event("marked", [], outcome="wrong")])
    assert (record.met, record.outcome) == ((), "wrong")


@pytest.mark.parametrize("answer", [None, "gas", 1])
def test_mark_that_is_no_list_of_criteria_marks_nothing(answer: object) -> None:
    assert fold([PREDICTED, event("marked", answer)]) == fold([PREDICTED])


def test_unknown_event_changes_nothing() -> None:
    assert fold([PREDICTED, event("forgotten")]) == fold([PREDICTED])


# -- any events at all ---------------------------------------------------------------

outcomes = st.sampled_from([None, "right", "near", "wrong"])
answers = (
    st.text(max_size=3)
    | st.integers(0, 3)
    | st.floats(0, 9)
    | st.lists(st.text(max_size=3), max_size=3)
)
any_events = st.builds(
    event,
    st.sampled_from(EVENTS),
    answers,
    confidence=st.none() | st.integers(0, 100),
    outcome=outcomes,
    time=st.text(max_size=3),
)
sequences = st.lists(any_events, max_size=25)


@law
@given(sequences)
def test_first_prediction_stands_whatever_follows(events: list[Event]) -> None:
    names = [one.event for one in events]
    last = len(events) if "shown" not in names else names.index("shown")
    expected = next((e for e in events[:last] if e.event == "predicted"), None)
    if expected is None:
        assert fold(events).prediction is None
    else:
        assert fold(events).prediction is expected


@law
@given(sequences, st.integers(0, 25))
def test_folding_on_from_any_point_gives_the_same_record(
    events: list[Event], at: int
) -> None:
    assert fold(events[at:], fold(events[:at])) == fold(events)


@law
@given(sequences, any_events)
def test_no_event_takes_anything_back(events: list[Event], last: Event) -> None:
    before, after = fold(events), fold([*events, last])
    assert before.prediction in (None, after.prediction)
    assert before.second_try in (None, after.second_try)
    assert before.second_outcome in (None, after.second_outcome)
    assert before.was_revealed <= after.was_revealed
    assert before.was_shown <= after.was_shown
    assert before.n_hints <= after.n_hints <= before.n_hints + 1
    assert before.is_open <= after.is_open
    assert before.is_untouched >= after.is_untouched


@law
@given(sequences)
def test_every_record_makes_sense(events: list[Event]) -> None:
    record = fold(events)
    assert not (record.prediction and record.was_shown)
    assert record.is_untouched or record.prediction or record.was_shown
    if record.outcome or record.was_revealed or record.met is not None:
        assert record.prediction
    if record.second_try:
        assert record.is_open
    if record.second_outcome:
        assert record.second_try


@law
@given(sequences)
def test_events_that_changed_nothing_can_be_left_out(events: list[Event]) -> None:
    record, needed = Record(), []
    for one in events:
        if record.after(one) != record:
            needed.append(one)
        record = record.after(one)
    assert fold(needed) == fold(events)


# -- reading -------------------------------------------------------------------------


@law
@given(any_events)
def test_event_comes_back_from_json(one: Event) -> None:
    assert Event.read(json.loads(json.dumps(asdict(one)))) == one


GOOD = {"lesson": "lesson", "question": "q", "event": "predicted", "answer": "a"}


@pytest.mark.parametrize(
    "details",
    [
        {},
        {"answer": ""},
        {"answer": 0},
        {"answer": 1.5},
        {"answer": 10**299},
        {"answer": []},
        {"answer": ["a", "b"]},
        {"answer": [1, 2.5]},
        {"answer": "<script>alert(1)</script>"},
        {"answer": "\u202e"},
        {"answer": "\ud800"},
        {"answer": "a" * 1_000_000},
        {"confidence": 0},
        {"confidence": 100},
        {"confidence": None},
        {"event": "revealed", "answer": None, "outcome": "near"},
        {"event": "hint", "answer": 1},
        {"event": "marked", "answer": ["gas"], "outcome": "right"},
        {"time": "2026-01-01T00:00:00+00:00"},
    ],
    ids=lambda details: ascii(details)[:60],
)
def test_event_is_read(details: dict[str, Any]) -> None:
    content = {**GOOD, **details}
    read = asdict(Event.read(content))
    assert {key: read[key] for key in content} == content


HOSTILE_DETAILS: list[dict[str, Any]] = [
    {"lesson": None},
    {"lesson": 1},
    {"lesson": ["lesson"]},
    {"question": None},
    {"question": {"id": "q"}},
    {"time": None},
    {"time": 0},
    {"event": None},
    {"event": "guessed"},
    {"event": "Predicted"},
    {"event": ["predicted"]},
    {"answer": None},
    {"event": "tried again", "answer": None},
    {"answer": True},
    {"answer": {"a": 1}},
    {"answer": [None]},
    {"answer": [["a"]]},
    {"answer": [True]},
    {"answer": [float("nan")]},
    {"answer": ["a", {"b": 1}]},
    {"answer": float("nan")},
    {"answer": float("inf")},
    {"answer": float("-inf")},
    {"answer": 1e300},
    {"answer": -1e300},
    {"answer": 10**400},
    {"answer": -(10**400)},
    {"confidence": -1},
    {"confidence": 101},
    {"confidence": 50.0},
    {"confidence": "50"},
    {"confidence": True},
    {"confidence": [50]},
    {"confidence": 10**400},
    {"outcome": "Right"},
    {"outcome": 1},
    {"outcome": ["right"]},
    {"outcome": ""},
    {"more": 1},
    {"__class__": "x"},
    {"self": "x"},
]


@pytest.mark.parametrize("details", HOSTILE_DETAILS, ids=lambda d: ascii(d)[:60])
def test_hostile_detail_is_refused(details: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Event.read({**GOOD, **details})


@pytest.mark.parametrize("missing", ["lesson", "question", "event", "answer"])
def test_event_that_lacks_a_key_is_refused(missing: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        Event.read({key: value for key, value in GOOD.items() if key != missing})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
entries = st.dictionaries(
    st.sampled_from([*asdict(PREDICTED), "more"]),
    json_values | st.sampled_from(["predicted", "right", 1]),
)


@law
@given(json_values | entries | entries.map(lambda entry: GOOD | entry))
def test_any_json_is_an_event_that_can_be_kept_or_is_refused(content: Any) -> None:
    try:
        read = Event.read(content)
    except (ValueError, TypeError):
        return
    assert Event.read(json.loads(json.dumps(asdict(read), allow_nan=False))) == read
    assert isinstance(fold([read]), Record)
