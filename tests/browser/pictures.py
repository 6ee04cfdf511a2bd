"""Take the README's picture of every lesson anew, into lessons/pictures/.

.venv/bin/pytest tests/browser/pictures.py
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Lab, LessonPage

SHOWN = {
    "00_start_here": "00-06",
    "01_weights_are_not_the_main_cost": "01-45",
    "02_where_activation_memory_comes_from": "02-51",
    "03_discard_and_compute_again": "03-38",
    "04_four_layers_two_strategies": "04-49",
    "05_paying_for_memory_with_time": "05-51",
    "06_common_mistakes": "06-10",
    "07_practice_fit_the_model": "07-33",
    "08_what_you_now_know": "08-36",
}
"""Lesson -> the cell whose output is its picture."""

ATTEMPT = "my_plan = '(1) (2) (3) (4) (5) (6) (7) (8) (9) (10)'"
LARGEST = {"width": 600, "height": 450}


@pytest.mark.parametrize("name", SHOWN)
def test_take_picture(
    name: str, root: Path, lab: Lab, open_lesson: Callable[[str], LessonPage]
) -> None:
    path = lab.lessons / f"{name}.ipynb"
    text = path.read_text()
    path.write_text(text.replace("my_plan = None", ATTEMPT))
    lesson = open_lesson(name)
    lesson.run_all()
    lesson.choose_theme("JupyterLab Light")
    ids = [line.split('"')[3] for line in text.splitlines() if '"id": "' in line]
    narrow = ".ckptlab-card { max-width: 584px !important }"
    lesson.page.add_style_tag(content=narrow)
    with lesson.all_in_view():
        cell = lesson.cells.nth(ids.index(SHOWN[name]))
        output = cell.locator(".jp-OutputArea-output").last
        box = output.bounding_box()
        assert box is not None
        clip = box | {side: min(box[side], LARGEST[side]) for side in LARGEST}
        picture = root / "lessons" / "pictures" / f"{name[:2]}.png"
        lesson.page.screenshot(path=picture, clip=clip)
