"""Diagrams of plans: every mark is named in words as well."""

import pytest

from ckptlab import PlanError, draw_plan


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
