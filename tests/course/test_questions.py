"""Banks: whatever is wrong is told with file, question and key."""

import re
from pathlib import Path

import pytest

from ckptlab.course.questions import (
    Bank,
    ChoiceQuestion,
    Exercise,
    NumberQuestion,
    find_bank,
    load_bank,
    placeholders,
)
from ckptlab.errors import QuestionError, UnknownQuestionError

BANKS = sorted((Path(__file__).parents[2] / "lessons" / "questions").glob("*.toml"))
every_bank = pytest.mark.parametrize("path", BANKS, ids=lambda path: path.stem)

GOOD = """
title = "A lesson"

[[question]]
id = "pick"
kind = "choice"
confidence = true
prompt = "Which?"
explanation = "Because of {measured}."
answer = "a"
[[question.choice]]
id = "a"
text = "This"
feedback = "Well judged."
[[question.choice]]
id = "b"
text = "That"
feedback = "You may have thought of {weights}."

[[question]]
id = "amount"
kind = "number"
unit = "bytes"
answer = 1024
right_within = 1.2
near_within = 3.0
prompt = "How much?"
explanation = "A kibibyte; braces are {{doubled}}."
too_low = "More."
too_high = "Less."

[[question]]
id = "task"
kind = "exercise"
answer = 7
prompt = "Find it."
explanation = "It is {attempt}."
too_low = "Go higher than {attempt}."
too_high = "Go lower than {attempt}."
"""


def write(folder: Path, text: str | bytes, name: str = "faulty.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def message_of(path: Path) -> str:
    with pytest.raises(QuestionError) as caught:
        load_bank(path)
    return str(caught.value)


def bank(folder: Path) -> Bank:
    return load_bank(write(folder, GOOD, "good.toml"))


# -- what a good bank says -----------------------------------------------------------


def test_bank_is_named_after_its_file_and_keeps_the_order(tmp_path: Path) -> None:
    loaded = bank(tmp_path)
    assert (loaded.lesson, loaded.title) == ("good", "A lesson")
    assert list(loaded.questions) == ["pick", "amount", "task"]


def test_choice_question_holds_its_choices_in_order(tmp_path: Path) -> None:
    pick = bank(tmp_path).question("pick")
    assert isinstance(pick, ChoiceQuestion)
    assert [choice.id for choice in pick.choices] == ["a", "b"]
    assert pick.answer == "a"
    assert pick.asks_confidence


def test_number_question_holds_its_unit_key_and_bounds(tmp_path: Path) -> None:
    amount = bank(tmp_path).question("amount")
    assert isinstance(amount, NumberQuestion)
    assert (amount.unit, amount.answer) == ("bytes", 1024)
    assert (amount.right_within, amount.near_within) == (1.2, 3.0)
    assert not amount.asks_confidence


def test_bounds_have_defaults(tmp_path: Path) -> None:
    text = re.sub(r"(right|near)_within = .*\n", "", GOOD)
    amount = load_bank(write(tmp_path, text)).question("amount")
    assert isinstance(amount, NumberQuestion)
    assert (amount.right_within, amount.near_within) == (1.1, 2.0)


def test_exercise_holds_a_whole_number(tmp_path: Path) -> None:
    task = bank(tmp_path).question("task")
    assert isinstance(task, Exercise)
    assert task.answer == 7


def test_unknown_question_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UnknownQuestionError) as caught:
        bank(tmp_path).question("pock")
    assert str(caught.value) == (
        "lesson 'good' has no question 'pock'; its questions are pick, amount, task"
    )


def test_placeholders_are_the_names_in_single_braces() -> None:
    assert placeholders("{a} and {b}, {{c}} {a}") == {"a", "b"}


# -- faulty banks --------------------------------------------------------------------

