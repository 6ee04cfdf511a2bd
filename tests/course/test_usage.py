"""Every question is asked once, in order, and every cell asks for one that exists."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ckptlab.course.__main__ import main
from ckptlab.course.usage import Usage, Use, check_lessons

BANK = """
title = "A lesson"

[[question]]
id = "words"
topic = "Words"
kind = "reflection"
prompt = "Why?"
explanation = "So."
[[question.criterion]]
id = "one"
text = "One."
[[question.criterion]]
id = "two"
text = "Two."

[[question]]
id = "task"
topic = "A task"
kind = "exercise"
answer = 7
prompt = "Find it."
explanation = "It is {attempt}."
too_low = "Higher."
too_high = "Lower."
"""
GOOD = ['predict("words")', 'reveal("words")', 'check("task", 7, measure)']


def write(folder: Path, cells: list[str], bank: str | None = BANK) -> Path:
    """A lesson "00_first": its notebook, where even cells are text, and its bank."""
    folder.mkdir(parents=True, exist_ok=True)
    content = []
    for source in cells:
        text = f'A text cell may name predict("nothing") before `{source}`.'
        content.append({"cell_type": "code", "source": source.splitlines(True)})
        content.append({"cell_type": "markdown", "source": [text]})
    notebook = json.dumps({"cells": content, "nbformat": 4})
    (folder / "00_first.ipynb").write_text(notebook, encoding="utf-8")
    if bank is not None:
        (folder / "questions").mkdir(exist_ok=True)
        (folder / "questions" / "00_first.toml").write_text(bank, encoding="utf-8")
    return folder


def check(folder: Path) -> Usage:
    (usage,) = check_lessons(folder)
    assert usage.lesson == "00_first"
    return usage


def faults(folder: Path, cells: list[str], bank: str | None = BANK) -> list[str]:
    return check(write(folder, cells, bank)).faults


# -- what fits together --------------------------------------------------------------


def test_lesson_that_asks_each_question_has_no_fault(tmp_path: Path) -> None:
    usage = check(write(tmp_path, GOOD))
    assert usage.faults == []
    assert usage.bank is not None
    assert usage.bank.title == "A lesson"


def test_uses_count_text_cells_too(tmp_path: Path) -> None:
    usage = check(write(tmp_path, ["import math", *GOOD]))
    assert usage.uses == [
        Use("predict", "words", 3),
        Use("reveal", "words", 5),
        Use("check", "task", 7),
    ]
    assert usage.of("words") == usage.uses[:2]
    assert usage.of("gone") == []


def test_calls_are_found_wherever_they_stand_in_a_cell(tmp_path: Path) -> None:
    cells = [
        "facts = {}\npredict(\n    'words',\n    **facts,\n)",
        "if True:\n    card = show(reveal('words'))",
        "[check('task', n) for n in (7,)]",
    ]
    assert faults(tmp_path, cells) == []


def test_what_only_looks_like_a_call_is_no_use(tmp_path: Path) -> None:
    others = ['# predict("x")', "\"predict('x')\"", 'model.predict("x")', "predict"]
    others += ['preview("x")', "predict()", "predict(name)", ""]
    assert faults(tmp_path, [*GOOD, *others]) == []


def test_source_may_be_one_text(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": source} for source in GOOD]
    write(tmp_path, [])
    (tmp_path / "00_first.ipynb").write_text(json.dumps({"cells": cells}))
    assert check(tmp_path).faults == []


def test_lesson_without_questions_needs_no_bank(tmp_path: Path) -> None:
    usage = check(write(tmp_path, ["1 + 1"], bank=None))
    assert (usage.bank, usage.uses, usage.faults) == (None, [], [])


def test_lessons_are_checked_by_name_whatever_they_have(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    for name in ("02_notebook.ipynb", "01_notebook.ipynb", "questions/03_bank.toml"):
        (tmp_path / name).write_text("")
    (tmp_path / "notes.txt").write_text("predict('x')")
    lessons = [usage.lesson for usage in check_lessons(tmp_path)]
    assert lessons == ["00_first", "01_notebook", "02_notebook", "03_bank"]


def test_folder_without_lessons_has_none(tmp_path: Path) -> None:
    assert check_lessons(tmp_path) == check_lessons(tmp_path / "nowhere") == []


# -- what does not -------------------------------------------------------------------


def test_question_that_no_cell_asks_is_unused(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD[:2]) == ["'task' is unused; add check, or drop it"]
    assert faults(tmp_path, GOOD[2:]) == [
        "'words' is unused; add predict and reveal, or drop it"
    ]


def test_cell_that_asks_for_a_missing_question_lists_those_there_are(
    tmp_path: Path,
) -> None:
    assert faults(tmp_path, [*GOOD, 'predict("wrods")']) == [
        "cell 7 asks for 'wrods', which is missing from the bank; its questions are "
        "words, task"
    ]


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        (["reveal('words')", "predict('words')"], "'words' is used by reveal, predict"),
        (["reveal('words')"], "'words' is used by reveal"),
        (["predict('words')"], "'words' is used by predict"),
        (
            ["predict('words')", "predict('words')", "reveal('words')"],
            "'words' is used by predict, predict, reveal",
        ),
        (
            ["predict('words')", "check('words')", "reveal('words')"],
            "'words' is used by predict, check, reveal",
        ),
    ],
)
def test_prediction_that_is_not_made_and_then_revealed_is_told(
    tmp_path: Path, cells: list[str], fault: str
) -> None:
    found = faults(tmp_path, [*cells, GOOD[2]])
    assert found == [f"{fault}; use predict, then reveal"]


@pytest.mark.parametrize("call", ["predict", "reveal"])
def test_exercise_that_is_predicted_is_told(tmp_path: Path, call: str) -> None:
    found = faults(tmp_path, [*GOOD[:2], f"{call}('task')"])
    assert found == [f"'task' is used by {call}; use check"]


def test_exercise_is_checked_in_one_cell_alone(tmp_path: Path) -> None:
    assert faults(tmp_path, [*GOOD, GOOD[2]]) == [
        "'task' is used by check, check; use check"
    ]


def test_each_cell_without_a_bank_is_told_what_to_write(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD[:2], bank=None) == [
        f"cell {cell} asks for 'words', but there is no bank; write "
        "questions/00_first.toml"
        for cell in (1, 3)
    ]


def test_bank_without_a_notebook_is_told(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "00_first.ipynb").unlink()
    first, *others = check(tmp_path).faults
    assert first == "has a bank and no notebook; write it, or drop the bank"
    assert all(" is unused; " in fault for fault in others)


def test_fault_of_the_bank_is_told_as_it_is(tmp_path: Path) -> None:
    usage = check(write(tmp_path, GOOD, BANK.replace("answer = 7", "answer = 7.5")))
    (fault,) = usage.faults
    assert fault.startswith("00_first.toml, question 'task', key 'answer': is 7.5; ")
    assert usage.bank is None
    assert len(usage.uses) == 3


@pytest.mark.parametrize(
    "content",
    [
        *[b"", b"{", b"null", b"[1]", b"{}", b'{"cells": 5}', b'{"cells": [5]}'],
        *[b'{"cells": [{"cell_type": "code"}]}', b"\xff\xfe"],
        b'{"cells": [{"cell_type": "code", "source": ["def ("]}]}',
        b'{"cells": [{"cell_type": "code", "source": [5]}]}',
        b'{"cells": [{"cell_type": "code", "source": ["\\u0000"]}]}',
    ],
)
def test_broken_notebook_is_told_with_its_name(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "00_first.ipynb").write_bytes(content)
    fault = check(tmp_path).faults[0]
    assert fault.startswith("00_first.ipynb cannot be read: ")
    assert fault.endswith("; save it anew")
    assert "\n" not in fault


def test_broken_notebook_hides_no_fault_of_another_lesson(tmp_path: Path) -> None:
    write(tmp_path, GOOD[:2])
    (tmp_path / "01_second.ipynb").write_text("{")
    first, second = check_lessons(tmp_path)
    assert (len(first.faults), len(second.faults)) == (1, 1)


# -- the command ---------------------------------------------------------------------


def test_report_says_where_each_question_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, GOOD)
    assert main([str(tmp_path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "00_first: A lesson",
        "words reflection predict in cell 1, reveal in cell 3",
        "task exercise check in cell 5",
        "",
        "questions: 2, lessons: 1, faults: 0",
    ]


def test_fault_is_reported_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, GOOD[:2])
    (tmp_path / "01_second.ipynb").write_text("{")
    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "  FAULT: 'task' is unused; add check, or drop it\n" in out
    assert "  FAULT: 01_second.ipynb cannot be read: " in out
    assert out.splitlines()[2].split() == ["task", "exercise", "unused"]
    assert out.splitlines()[-1] == "questions: 2, lessons: 2, faults: 2"


@pytest.mark.parametrize("inside", [".", "lessons"])
def test_lessons_are_found_here_or_in_their_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    inside: str,
) -> None:
    write(tmp_path / "lessons", GOOD)
    monkeypatch.chdir(tmp_path / inside)
    assert main([]) == 0
    assert "00_first: A lesson" in capsys.readouterr().out


def test_folder_without_lessons_is_told_and_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nowhere")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    nowhere = tmp_path.resolve() / "nowhere"
    assert captured.err == f"no lessons in {nowhere}; name their folder\n"


@pytest.mark.parametrize(("n_cells", "code"), [(3, 0), (2, 1)])
def test_process_ends_with_the_code_of_the_report(
    tmp_path: Path, root: Path, n_cells: int, code: int
) -> None:
    write(tmp_path, GOOD[:n_cells])
    command = [sys.executable, "-m", "ckptlab.course", str(tmp_path)]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (code, "")
    assert result.stdout.startswith("00_first: A lesson\n")


def test_lessons_of_the_course_have_no_fault(root: Path) -> None:
    lessons = check_lessons(root / "lessons")
    assert len(lessons) >= 2
    assert [fault for usage in lessons for fault in usage.faults] == []


# -- reviews -------------------------------------------------------------------------


def test_review_asks_every_question_that_is_predicted(tmp_path: Path) -> None:
    assert faults(tmp_path, ["review({}, {})", GOOD[2]]) == []


def test_review_asks_no_exercise(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, ["review({}, {})"])
    assert fault.startswith("'task' is unused")


def test_revisited_question_must_be_there(tmp_path: Path) -> None:
    bank = BANK.replace(
        'id = "words"', 'id = "words"\nrevisits = ["00_first/task", "01_other/gone"]'
    )
    (fault,) = faults(tmp_path, GOOD, bank)
    assert fault.startswith("'words' revisits '01_other/gone', which is missing")
