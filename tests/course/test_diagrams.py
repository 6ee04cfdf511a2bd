"""Diagrams of plans: every mark is named in words as well."""

import re

import pytest

from ckptlab import (
    Chain,
    Plan,
    PlanError,
    Stage,
    draw_plan,
    draw_plans,
    plan_every,
    replay,
)


def test_plan_is_drawn_with_what_it_keeps_and_what_runs_again() -> None:
    picture = draw_plan("1 (2 3) (4 5 6)")
    assert picture.finding == "Plan 1 (2 3) (4 5 6): kept 1, 3, 6; made again 2, 4, 5"
    assert f'aria-label="{picture.finding}"' in picture.svg
    assert picture.svg.count(">kept<") == picture.svg.count(">discarded<") == 3
    assert ">runs again from 1<" in picture.svg
    assert ">runs again from 3<" in picture.svg


def test_plan_that_keeps_everything_has_nothing_made_again() -> None:
    picture = draw_plan("1 2")
    assert picture.finding.endswith("made again none")
    assert "runs again" not in picture.svg
    assert "discarded" not in picture.svg


def test_plan_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(PlanError, match=r"second time"):
        draw_plan("1 1")


def unlike_chain() -> Chain:
    """Three stages that keep 6, 3 and 1 MiB and take 1, 5 and 2 seconds forward."""
    mebibyte = 2**20
    return Chain(
        [
            Stage("wide", 2 * mebibyte, 6 * mebibyte, 1, 2),
            Stage("dear", mebibyte, 3 * mebibyte, 5, 10),
            Stage("narrow", mebibyte, mebibyte, 2, 4),
        ],
        input_bytes=mebibyte,
    )


def test_plans_are_drawn_one_above_the_other_with_peak_and_time() -> None:
    chain = unlike_chain()
    picture = draw_plans(chain, {"mine": "(1) 2 3", "all <kept>": "1 2 3"}, "10 MiB")
    peaks = [
        replay(chain, Plan.parse(plan)).peak_bytes / 2**20
        for plan in ("(1) 2 3", "1 2 3")
    ]
    assert picture.finding == (
        f"mine: peak {peaks[0]:g} MiB, 1.04 times the time of storing everything; "
        f"all <kept>: peak {peaks[1]:g} MiB, 1.00 times the time of storing everything"
    )
    assert "all &lt;kept&gt;" in picture.svg
    assert "<kept>" not in picture.svg
    assert picture.svg.count(">computed again<") == 1
    assert picture.svg.count(">nothing is computed again<") == 1
    assert picture.svg.count(">- - budget 10 MiB<") == 2


def test_plans_share_one_scale() -> None:
    chain = unlike_chain()
    alone = draw_plans(chain, {"all": "1 2 3"}, "10 MiB")
    beside = draw_plans(chain, {"all": "1 2 3", "again": "(1 2 3)"}, "10 MiB")
    drawn = [re.findall(r'<path d="(M64 \d+V[^"]+)"', p.svg) for p in (alone, beside)]
    ends = [float(re.findall(r"H([\d.]+)", path)[-1]) for path in drawn[1]]
    # the step of 24 s ends at 24/32 of the width that 32 s have
    assert ends == [pytest.approx(64 + 484 * 24 / 32), pytest.approx(548)]
    assert re.findall(r"H([\d.]+)", drawn[0][0])[-1] == "548.0"


def test_long_plan_is_cut_in_the_drawing_alone() -> None:
    plan = plan_every(Chain.uniform(100), 1)
    picture = draw_plans(Chain.uniform(100), {"each": plan}, 100)
    assert f"{str(plan)[:58]} …<" in picture.svg


def test_no_plan_and_a_plan_for_another_chain_are_refused() -> None:
    with pytest.raises(PlanError, match="at least one"):
        draw_plans(unlike_chain(), {}, 1)
    with pytest.raises(PlanError, match="stages 1 to 3"):
        draw_plans(unlike_chain(), {"mine": "1 2"}, 1)