FAULTS = [
    # a key that is missing: (text, replaced by, where, key)
    ('title = "A lesson"', "", "", "title"),
    ('id = "pick"\n', "", "question 'number 1'", "id"),
    ('kind = "choice"', "", "question 'pick'", "kind"),
    ('prompt = "Which?"', "", "question 'pick'", "prompt"),
    ('explanation = "Because of {measured}."', "", "question 'pick'", "explanation"),
    ('answer = "a"', "", "question 'pick'", "answer"),
    ('id = "b"', "", "question 'pick', choice None", "id"),
    ('text = "That"', "", "question 'pick', choice 'b'", "text"),
    ('feedback = "Well judged."', "", "question 'pick', choice 'a'", "feedback"),
    ('unit = "bytes"', "", "question 'amount'", "unit"),
    ("answer = 1024", "", "question 'amount'", "answer"),
    ('too_low = "More."', "", "question 'amount'", "too_low"),
    ('too_high = "Less."', "", "question 'amount'", "too_high"),
    ("answer = 7", "", "question 'task'", "answer"),
    ('too_low = "Go higher than {attempt}."', "", "question 'task'", "too_low"),
    ('too_high = "Go lower than {attempt}."', "", "question 'task'", "too_high"),
    # a key that nobody reads
    ('title = "A lesson"', 'title = "A"\ntittle = "B"', "", "tittle"),
    ("confidence = true", "confidense = true", "question 'pick'", "confidense"),
    ("near_within = 3.0", "near_witin = 3.0", "question 'amount'", "near_witin"),
    ('text = "This"', 'text = "T"\nnote = ""', "question 'pick', choice 'a'", "note"),
    ("answer = 7", 'answer = 7\nunit = "count"', "question 'task'", "unit"),
    # a value of the wrong type
    ('title = "A lesson"', "title = 1", "", "title"),
    ('id = "amount"', "id = 5", "question 5", "id"),
    ('prompt = "How much?"', "prompt = ['How']", "question 'amount'", "prompt"),
    ("confidence = true", 'confidence = "yes"', "question 'pick'", "confidence"),
    ("answer = 1024", 'answer = "1 KiB"', "question 'amount'", "answer"),
    ("answer = 1024", "answer = true", "question 'amount'", "answer"),
    ("right_within = 1.2", 'right_within = "2"', "question 'amount'", "right_within"),
    ("answer = 7", 'answer = "7"', "question 'task'", "answer"),
    # a text without a word in it
    ('title = "A lesson"', 'title = ""', "", "title"),
    ('prompt = "Find it."', 'prompt = "  "', "question 'task'", "prompt"),
    ('feedback = "Well judged."', "feedback = ''", "question 'pick'", "feedback"),
    # a value that makes no sense
    ('id = "amount"', 'id = "pick"', "question 'pick'", "id"),
    ('id = "b"', 'id = "a"', "question 'pick'", "choice"),
    ('answer = "a"', 'answer = "c"', "question 'pick'", "answer"),
    ('kind = "choice"', 'kind = "essay"', "question 'pick'", "kind"),
    ('unit = "bytes"', 'unit = "MiB"', "question 'amount'", "unit"),
    ("answer = 1024", "answer = 0", "question 'amount'", "answer"),
    ("answer = 1024", "answer = -1.5", "question 'amount'", "answer"),
    ("right_within = 1.2", "right_within = 3.5", "question 'amount'", "right_within"),
    ("right_within = 1.2", "right_within = 0.9", "question 'amount'", "right_within"),
    ("answer = 7", "answer = 7.5", "question 'task'", "answer"),
    ("answer = 7", "answer = 0", "question 'task'", "answer"),
    # placeholders that no lesson could fill
    ("of {measured}", "of {0}", "question 'pick'", "explanation"),
    ("of {measured}", "of {}", "question 'pick'", "explanation"),
    ("of {measured}", "of {measured.real}", "question 'pick'", "explanation"),
    ("of {measured}", "of {measured:d}", "question 'pick'", "explanation"),
    ("of {measured}", "of {measured!r}", "question 'pick'", "explanation"),
    ("answer = 7", "answer = inf", "question 'task'", "answer"),
    ("answer = 7", "answer = nan", "question 'task'", "answer"),
    ("of {weights}", "of {", "question 'pick', choice 'b'", "feedback"),
    ("How much?", "How much}?", "question 'amount'", "prompt"),
    ("than {attempt}", "than {the attempt}", "question 'task'", "too_low"),
]


