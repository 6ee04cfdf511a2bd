"""replay() against hand-played steps, and the laws of its accounting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptlab.errors import PlanError
from ckptlab.planning.chain import Chain, Stage
from ckptlab.planning.plan import Plan
from ckptlab.planning.planners import plan_store_all
from ckptlab.planning.replay import replay
from tests.planning.cases import all_plans, chains, plans

with_plan = chains(most=7).flatmap(
    lambda chain: st.tuples(st.just(chain), plans(len(chain)))
)
without_extra = chains(most=7, extra=False).flatmap(
    lambda chain: st.tuples(st.just(chain), plans(len(chain)))
)


def played(chain: Chain, text: str) -> list[tuple[str, int, int, int]]:
    steps = replay(chain, Plan.parse(text)).steps
    return [(s.action, s.stage, s.live_bytes, s.running_bytes) for s in steps]


def test_store_all_is_played_as_by_hand() -> None:
    stages = [Stage("a", 2, 5, 1, 3, 10, 20), Stage("b", 3, 4, 2, 4)]
    chain = Chain(stages, input_bytes=7)
    assert played(chain, "1 2") == [
        ("forward", 1, 7 + 5, 7 + 5 + 10),
        ("forward", 2, 7 + 5 + 4, 7 + 5 + 4),
        ("gradient", 2, 7 + 5 + 4 + 3, 7 + 5 + 4 + 3),
        ("backward", 2, 7 + 5 + 4 + 3 + 2, 7 + 5 + 4 + 3 + 2),
        ("free", 2, 7 + 5 + 2, 7 + 5 + 4 + 3 + 2),
        ("backward", 1, 7 + 5 + 2 + 7, 7 + 5 + 2 + 7 + 20),
        ("free", 1, 7 + 7, 7 + 5 + 2 + 7),
    ]
    ledger = replay(chain, Plan.parse("1 2"))
    assert ledger.peak_bytes == 7 + 5 + 2 + 7 + 20
    assert (ledger.peak_step.action, ledger.peak_step.stage) == ("backward", 1)
    assert ledger.total_seconds == 1 + 2 + 3 + 4
    assert ledger.bytes_at_backward_start == 5 + 4


def test_parenthesis_is_played_as_by_hand() -> None:
    stages = [Stage("a", 2, 5, 1, 3), Stage("b", 3, 4, 2, 4)]
    chain = Chain(stages, input_bytes=7)
    assert played(chain, "(1 2)") == [
        ("forward", 1, 9, 9),
        ("forward", 2, 12, 12),
        ("discard", 1, 10, 12),
        ("gradient", 2, 13, 13),
        ("discard", 2, 10, 13),
        ("recompute", 1, 15, 15),
        ("recompute", 2, 19, 19),
        ("backward", 2, 21, 21),
        ("free", 2, 14, 21),
        ("backward", 1, 21, 21),
        ("free", 1, 14, 21),
    ]


def test_four_layer_example_holds_four_and_two_activations() -> None:
    chain = Chain.uniform(4)
    ledgers = [replay(chain, Plan.parse(t)) for t in ("1 2 3 4", "(1 2) (3 4)")]
    assert [ledger.bytes_at_backward_start for ledger in ledgers] == [4, 2]
    assert [ledger.peak_bytes for ledger in ledgers] == [7, 6]
    assert ledgers[1].forward_runs == {1: 2, 2: 2, 3: 2, 4: 2}


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("1 2 3 4", [1, 1, 1, 1]),
        ("1 (2 3) 4", [1, 2, 2, 1]),
        ("(1 (2) 3) 4", [2, 3, 2, 1]),
        # a parenthesis that ends an enclosing one is not run in its recomputation
        ("(1 (2 3)) 4", [2, 2, 2, 1]),
        ("(1 (2 (3 4)))", [2, 2, 2, 2]),
        ("((1 2)) 3 4", [2, 2, 1, 1]),
        ("(1 2 (3) 4)", [2, 2, 3, 2]),
    ],
)
def test_forward_runs_count_how_often_a_stage_is_entered(
    text: str, runs: list[int]
) -> None:
    ledger = replay(Chain.uniform(4), Plan.parse(text))
    assert list(ledger.forward_runs.values()) == runs
    assert ledger.total_seconds == sum(runs) + 4 * 2


def test_recomputation_stops_once_the_last_tensor_is_saved() -> None:
    stages = [Stage(name, 2, 5, 10, 20, skipped_seconds=7) for name in "abc"]
    chain = Chain(stages, input_bytes=7)
    seconds = {
        text: replay(chain, Plan.parse(text)).total_seconds - 3 * 30
        for text in ("1 2 3", "(1) 2 3", "(1 2) 3", "(1 (2)) 3", "((1) 2) 3")
    }
    assert seconds == {
        "1 2 3": 0,
        "(1) 2 3": 3,
        "(1 2) 3": 10 + 3,
        "(1 (2)) 3": 10 + 3,  # each part ends a recomputation of its own
        "((1) 2) 3": 10 + 3 + 3,
    }


@given(with_plan)
def test_step_ends_with_the_input_and_its_gradient(case: tuple[Chain, Plan]) -> None:
    chain, plan = case
    assert replay(chain, plan).steps[-1].live_bytes == 2 * chain.input_bytes


@given(with_plan)
def test_every_stage_runs_backward_once_and_forward_as_counted(
    case: tuple[Chain, Plan],
) -> None:
    chain, plan = case
    ledger = replay(chain, plan)
    backward = [s.stage for s in ledger.steps if s.action == "backward"]
    assert backward == list(range(len(chain), 0, -1))
    forward = [s.stage for s in ledger.steps if s.action in ("forward", "recompute")]
    for number, runs in ledger.forward_runs.items():
        assert forward.count(number) == runs >= 1


@given(with_plan)
def test_peak_is_at_least_what_the_largest_stage_needs_alone(
    case: tuple[Chain, Plan],
) -> None:
    chain, plan = case
    alone = max(
        stage.saved_bytes
        + stage.output_bytes
        + chain.activation_bytes(number)
        + stage.backward_extra_bytes
        for number, stage in enumerate(chain.stages)
    )
    assert replay(chain, plan).peak_bytes >= chain.input_bytes + alone


@given(without_extra)
def test_no_plan_needs_more_than_storing_all_when_runs_need_no_extra(
    case: tuple[Chain, Plan],
) -> None:
    chain, plan = case
    most = replay(chain, plan_store_all(chain)).peak_bytes
    assert replay(chain, plan).peak_bytes <= most


def test_with_extra_bytes_running_again_can_need_more_than_storing() -> None:
    chain = Chain.uniform(1, forward_extra_bytes=9)
    peaks = [replay(chain, Plan.parse(t)).peak_bytes for t in ("1", "(1)")]
    assert peaks == [11, 12]


@given(with_plan)
def test_bytes_at_backward_start_are_those_of_what_is_kept(
    case: tuple[Chain, Plan],
) -> None:
    chain, plan = case
    kept_bytes = sum(
        chain.stages[item - 1].saved_bytes
        if isinstance(item, int)
        else chain.activation_bytes(item.stages[-1])
        for item in plan.items
    )
    assert replay(chain, plan).bytes_at_backward_start == kept_bytes


@pytest.mark.parametrize("text", ["1 2 3", "1 2 3 4 5", "(1 2)"])
def test_plan_of_another_length_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="the chain has stages 1 to 4"):
        replay(Chain.uniform(4), Plan.parse(text))


def test_text_in_place_of_a_plan_is_refused_with_the_way_out() -> None:
    with pytest.raises(PlanError, match=r"Plan\.parse\('1 2'\)"):
        replay(Chain.uniform(2), "1 2")  # type: ignore[arg-type]


def test_a_parenthesis_alone_in_a_parenthesis_changes_nothing() -> None:
    chain = Chain.uniform(3, saved_bytes=4)
    assert (
        replay(chain, Plan.parse("((1 2)) 3")).steps
        == replay(chain, Plan.parse("(1 2) 3")).steps
    )


def test_all_plans_of_four_stages_replay() -> None:
    chain = Chain.uniform(4)
    assert len({replay(chain, plan).peak_bytes for plan in all_plans(4)}) > 1
