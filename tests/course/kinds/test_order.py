"""Orders are graded by the pairs that stand the wrong way round."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.course.kinds.order import Item, OrderQuestion
from ckptlab.course.questions import load_bank
from ckptlab.errors import AnswerError

law = settings(derandomize=True, deadline=None)

QUESTIONS = load_bank(Path(__file__).parents[1] / "banks" / "every_kind.toml").questions
LETTERS = "abcdef"
orders = st.integers(2, 6).flatmap(
    lambda n: st.tuples(st.permutations(LETTERS[:n]), st.permutations(LETTERS[:n]))
)


def day() -> OrderQuestion:
    question = QUESTIONS["sequence"]
    assert isinstance(question, OrderQuestion)
    return question


def letters(order: list[str]) -> OrderQuestion:
    """Items that are shown by the alphabet, and belong in some order."""
    items = tuple(Item(one, one.upper(), f"Of {one}.") for one in sorted(order))
    return replace(day(), items=items, order=tuple(order))


def n_neighbour_swaps(answer: list[str], right: list[str]) -> int:
    """How often two neighbours change places until all stand right: bubble sort."""
    places = [right.index(one) for one in answer]
    n_swaps = 0
    while places != sorted(places):
        for at in range(len(places) - 1):
            if places[at] > places[at + 1]:
                places[at : at + 2] = places[at + 1], places[at]
                n_swaps += 1
    return n_swaps


def test_order_is_read_as_it_was_put() -> None:
    typed = ["noon", "morning", "evening"]
    answer = day().read(typed)
    assert answer == typed
    assert answer is not typed


@pytest.mark.parametrize(
    "typed",
    [
        *[None, "", [], "noon", ["noon"], ["noon", "morning", "night"], [1, 2, 3]],
        ["noon", "noon", "evening"],
        ["noon", "morning", "evening", "noon"],
        ("noon", "morning", "evening"),
        {"noon": 1, "morning": 2, "evening": 3},
        [["noon"], "morning", "evening"],
    ],
    ids=repr,
)
def test_what_is_no_order_of_all_items_is_refused(typed: object) -> None:
    with pytest.raises(AnswerError, match=r"^put every item in its place, each of"):
        day().read(typed)
    assert not day().fits(typed)


@law
@given(orders)
def test_outcome_and_sentence_count_the_swaps_of_neighbours(
    pair: tuple[list[str], list[str]],
) -> None:
    right, answer = pair
    question = letters(right)
    n_swaps = n_neighbour_swaps(answer, right)
    result = question.compare(question.read(answer), question.key)
    assert result.outcome == {0: "right", 1: "near"}.get(n_swaps, "wrong")
    n_pairs = sum(1 for one in right for other in right if one < other)
    assert result.sentence == {
        0: "Your prediction holds.",
        1: "Two neighbours stand the wrong way round.",
    }.get(n_swaps, f"{n_swaps} of {n_pairs} pairs stand the wrong way round.")


@law
@given(orders)
def test_feedback_is_of_the_first_place_that_is_wrong(
    pair: tuple[list[str], list[str]],
) -> None:
    right, answer = pair
    places = [place for place in range(len(right)) if right[place] != answer[place]]
    told = tuple(f"Of {right[place]}." for place in places[:1])
    assert letters(right).compare(answer, right).feedback == told


def test_reversed_order_has_every_pair_wrong() -> None:
    result = day().compare(["evening", "noon", "morning"], day().key)
    assert result.outcome == "wrong"
    assert result.sentence == "3 of 3 pairs stand the wrong way round."
    assert result.feedback == ("Morning begins the day.",)


@law
@given(orders)
def test_only_the_right_order_agrees(pair: tuple[list[str], list[str]]) -> None:
    right, measured = pair
    agreed = letters(right).agree(measured)
    assert agreed == (right if measured == right else None)
    assert letters(right).agree(tuple(measured)) == agreed


@pytest.mark.parametrize(
    "measured", [None, "noon", {"morning", "noon", "evening"}, ["morning", "noon"]]
)
def test_what_is_no_order_does_not_agree(measured: object) -> None:
    assert day().agree(measured) is None


def test_text_numbers_the_places() -> None:
    assert day().text(["noon", "evening", "gone"]) == "1. Noon; 2. Evening; 3. gone"


def test_form_shows_the_items_as_the_bank_lists_them() -> None:
    items = day().form()["items"]
    assert [item["id"] for item in items] == ["noon", "evening", "morning"]
    assert items[0] == {"id": "noon", "html": "<p>Noon</p>", "text": "Noon"}
    assert json.loads(json.dumps(day().form())) == day().form()
    assert day().options_html().startswith("<ul><li><p>Noon</p></li><li><p>Evening")


def test_html_in_an_item_comes_out_as_text() -> None:
    items = (Item("x", "<script>", "X."), *day().items)
    question = replace(day(), items=items)
    html = question.options_html() + question.form()["items"][0]["html"]
    assert "<script>" not in html


def test_remarks_pair_each_item_with_its_feedback() -> None:
    assert day().remarks()[0] == ("Noon", "Noon halves the day.")
    assert len(day().remarks()) == 3
