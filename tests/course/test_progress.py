"""Nothing a learner answered is ever lost."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import platformdirs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.course.progress import AnswerBook, CommittedAnswer, answers_path

law = settings(derandomize=True, deadline=None)

COMMIT_AND_DIE = """
import os, signal, sys
from pathlib import Path
from ckptlab.course.progress import AnswerBook, CommittedAnswer
book = AnswerBook(Path(sys.argv[1]))
book.commit(CommittedAnswer("lesson", "q", "a"))
os.kill(os.getpid(), signal.SIGKILL)
"""

COMMIT_AT_ONCE = """
import sys, time
from pathlib import Path
from ckptlab.course.progress import AnswerBook, CommittedAnswer
path, start, me, n_questions, is_shared = sys.argv[1:]
book = AnswerBook(Path(path))
print("ready", flush=True)
patience = time.monotonic() + 60
while not Path(start).exists() and time.monotonic() < patience:
    time.sleep(0.001)
for number in range(int(n_questions)):
    question = f"q{number}" if is_shared == "True" else f"{me}-{number}"
    print(book.commit(CommittedAnswer("lesson", question, f"by {me}")).answer)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "answers.jsonl"


def commit(
    path: Path, question: str, answer: str | float = "a", *, lesson: str = "lesson"
) -> CommittedAnswer:
    """Commit as a notebook that was opened just now."""
    return AnswerBook(path).commit(CommittedAnswer(lesson, question, answer))


def questions(path: Path) -> list[str]:
    return [answer.question for answer in AnswerBook(path).answers()]


# -- kept, and kept as given ---------------------------------------------------------


def test_answer_survives_a_new_book_on_the_same_file(path: Path) -> None:
    committed = AnswerBook(path).commit(CommittedAnswer("lesson", "q", "weights", 80))
    assert AnswerBook(path).answers() == [committed]
    assert (committed.answer, committed.confidence) == ("weights", 80)


@law
@given(
    st.text(st.characters(codec="ascii")) | st.floats(allow_nan=False) | st.integers(),
    st.none() | st.integers(0, 100),
)
def test_any_answer_comes_back_as_it_was(
    answer: str | float, confidence: int | None
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        typed = CommittedAnswer("lesson", "q", answer, confidence)
        assert AnswerBook(path).commit(typed) == AnswerBook(path).find("lesson", "q")
        assert AnswerBook(path).answers()[0].answer == answer
        assert AnswerBook(path).answers()[0].confidence == confidence


def test_answers_in_any_script_come_back(path: Path) -> None:
    assert commit(path, "größe", "重み 🙂").answer == "重み 🙂"
    assert AnswerBook(path).find("lesson", "größe") is not None


def test_answers_come_oldest_first_with_their_time(path: Path) -> None:
    for question in "cab":
        commit(path, question)
    assert questions(path) == ["c", "a", "b"]
    told = datetime.fromisoformat(AnswerBook(path).answers()[0].time)
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)


def test_question_without_answer_is_none(path: Path) -> None:
    commit(path, "q")
    assert AnswerBook(path).find("lesson", "other") is None
    assert AnswerBook(path).find("other", "q") is None


def test_two_open_books_see_each_other(path: Path) -> None:
    one, other = AnswerBook(path), AnswerBook(path)
    one.commit(CommittedAnswer("lesson", "q", "a"))
    assert other.find("lesson", "q") == one.find("lesson", "q")


# -- the first answer stands ---------------------------------------------------------


def test_first_answer_stands(path: Path) -> None:
    book = AnswerBook(path)
    first = book.commit(CommittedAnswer("lesson", "q", "first", 20))
    before = path.read_bytes()
    assert book.commit(CommittedAnswer("lesson", "q", "second", 95)) == first
    assert commit(path, "q", "third") == first
    assert path.read_bytes() == before


def test_same_question_of_another_lesson_is_another_question(path: Path) -> None:
    commit(path, "q", "a", lesson="one")
    commit(path, "q", "b", lesson="two")
    kept = [AnswerBook(path).find(lesson, "q") for lesson in ("one", "two")]
    assert [answer and answer.answer for answer in kept] == ["a", "b"]


def test_first_line_stands_where_two_notebooks_wrote_at_once(path: Path) -> None:
    commit(path, "q", "first")
    first = path.read_bytes()
    AnswerBook(path).erase()
    commit(path, "q", "second")
    path.write_bytes(first + path.read_bytes())
    assert [answer.answer for answer in AnswerBook(path).answers()] == ["first"]


