"""The plan notation: read, printed, counted, and refused where it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptlab.errors import PlanError
from ckptlab.planning.plan import Plan
from tests.planning.cases import all_plans, plans


@given(st.integers(1, 12).flatmap(plans))
def test_text_and_plan_round_trip(plan: Plan) -> None:
    assert Plan.parse(str(plan)) == plan
    assert str(Plan.parse(str(plan))) == str(plan)


def test_white_space_does_not_matter() -> None:
    assert str(Plan.parse("  1(2(3\t4)5 )\n6")) == "1 (2 (3 4) 5) 6"


@pytest.mark.parametrize(
    ("text", "kept", "recomputed"),
    [
        ("1 2 3 4", (1, 2, 3, 4), ()),
        ("(1 2) (3 4)", (2, 4), (1, 3)),
        ("1 (2 (3 4) 5) 6", (1, 5, 6), (2, 3, 4)),
        ("(1 2 3)", (3,), (1, 2)),
        ("(1) 2", (1, 2), ()),
    ],
)
def test_kept_and_recomputed_count_as_the_article_does(
    text: str, kept: tuple[int, ...], recomputed: tuple[int, ...]
) -> None:
    plan = Plan.parse(text)
    assert (plan.kept, plan.recomputed) == (kept, recomputed)


@pytest.mark.parametrize(
    ("text", "mark", "told"),
    [
        ("1 3", 2, "stage 3 comes too early; stage 2 is missing"),
        ("1 1", 2, "stage 1 stands here a second time"),
        ("2 1", 0, "stage 2 comes too early"),
        ("0 1", 0, "there is no stage 0"),
        ("(1 2", 0, "never closed"),
        ("1 (2 (3)", 2, "never closed"),
        ("1 2)", 3, "never opened"),
        ("1 () 2", 3, "empty"),
        ("", 0, "the plan is empty"),
        ("1 x", 2, "'x' has no meaning here"),
        ("1\t-2", 2, "'-' has no meaning here"),
        ("1.5", 1, "'.' has no meaning here"),
    ],
)
def test_fault_is_shown_with_a_mark_under_it(text: str, mark: int, told: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan.parse(text)
    what, shown, pointer = str(caught.value).split("\n")
    assert told in what
    assert shown == "    " + text.replace("\t", " ")
    assert pointer == "    " + " " * mark + "^"


@pytest.mark.parametrize("wrong", [None, 12, ["1 2"], b"1 2"])
def test_what_is_no_text_is_refused(wrong: object) -> None:
    with pytest.raises(PlanError, match="a plan is a text"):
        Plan.parse(wrong)  # type: ignore[arg-type]


@given(st.text("()12 3x", max_size=12))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    try:
        plan = Plan.parse(text)
    except PlanError:
        return
    assert Plan.parse(str(plan)) == plan


def test_there_are_as_many_plans_as_counting_says() -> None:
    assert [len(all_plans(n)) for n in range(1, 7)] == [2, 8, 48, 352, 2880, 25216]
    assert len(set(map(str, all_plans(5)))) == 2880