@pytest.mark.parametrize(("text", "instead", "where", "key"), FAULTS)
def test_fault_is_told_with_file_question_and_key(
    tmp_path: Path, text: str, instead: str, where: str, key: str
) -> None:
    assert text in GOOD
    message = message_of(write(tmp_path, GOOD.replace(text, instead, 1)))
    assert message.startswith("faulty.toml, ")
    assert where in message
    assert f", key {key!r}: " in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "instead", "shown"),
    [
        ('answer = "a"', 'answer = "c"', ["'c'", "['a', 'b']"]),
        ('kind = "choice"', 'kind = "essay"', ["'essay'", "choice, number, exercise"]),
        ('unit = "bytes"', 'unit = "MiB"', ["'MiB'", "bytes, seconds, FLOPs"]),
        ("answer = 1024", "answer = -1.5", ["-1.5", "above 0"]),
        ("answer = 7", "answer = 7.5", ["7.5", "whole number from 1"]),
        ('text = "This"', 'text = "T"\nnote = ""', ["'note'", "feedback, id, text"]),
        ("answer = 1024", 'answer = "1 KiB"', ["'1 KiB'", "a number"]),
        ('id = "amount"', 'id = "pick"', ["twice"]),
    ],
)
def test_fault_shows_the_value_and_what_to_write(
    tmp_path: Path, text: str, instead: str, shown: list[str]
) -> None:
    message = message_of(write(tmp_path, GOOD.replace(text, instead, 1)))
    assert all(part in message for part in shown)


def test_one_choice_is_too_few(tmp_path: Path) -> None:
    start, end = (
        GOOD.index('[[question.choice]]\nid = "b"'),
        GOOD.index('\n[[question]]\nid = "amount"'),
    )
    message = message_of(write(tmp_path, GOOD[:start] + GOOD[end:]))
    assert "faulty.toml, question 'pick', key 'choice'" in message
    assert "at least two" in message


def test_bank_without_questions_key_is_refused(tmp_path: Path) -> None:
    message = message_of(write(tmp_path, 'title = "A lesson"'))
    assert message.startswith("faulty.toml, key 'question': is missing")


def test_questions_that_are_no_list_of_tables_are_refused(tmp_path: Path) -> None:
    for wrong in ('question = "x"', "question = [1, 2]", '[question]\nid = "x"'):
        message = message_of(write(tmp_path, f'title = "A lesson"\n{wrong}\n'))
        assert message.startswith("faulty.toml, key 'question': ")
        assert "[[question]]" in message


@pytest.mark.parametrize(
    "content",
    [b"title = ", b"<html>", b"title = 'a'\ntitle = 'b'", b"title = '\xff\xfe'"],
    ids=["torn", "html", "key twice", "not UTF-8"],
)
def test_what_is_not_toml_is_told_with_its_file(tmp_path: Path, content: bytes) -> None:
    message = message_of(write(tmp_path, content))
    assert message.startswith("faulty.toml is not TOML: ")
    assert "\n" not in message


# -- where banks are found -----------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    for name in ("00_first", "01_second"):
        write(folder / "lessons" / "questions", GOOD, f"{name}.toml")
    (folder / "docs" / "deep").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("start", ["lessons", ".", "docs/deep", "lessons/questions"])
def test_bank_is_found_from_anywhere_in_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.chdir(repository / start)
    assert find_bank("01_second").path == (
        repository.resolve() / "lessons" / "questions" / "01_second.toml"
    )


def test_bank_beside_the_notebook_comes_first(repository: Path) -> None:
    own = write(repository / "docs" / "questions", GOOD, "01_second.toml")
    assert find_bank("01_second", repository / "docs").path == own.resolve()


def test_misspelt_lesson_lists_the_lessons(repository: Path) -> None:
    with pytest.raises(UnknownQuestionError) as caught:
        find_bank("01_secnd", repository / "lessons")
    assert "no lesson '01_secnd'" in str(caught.value)
    assert "the lessons here are 00_first, 01_second" in str(caught.value)


def test_lesson_far_from_the_repository_is_told_where_to_open_it(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UnknownQuestionError, match="open it inside lessons/"):
        find_bank("01_second", tmp_path / "elsewhere")


def test_fault_in_a_found_bank_is_told(repository: Path) -> None:
    write(repository / "lessons" / "questions", "title = 1", "00_first.toml")
    with pytest.raises(QuestionError, match=r"00_first\.toml, key 'title'"):
        find_bank("00_first", repository)


# -- the banks of the course ---------------------------------------------------------


def test_there_are_banks() -> None:
    assert len(BANKS) >= 2


@every_bank
def test_every_bank_of_the_course_loads(path: Path) -> None:
    assert find_bank(path.stem, path.parents[1]).questions


def test_no_two_answers_of_the_course_share_their_feedback() -> None:
    texts = []
    for question in (q for path in BANKS for q in load_bank(path).questions.values()):
        if isinstance(question, ChoiceQuestion):
            texts += [choice.feedback for choice in question.choices]
        elif isinstance(question, (NumberQuestion, Exercise)):
            texts += [question.too_low, question.too_high]
    told = [" ".join(text.lower().split()) for text in texts]
    assert len(set(told)) == len(told) > 0