def test_notebook_that_comes_a_moment_late_is_told_what_stands(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, seen_too_early = AnswerBook(path), [None]

    def find(lesson: str, question: str) -> CommittedAnswer | None:
        if seen_too_early:
            return seen_too_early.pop()
        return AnswerBook(path).find(lesson, question)

    monkeypatch.setattr(late, "find", find)
    commit(path, "q", "first")
    assert late.commit(CommittedAnswer("lesson", "q", "late")).answer == "first"


def test_each_answer_is_written_once(path: Path) -> None:
    book = AnswerBook(path)
    for question in "abc":
        book.commit(CommittedAnswer("lesson", question, "a"))
    assert path.read_bytes().count(b"\n") == 3


# -- torn lines and foreign ones -----------------------------------------------------


def test_torn_last_line_hides_nothing_else_wherever_it_tore(path: Path) -> None:
    commit(path, "first")
    n_first = path.stat().st_size
    commit(path, "torn")
    whole = path.read_bytes()
    for n_left in range(n_first + 1, len(whole) - 1):
        path.write_bytes(whole[:n_left])
        assert questions(path) == ["first"]
        commit(path, "next")
        assert questions(path) == ["first", "next"]


def test_line_that_lost_only_its_end_of_line_is_still_read(path: Path) -> None:
    commit(path, "first")
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    commit(path, "next")
    assert questions(path) == ["first", "next"]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"garbage",
        b"\xff\xfe\x00\x80",
        b"null",
        b"[1, 2]",
        b'"text"',
        b"{}",
        b'{"lesson": "lesson", "question": "first"}',
        b'{"lesson": "lesson", "question": "first", "answer": null}',
        b'{"lesson": 1, "question": ["first"], "answer": "z"}',
        b'{"lesson": "lesson", "question": "first", "answer": "z", "more": 1}',
    ],
)
def test_line_that_is_no_answer_is_passed_over_and_left_alone(
    path: Path, line: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(line + b"\n")
    commit(path, "first")
    with path.open("ab") as file:
        file.write(line + b"\n")
    commit(path, "second")
    assert questions(path) == ["first", "second"]
    assert AnswerBook(path).answers()[0].answer == "a"
    assert path.read_bytes().split(b"\n").count(line) >= 2


@law
@given(st.binary(max_size=200))
def test_no_bytes_hide_the_answers_around_them(garbage: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        commit(path, "before")
        with path.open("ab") as file:
            file.write(garbage)
        commit(path, "after")
        assert questions(path) == ["before", "after"]
        assert garbage in path.read_bytes()


# -- killed, and all at once ---------------------------------------------------------


def test_process_killed_right_after_commit_loses_nothing(path: Path) -> None:
    command = [sys.executable, "-c", COMMIT_AND_DIE, str(path)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert questions(path) == ["q"]


def test_answer_is_on_the_disk_before_commit_returns(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed = []

    def fsync(descriptor: int) -> None:
        assert os.path.samestat(os.fstat(descriptor), path.stat())
        flushed.append(questions(path))

    monkeypatch.setattr(os, "fsync", fsync)
    commit(path, "q")
    assert flushed == [["q"]]


def commit_at_once(
    path: Path, *, n_processes: int, n_questions: int, is_shared: bool
) -> list[list[str]]:
    """Answers that each process was told stand, after all committed at once."""
    start = path.parent / "start"
    path.parent.mkdir()
    rest = (str(n_questions), str(is_shared))
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                COMMIT_AT_ONCE,
                str(path),
                str(start),
                str(me),
                *rest,
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        for me in range(n_processes)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    told = [
        process.communicate(timeout=60)[0].split("\n")[:-1] for process in processes
    ]
    assert [process.returncode for process in processes] == [0] * n_processes
    return told


def test_eight_processes_that_commit_at_once_lose_none(path: Path) -> None:
    commit_at_once(path, n_processes=8, n_questions=20, is_shared=False)
    assert set(questions(path)) == {f"{m}-{n}" for m in range(8) for n in range(20)}


def test_processes_that_answer_the_same_question_agree_on_the_first(path: Path) -> None:
    told = commit_at_once(path, n_processes=4, n_questions=20, is_shared=True)
    standing = [answer.answer for answer in AnswerBook(path).answers()]
    assert len(standing) == 20
    assert all(answers == standing for answers in told)


# -- when the disk refuses -----------------------------------------------------------


@contextmanager
def folder_in_place(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    path.mkdir(parents=True)
    yield
    path.rmdir()


@contextmanager
def file_in_place_of_the_folder(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    path.parent.touch()
    yield
    path.parent.unlink()


@contextmanager
def refused_flush(_: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@contextmanager
def space_for_ten_bytes(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    """A write that is cut short, as on a disk that fills up: the real thing."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


Fault = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[None]]
every_fault = pytest.mark.parametrize(
    ("fault", "why"),
    [
        (folder_in_place, os.strerror(errno.EISDIR)),
        (file_in_place_of_the_folder, "File exists"),
        (refused_flush, os.strerror(errno.ENOSPC)),
        (space_for_ten_bytes, "the disk is full"),
    ],
)


@every_fault
def test_refused_answer_is_kept_in_memory_and_says_why(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    book = AnswerBook(path)
    with fault(path, monkeypatch):
        committed = book.commit(CommittedAnswer("lesson", "q", "a", 50))
        assert book.find("lesson", "q") == committed
        reason = book.unsaved_reason
    assert (committed.answer, committed.confidence) == ("a", 50)
    assert reason.startswith(f"not saved to {path} ({why})")
    assert "written with the next one" in reason


@every_fault
def test_refused_answers_are_written_with_the_next_that_succeeds(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    book = AnswerBook(path)
    with fault(path, monkeypatch):
        book.commit(CommittedAnswer("lesson", "first", "a"))
        book.commit(CommittedAnswer("lesson", "second", "b"))
    book.commit(CommittedAnswer("lesson", "third", "c"))
    assert questions(path) == ["first", "second", "third"]
    assert AnswerBook(path).answers() == book.answers()
    assert book.unsaved_reason == ""


@every_fault
def test_first_answer_stands_in_memory_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    book = AnswerBook(path)
    with fault(path, monkeypatch):
        book.commit(CommittedAnswer("lesson", "q", "first"))
        assert book.commit(CommittedAnswer("lesson", "q", "second")).answer == "first"
        assert len(book.answers()) == 1


def test_answers_from_before_a_refusal_are_untouched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(path, "before")
    before = path.read_bytes()
    with refused_flush(path, monkeypatch):
        commit(path, "refused")
    assert path.read_bytes().startswith(before)


# -- erasing, and where answers are kept ---------------------------------------------


def test_erasing_deletes_every_answer_and_says_how_many(path: Path) -> None:
    commit(path, "one")
    commit(path, "two")
    assert AnswerBook(path).erase() == 2
    assert not path.exists()
    assert commit(path, "one", "anew").answer == "anew"


def test_erasing_forgets_what_could_not_be_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = AnswerBook(path)
    with file_in_place_of_the_folder(path, monkeypatch):
        book.commit(CommittedAnswer("lesson", "q", "a"))
    assert book.erase() == 1
    assert book.answers() == []
    book.commit(CommittedAnswer("lesson", "other", "a"))
    assert questions(path) == ["other"]


def test_erasing_nothing_is_no_error(path: Path) -> None:
    assert AnswerBook(path).erase() == 0


def test_environment_says_where_answers_are_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPTLAB_ANSWERS", str(path))
    book = AnswerBook()
    book.commit(CommittedAnswer("lesson", "q", "a"))
    assert book.path == path
    assert questions(path) == ["q"]


@pytest.mark.parametrize("told", [None, ""])
def test_answers_are_kept_in_the_users_data_folder_otherwise(
    told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CKPTLAB_ANSWERS")
    if told is not None:
        monkeypatch.setenv("CKPTLAB_ANSWERS", told)
    assert answers_path() == platformdirs.user_data_path("ckptlab") / "answers.jsonl"


@pytest.mark.parametrize("answer", ["a\u2028b", "a\u0085b", "\ud800", "ä\n"], ids=ascii)
def test_answer_with_unusual_characters_comes_back(tmp_path: Path, answer: str) -> None:
    path = tmp_path / "answers.jsonl"
    AnswerBook(path).commit(CommittedAnswer("l", "q", answer))
    assert [kept.answer for kept in AnswerBook(path).answers()] == [answer]


def test_deeply_nested_garbage_hides_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("[" * 200_000 + "\n")
    AnswerBook(path).commit(CommittedAnswer("l", "q", "a"))
    assert len(AnswerBook(path).answers()) == 1
