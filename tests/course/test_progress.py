"""Nothing a learner answered is ever lost."""

import errno
import json
import math
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
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from ckptlab.course import progress as module
from ckptlab.course.kinds.question import Answer
from ckptlab.course.progress import ProgressFile, progress_path
from ckptlab.course.record import Event, Record

law = settings(derandomize=True, deadline=None)

NOBODY = 65534
"""A user that may write nowhere; root may write everywhere."""

ADD_AND_DIE = """
import os, signal, sys
from pathlib import Path
from ckptlab.course.progress import ProgressFile
from ckptlab.course.record import Event
ProgressFile(Path(sys.argv[1])).add(Event("lesson", "q", "predicted", "a"))
os.kill(os.getpid(), signal.SIGKILL)
"""

ADD_AT_ONCE = """
import sys, time
from pathlib import Path
from ckptlab.course.progress import ProgressFile
from ckptlab.course.record import Event
path, start, me, n_questions, is_shared = sys.argv[1:]
progress = ProgressFile(Path(path))
print("ready", flush=True)
patience = time.monotonic() + 60
while not Path(start).exists() and time.monotonic() < patience:
    time.sleep(0.001)
for number in range(int(n_questions)):
    question = f"q{number}" if is_shared == "True" else f"{me}-{number}"
    record = progress.add(Event("lesson", question, "predicted", f"by {me}"))
    print(progress.trouble or record.prediction.answer)
"""

HOLD_LOCK = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""

FILL_A_DISK = """
import subprocess, sys
from pathlib import Path
from ckptlab.course.progress import ProgressFile
from ckptlab.course.record import Event
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
path, ballast = folder / "progress.json", folder / "ballast"
def add(question):
    return progress.add(Event("lesson", question, "predicted", "a" * 5000))
progress = ProgressFile(path)
add("before")
before = path.read_bytes()
try:
    with ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
except OSError:
    pass
record = add("refused")
assert record.prediction.question == "refused"
assert path.read_bytes() == before
print(progress.trouble)
ballast.unlink()
add("after")
print(progress.trouble)
print(*(question for _, question in ProgressFile(path).records()))
"""


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # so that NOBODY finds the way
        yield Path(folder) / "folder" / "progress.json"


def predicted(
    question: str = "q",
    answer: Answer = "a",
    confidence: int | None = None,
    *,
    lesson: str = "lesson",
) -> Event:
    return Event(lesson, question, "predicted", answer, confidence)


def add(path: Path, question: str = "q", answer: Answer = "a") -> Record:
    """Predict as a notebook that was opened just now."""
    return ProgressFile(path).add(predicted(question, answer))


def questions(path: Path) -> list[str]:
    """The predicted ones, as a notebook sees them that was opened just now."""
    return [q for (_, q), r in ProgressFile(path).records().items() if r.prediction]


def answer_to(path: Path, question: str = "q", lesson: str = "lesson") -> object:
    prediction = ProgressFile(path).record(lesson, question).prediction
    return prediction and prediction.answer


def kept(path: Path) -> list[dict[str, object]]:
    """The events in the file, read without the code under test."""
    content = json.loads(path.read_bytes())
    assert content["version"] == 1
    return content["events"]


def set_aside(path: Path) -> list[bytes]:
    return [aside.read_bytes() for aside in sorted(path.parent.glob("*.broken-*"))]


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def file_with(*lines: bytes) -> bytes:
    return b'{"version": 1, "events": [\n' + b",\n".join(lines) + b"\n]}\n"


def line(question: str) -> bytes:
    event = {"lesson": "lesson", "question": question, "event": "predicted"}
    return json.dumps({**event, "answer": "a"}).encode()


# -- kept, and kept as given ---------------------------------------------------------


def test_prediction_survives_a_new_notebook(path: Path) -> None:
    record = ProgressFile(path).add(predicted("q", "weights", 80))
    assert ProgressFile(path).records() == {("lesson", "q"): record}
    assert record.prediction is not None
    assert (record.prediction.answer, record.prediction.confidence) == ("weights", 80)


texts = st.text(st.characters(exclude_categories=()))
numbers = st.floats(-1e299, 1e299) | st.integers(-(10**299), 10**299)


@law
@given(
    texts | numbers | st.lists(texts) | st.lists(numbers),
    st.none() | st.integers(0, 100),
)
def test_any_answer_comes_back_as_it_was(
    answer: Answer, confidence: int | None
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "progress.json"
        told = ProgressFile(path).add(predicted("q", answer, confidence))
        assert ProgressFile(path).record("lesson", "q") == told
        assert told.prediction is not None
        assert told.prediction.answer == answer
        assert type(told.prediction.answer) is type(answer)
        assert told.prediction.confidence == confidence
        assert set_aside(path) == []


def test_answers_in_any_script_come_back_and_stay_readable_in_the_file(
    path: Path,
) -> None:
    add(path, "größe", "重み 🙂")
    assert answer_to(path, "größe") == "重み 🙂"
    assert "重み 🙂".encode() in path.read_bytes()


@pytest.mark.parametrize(
    "answer",
    [
        "a\u2028b",
        "a\u0085b",
        "\ud800",
        "ä\n",
        "\x00",
        "<script>alert(1)</script>",
        "\u202eright to left",
        "a" * 1_000_000,
    ],
    ids=lambda answer: ascii(answer[:20]),
)
def test_answer_with_unusual_characters_comes_back(path: Path, answer: str) -> None:
    add(path, "q", answer)
    add(path, "next")
    assert answer_to(path) == answer
    assert questions(path) == ["q", "next"]
    assert ProgressFile(path).trouble == ""


def test_events_come_oldest_first_with_their_time(path: Path) -> None:
    for question in "cab":
        add(path, question)
    assert questions(path) == ["c", "a", "b"]
    told = datetime.fromisoformat(str(kept(path)[0]["time"]))
    assert abs(datetime.now(UTC) - told) < timedelta(minutes=1)


def test_file_has_one_event_a_line(path: Path) -> None:
    for question in "abc":
        add(path, question)
    first, *lines, last = path.read_text().splitlines()
    assert (first, last) == ('{"version": 1, "events": [', "]}")
    events = [json.loads(one.rstrip(",")) for one in lines]
    assert [event["question"] for event in events] == ["a", "b", "c"]


def test_question_without_event_is_untouched(path: Path) -> None:
    add(path)
    assert ProgressFile(path).record("lesson", "other") == Record()
    assert ProgressFile(path).record("other", "q") == Record()


def test_two_open_notebooks_see_each_other(path: Path) -> None:
    one, other = ProgressFile(path), ProgressFile(path)
    told = one.add(predicted())
    assert other.record("lesson", "q") == told
    other.add(Event("lesson", "q", "revealed", outcome="near"))
    assert one.record("lesson", "q").outcome == "near"


def test_every_event_of_a_question_comes_back(path: Path) -> None:
    events = [
        Event("lesson", "q", "hint", 1),
        Event("lesson", "q", "predicted", "first", 60),
        Event("lesson", "q", "revealed", outcome="wrong"),
        Event("lesson", "q", "tried again", "second"),
        Event("lesson", "q", "revealed", outcome="right"),
        Event("lesson", "q", "marked", ["gas"], outcome="near"),
    ]
    for event in events:
        ProgressFile(path).add(event)
    record = ProgressFile(path).record("lesson", "q")
    assert [event["event"] for event in kept(path)] == [one.event for one in events]
    assert record.prediction is not None
    assert record.second_try is not None
    assert (record.prediction.answer, record.second_try.answer) == ("first", "second")
    assert (record.n_hints, record.second_outcome) == (1, "right")
    assert (record.met, record.outcome) == (("gas",), "near")


def test_nothing_is_written_until_there_is_something_to_keep(path: Path) -> None:
    progress = ProgressFile(path)
    assert progress.records() == {}
    assert progress.trouble == ""
    assert not path.parent.exists()


# -- the first prediction stands -----------------------------------------------------


def test_first_prediction_stands(path: Path) -> None:
    progress = ProgressFile(path)
    first = progress.add(predicted("q", "first", 20))
    before, written = path.read_bytes(), path.stat().st_mtime_ns
    assert progress.add(predicted("q", "second", 95)) == first
    assert add(path, "q", "third") == first
    assert path.read_bytes() == before
    assert path.stat().st_mtime_ns == written


def test_same_question_of_another_lesson_is_another_question(path: Path) -> None:
    ProgressFile(path).add(predicted("q", "a", lesson="one"))
    ProgressFile(path).add(predicted("q", "b", lesson="two"))
    assert [answer_to(path, "q", lesson) for lesson in ("one", "two")] == ["a", "b"]


def test_first_line_stands_where_a_file_holds_two(path: Path) -> None:
    second = line("q").replace(b'"a"', b'"second"')
    write(path, file_with(line("q"), second))
    assert answer_to(path) == "a"


def test_notebook_that_comes_a_moment_late_is_told_what_stands(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lock_too_late(lock_path: Path, seconds: float) -> FileLock:
        monkeypatch.undo()
        add(path, "q", "first")
        return FileLock(lock_path, seconds)

    monkeypatch.setattr(module, "FileLock", lock_too_late)
    told = ProgressFile(path).add(predicted("q", "late")).prediction
    assert told is not None
    assert told.answer == answer_to(path) == "first"
    assert len(kept(path)) == 1


def test_answer_that_no_longer_fits_is_as_if_never_given_but_stays_in_the_file(
    path: Path,
) -> None:
    add(path, "q", "a choice that is gone")
    asked = []

    def fits(lesson: str, question: str, answer: object) -> bool:
        asked.append((lesson, question))
        return answer != "a choice that is gone"

    progress = ProgressFile(path, fits)
    progress.add(Event("lesson", "q", "revealed", outcome="right"))
    assert progress.record("lesson", "q") == Record()
    told = progress.add(predicted("q", "b")).prediction
    assert told is not None
    assert told.answer == "b"
    assert [event["answer"] for event in kept(path)] == ["a choice that is gone", "b"]
    assert set(asked) == {("lesson", "q")}


def test_second_try_that_no_longer_fits_is_as_if_never_made(path: Path) -> None:
    add(path)
    for event in (
        Event("lesson", "q", "revealed", outcome="wrong"),
        Event("lesson", "q", "tried again", "gone"),
    ):
        ProgressFile(path).add(event)
    record = ProgressFile(path, lambda *place: place[2] != "gone").record("lesson", "q")
    assert record.was_revealed
    assert record.second_try is None


@pytest.mark.parametrize("answer", [math.nan, math.inf, 10**400, None, {"a": 1}])
def test_what_the_file_cannot_hold_is_refused_before_it_is_written(
    path: Path, answer: Answer
) -> None:
    progress = ProgressFile(path)
    progress.add(predicted("before"))
    with pytest.raises((ValueError, TypeError)):
        progress.add(predicted("q", answer))
    progress.add(predicted("after"))
    assert questions(path) == ["before", "after"]
    assert set_aside(path) == []


# -- broken files --------------------------------------------------------------------


def test_torn_file_loses_no_whole_line_wherever_it_tore(path: Path) -> None:
    for question in ("one", "two", "three"):
        add(path, question)
    whole = path.read_bytes()
    for n_left in range(len(whole)):
        ProgressFile(path).erase()
        path.write_bytes(whole[:n_left])
        n_whole = whole[:n_left].count(b"}")  # torn just before its comma is whole
        survivors = ["one", "two", "three"][:n_whole]
        assert questions(path) == survivors
        if n_left < len(whole) - 1:  # its last line break alone is no loss
            assert set_aside(path) == [whole[:n_left]]
        add(path, "next")
        assert questions(path) == [*survivors, "next"]


HOSTILE_LINES = {
    "nothing": b"",
    "garbage": b"garbage",
    "no UTF-8": b"\xff\xfe\x00\x80",
    "null": b"null",
    "list": b"[1, 2]",
    "text": b'"text"',
    "empty": b"{}",
    "no event": b'{"lesson": "lesson", "question": "one"}',
    "no answer": line("one").replace(b'"a"', b"null"),
    "numbers for names": line("one").replace(b'"lesson", "q', b'1, "q'),
    "more keys": line("one").replace(b"}", b', "more": 1}'),
    "unknown event": line("one").replace(b"predicted", b"<b>guessed</b>"),
    "NaN": line("one").replace(b'"a"', b"NaN"),
    "Infinity": line("one").replace(b'"a"', b"-Infinity"),
    "1e999": line("one").replace(b'"a"', b"1e999"),
    "10**400": line("one").replace(b'"a"', b"1" + b"0" * 400),
    "10**5000": line("one").replace(b'"a"', b"1" + b"0" * 5000),
    "negative confidence": line("one").replace(b"}", b', "confidence": -1}'),
    "too sure": line("one").replace(b"}", b', "confidence": 101}'),
    "half sure": line("one").replace(b"}", b', "confidence": 50.5}'),
    "nested": line("one").replace(b'"a"', b"[" * 100_000 + b"]" * 100_000),
    "list in a list": line("one").replace(b'"a"', b'[["a"]]'),
    "HTML": b"<script>alert(1)</script>",
    "right to left": "\u202e{}".encode(),
    "long name": line("one").replace(b"predicted", b"x" * 10_000),
    "a megabyte": b"x" * 1_000_000,
}


@pytest.mark.parametrize("hostile", HOSTILE_LINES.values(), ids=HOSTILE_LINES)
def test_hostile_line_hides_no_other(path: Path, hostile: bytes) -> None:
    before = file_with(line("one"), hostile, line("two"))
    write(path, before)
    progress = ProgressFile(path)
    assert [q for _, q in progress.records()] == ["one", "two"]
    assert answer_to(path, "one") == "a"
    assert set_aside(path) == [before]
    assert "could not be read" in progress.trouble
    assert "events of it that were saved: 2" in progress.trouble
    assert len(progress.trouble) < 500
    json.loads(path.read_bytes())


def test_line_separator_in_an_answer_tears_no_line_of_a_broken_file(path: Path) -> None:
    add(path, "q", "a\u2028b")
    write(path, path.read_bytes() + b"broken")
    assert answer_to(path) == "a\u2028b"


VERSIONS = [b"0", b"-1", b"1.0", b"2.5", b"NaN", b"1e999", b'"1"', b"null", b"true"]
HOSTILE_FILES = [
    b"",
    b"\n",
    b"null",
    b"[]",
    b"7",
    b'"version"',
    b"{}",
    b'{"version": 1}',
    b'{"version": 1, "events": null}',
    b'{"version": 1, "events": 7}',
    b'{"version": 1, "events": "text"}',
    b'{"version": 1, "events": {"lesson": "q"}}',
    b'{"events": []}',
    b"[" * 200_000,
    b'{"version": 1, "events": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    b"<!doctype html><title>Log in</title>",
    b"\x00" * 4096,
    *(b'{"version": %b, "events": []}' % version for version in VERSIONS),
]


@pytest.mark.parametrize("content", HOSTILE_FILES, ids=lambda c: ascii(c[:40]))
def test_file_that_is_none_of_ours_is_set_aside_and_said_so(
    path: Path, content: bytes
) -> None:
    write(path, content)
    progress = ProgressFile(path)
    assert progress.records() == {}
    assert "events of it that were saved: 0" in progress.trouble
    assert set_aside(path) == [content]
    assert kept(path) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_events_of_a_version_that_never_was_live_on(path: Path, version: bytes) -> None:
    before = file_with(line("q")).replace(b": 1,", b": %b," % version)
    write(path, before)
    assert questions(path) == ["q"]
    assert set_aside(path) == [before]


def test_broken_file_is_set_aside_once_and_said_to_one_notebook(path: Path) -> None:
    write(path, b"broken")
    progress = ProgressFile(path)
    progress.records()
    said = progress.trouble
    progress.add(predicted())
    progress.records()
    assert progress.trouble == said != ""
    later = ProgressFile(path)
    assert list(later.records()) == [("lesson", "q")]
    assert later.trouble == ""
    assert set_aside(path) == [b"broken"]


def test_broken_file_that_is_first_seen_by_a_write_is_set_aside_too(path: Path) -> None:
    before = file_with(line("one"), b"broken")
    write(path, before)
    progress = ProgressFile(path)
    progress.add(predicted("two"))
    assert questions(path) == ["one", "two"]
    assert set_aside(path) == [before]
    assert "events of it that were saved: 1" in progress.trouble


def test_each_broken_file_gets_a_name_of_its_own(path: Path) -> None:
    for content in (b"one", b"two", b"three"):
        write(path, content)
        ProgressFile(path).records()
    assert set_aside(path) == [b"one", b"two", b"three"]


def test_file_that_was_set_aside_is_never_overwritten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class StoppedClock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(module, "datetime", StoppedClock)
    write(path, b"one")
    ProgressFile(path).records()
    write(path, b"two")
    late = ProgressFile(path)
    late.records()
    assert os.strerror(errno.EEXIST) in late.trouble
    assert set_aside(path) == [b"one"]
    assert path.read_bytes() == b"two"


@law
@given(st.binary(max_size=200))
def test_no_bytes_in_the_file_stop_the_next_answer(garbage: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "progress.json"
        path.write_bytes(garbage)
        add(path, "after")
        assert questions(path) == ["after"]
        assert set_aside(path) == [garbage]


@law
@given(st.binary(max_size=200))
def test_no_bytes_hide_the_events_around_them(garbage: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "progress.json"
        whole = file_with(line("one"), line("two"))
        broken = whole.replace(b",\n", b",\n" + garbage + b"\n")
        path.write_bytes(broken)
        add(path, "after")
        assert questions(path) == ["one", "two", "after"]
        assert set_aside(path) in ([], [broken])
        assert set_aside(path) or not garbage.strip(b" \t\r\n")


def test_file_of_a_newer_ckptlab_is_left_alone_and_said_so(path: Path) -> None:
    newer = b'{"version": 2, "events": {"in": "another form"}}'
    write(path, newer)
    progress = ProgressFile(path)
    record = progress.add(predicted())
    assert record.prediction is not None
    assert progress.record("lesson", "q") == record
    assert "newer ckptlab" in progress.trouble
    assert "update ckptlab" in progress.trouble
    assert path.read_bytes() == newer
    assert set_aside(path) == []
    path.unlink()
    progress.add(predicted("next"))
    assert questions(path) == ["q", "next"]


def test_byte_order_mark_of_an_editor_does_no_harm(path: Path) -> None:
    write(path, b"\xef\xbb\xbf" + file_with(line("q")))
    assert questions(path) == ["q"]
    assert set_aside(path) == []


def test_file_that_an_editor_formatted_is_read(path: Path) -> None:
    add(path)
    write(path, json.dumps(json.loads(path.read_bytes()), indent=4).encode())
    assert questions(path) == ["q"]
    add(path, "next")
    assert questions(path) == ["q", "next"]
    assert set_aside(path) == []


# -- killed, and all at once ---------------------------------------------------------


def test_process_killed_right_after_an_event_loses_nothing(path: Path) -> None:
    command = [sys.executable, "-c", ADD_AND_DIE, str(path)]
    assert subprocess.run(command).returncode == -signal.SIGKILL
    assert questions(path) == ["q"]


def test_thousand_kills_lose_nothing_and_some_hit_a_write(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_writer.py")
    command = [sys.executable, "-W", "error", script, tmp_path, "1000", "7"]
    told = json.loads(subprocess.check_output(command, timeout=300))
    lost = {key: told[key] for key in ("lost", "broken", "refused", "set_aside")}
    assert lost == {"lost": [], "broken": 0, "refused": [], "set_aside": 0}
    assert told["told"] >= 500
    assert told["hits"] > 10


def test_rest_of_a_killed_write_is_in_nobodys_way(path: Path) -> None:
    add(path, "one")
    path.with_name("progress.json.new").write_bytes(b"x" * 100_000)
    add(path, "two")
    assert questions(path) == ["one", "two"]
    assert len(kept(path)) == 2


def test_event_is_on_the_disk_before_it_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    replace = os.replace

    def fsync(descriptor: int) -> None:
        is_folder = os.path.samestat(os.fstat(descriptor), path.parent.stat())
        if not is_folder:
            new = path.with_name("progress.json.new")
            assert os.path.samestat(os.fstat(descriptor), new.stat())
            assert len(kept(new)) == 1
        steps.append("folder" if is_folder else "file")

    def watched_replace(one: Path, other: Path) -> None:
        steps.append("replace")
        replace(one, other)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    add(path)
    assert steps == ["file", "replace", "folder"]


def test_broken_file_is_on_the_disk_under_its_new_name_before_it_is_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, b"broken")
    flushed = []

    def fsync(descriptor: int) -> None:
        asides = path.parent.glob("*.broken-*")
        same = [os.path.samestat(os.fstat(descriptor), a.stat()) for a in asides]
        flushed.append("aside" if any(same) else path.read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    ProgressFile(path).records()
    assert flushed[:2] == ["aside", b"broken"]


def add_at_once(
    path: Path, *, n_processes: int, n_questions: int, is_shared: bool
) -> list[list[str]]:
    """Answers that each process was told stand, after all predicted at once."""
    start = path.parent / "start"
    path.parent.mkdir()
    rest = (str(n_questions), str(is_shared))
    command = [sys.executable, "-c", ADD_AT_ONCE, str(path), str(start)]
    processes = [
        subprocess.Popen([*command, str(me), *rest], stdout=subprocess.PIPE, text=True)
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


@pytest.mark.parametrize("n_processes", [2, 8])
def test_processes_that_write_at_once_lose_none(path: Path, n_processes: int) -> None:
    told = add_at_once(path, n_processes=n_processes, n_questions=20, is_shared=False)
    assert told == [[f"by {me}"] * 20 for me in range(n_processes)]
    expected = {f"{me}-{n}" for me in range(n_processes) for n in range(20)}
    assert {event["question"] for event in kept(path)} == expected
    assert len(kept(path)) == 20 * n_processes


@pytest.mark.parametrize("n_processes", [2, 4])
def test_processes_that_answer_the_same_question_agree_on_the_first(
    path: Path, n_processes: int
) -> None:
    told = add_at_once(path, n_processes=n_processes, n_questions=20, is_shared=True)
    standing = [answer_to(path, f"q{number}") for number in range(20)]
    assert len(kept(path)) == 20
    assert all(answers == standing for answers in told)


# -- when the disk refuses -----------------------------------------------------------


@contextmanager
def folder_in_place(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    path.mkdir(parents=True)
    yield
    path.rmdir()


@contextmanager
def folder_in_place_of_the_new_file(
    path: Path, _: pytest.MonkeyPatch
) -> Iterator[None]:
    new = path.with_name(f"{path.name}.new")
    new.mkdir(parents=True)
    yield
    new.rmdir()


@contextmanager
def file_in_place_of_the_folder(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    path.parent.touch()
    yield
    path.parent.unlink()


@contextmanager
def read_only_folder(path: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
    path.parent.mkdir()
    path.parent.chmod(0o555)
    me = os.geteuid()
    if me == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(me)
        path.parent.chmod(0o755)


@contextmanager
def refused_flush(_: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        yield


@contextmanager
def refused_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    read = Path.read_bytes

    def read_bytes(self: Path) -> bytes:
        if self == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(self)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_bytes)
        yield


@contextmanager
def space_for_ten_bytes(_: Path, __: pytest.MonkeyPatch) -> Iterator[None]:
    """A write that is cut short, as on a disk that fills up: the real thing."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextmanager
def lock_that_another_process_holds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    lock = str(path.with_name(f"{path.name}.lock"))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, lock],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder, monkeypatch.context() as patch:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        patch.setattr(module, "LOCK_SECONDS", 0.1)
        yield
        holder.stdin.close()
        holder.wait()


Fault = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[None]]
FAULTS = {
    folder_in_place: os.strerror(errno.EISDIR),
    folder_in_place_of_the_new_file: os.strerror(errno.EISDIR),
    file_in_place_of_the_folder: os.strerror(errno.EEXIST),
    read_only_folder: os.strerror(errno.EACCES),
    refused_flush: os.strerror(errno.ENOSPC),
    refused_read: os.strerror(errno.EACCES),
    space_for_ten_bytes: os.strerror(errno.EFBIG),
    lock_that_another_process_holds: "The file lock",
}
every_fault = pytest.mark.parametrize(("fault", "why"), FAULTS.items())
faults_of_a_file_that_is_there = pytest.mark.parametrize(
    "fault",
    [
        folder_in_place_of_the_new_file,
        refused_flush,
        refused_read,
        space_for_ten_bytes,
        lock_that_another_process_holds,
    ],
)
faults_of_writing = pytest.mark.parametrize(
    "fault",
    [
        folder_in_place_of_the_new_file,
        refused_flush,
        space_for_ten_bytes,
        lock_that_another_process_holds,
    ],
)


@every_fault
def test_refused_event_is_kept_in_memory_and_said_why(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    progress = ProgressFile(path)
    with fault(path, monkeypatch):
        told = progress.add(predicted("q", "a", 50))
        assert progress.record("lesson", "q") == told
        trouble = progress.trouble
    assert told.prediction is not None
    assert (told.prediction.answer, told.prediction.confidence) == ("a", 50)
    assert datetime.fromisoformat(told.prediction.time)
    assert trouble.startswith(f"Not saved to {path} ({why}")
    assert "written with the next one" in trouble


@every_fault
def test_refused_events_are_written_with_the_next_that_succeeds(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    progress = ProgressFile(path)
    with fault(path, monkeypatch):
        progress.add(predicted("first"))
        progress.add(predicted("second"))
    progress.add(predicted("third"))
    assert questions(path) == ["first", "second", "third"]
    assert ProgressFile(path).records() == progress.records()
    assert len(kept(path)) == 3
    assert progress.trouble == ""


@every_fault
def test_first_prediction_stands_in_memory_too(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    progress = ProgressFile(path)
    with fault(path, monkeypatch):
        first = progress.add(predicted("q", "first"))
        assert progress.add(predicted("q", "second")) == first
        revealed = progress.add(Event("lesson", "q", "revealed", outcome="right"))
        assert len(progress.records()) == 1
    progress.add(predicted("next"))
    assert ProgressFile(path).record("lesson", "q") == revealed
    assert len(kept(path)) == 3


def test_prediction_that_another_notebook_saved_meanwhile_stands(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = ProgressFile(path)
    with refused_flush(path, monkeypatch):
        progress.add(predicted("q", "in memory"))
    add(path, "q", "saved")
    progress.add(predicted("next"))
    assert answer_to(path) == "saved"
    assert progress.record("lesson", "q") == ProgressFile(path).record("lesson", "q")


@faults_of_a_file_that_is_there
def test_events_from_before_a_refusal_are_untouched(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    add(path, "before")
    before = path.read_bytes()
    progress = ProgressFile(path)
    with fault(path, monkeypatch):
        progress.add(predicted("refused"))
    assert path.read_bytes() == before
    progress.add(predicted("after"))
    assert questions(path) == ["before", "refused", "after"]
    assert set_aside(path) == []


@faults_of_writing
def test_broken_file_stays_where_it_is_while_the_disk_refuses(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    broken = file_with(line("saved"), b"broken")
    write(path, broken)
    progress = ProgressFile(path)
    with fault(path, monkeypatch):
        for _ in range(3):
            assert [q for _, q in progress.records()] == ["saved"]
        progress.add(predicted("new"))
        assert [q for _, q in progress.records()] == ["saved", "new"]
        assert progress.trouble.startswith("Not saved")
        assert "set aside" not in progress.trouble
    assert set_aside(path) == []  # no copies pile up on a full disk
    assert path.read_bytes() == broken
    progress.records()
    assert questions(path) == ["saved", "new"]
    assert set_aside(path) == [broken]
    assert progress.trouble.startswith("progress.json could not be read")


def test_trouble_with_reading_ends_once_the_file_can_be_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(path)
    progress = ProgressFile(path)
    with refused_read(path, monkeypatch):
        assert progress.records() == {}
        assert progress.trouble != ""
    assert list(progress.records()) == [("lesson", "q")]
    assert progress.trouble == ""


def test_folder_in_place_of_the_file_is_left_alone(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "precious").touch()
    progress = ProgressFile(path)
    progress.add(predicted())
    assert os.strerror(errno.EISDIR) in progress.trouble
    assert [one.name for one in path.iterdir()] == ["precious"]


def can_mount() -> bool:
    """Whether these tests may mount a small disk, in a namespace of their own."""
    script = "mount -t tmpfs -o size=64k tmpfs /mnt"
    try:
        tried = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script], stderr=subprocess.DEVNULL
        )
    except OSError:
        return False
    return tried.returncode == 0


if can_mount():

    def test_full_disk_loses_nothing(tmp_path: Path) -> None:
        command = ["unshare", "--mount", sys.executable, "-c", FILL_A_DISK, tmp_path]
        told = subprocess.check_output(command, text=True).splitlines()
        why = os.strerror(errno.ENOSPC)
        assert told[0].startswith(f"Not saved to {tmp_path / 'progress.json'} ({why})")
        assert told[1:] == ["", "before refused after"]


# -- erasing, and where progress is kept ---------------------------------------------


def test_erasing_deletes_every_answer_and_says_how_many(path: Path) -> None:
    progress = ProgressFile(path)
    progress.add(predicted("one"))
    progress.add(predicted("two"))
    progress.add(Event("lesson", "three", "shown"))
    assert progress.erase() == 2
    assert not path.exists()
    assert progress.records() == {}
    add(path, "one", "anew")
    assert answer_to(path, "one") == "anew"


@pytest.mark.parametrize("name", ["progress.json", "p[1]*.json", "progress"])
def test_erasing_leaves_no_answer_in_any_file(path: Path, name: str) -> None:
    path = path.with_name(name)
    for content in (file_with(line("secret"), b"one"), b"secret"):
        write(path, content)
        ProgressFile(path).records()
    path.with_name(f"{name}.new").write_bytes(b"secret")
    path.with_name("neighbour.json").write_bytes(b"of somebody else")
    assert ProgressFile(path).erase() == 0
    left = [one for one in path.parent.iterdir() if one.suffix != ".lock"]
    assert [one.name for one in left] == ["neighbour.json"]


def test_erasing_a_broken_file_leaves_nothing_of_it(path: Path) -> None:
    write(path, file_with(line("q"), b"broken"))
    progress = ProgressFile(path)
    assert progress.erase() == 1
    assert progress.trouble == ""
    assert set_aside(path) == []
    assert not path.exists()


@pytest.mark.parametrize(
    "fault", [file_in_place_of_the_folder, refused_flush, space_for_ten_bytes]
)
def test_erasing_forgets_what_could_not_be_saved(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    progress = ProgressFile(path)
    with fault(path, monkeypatch):
        progress.add(predicted())
    assert progress.erase() == 1
    assert progress.records() == {}
    assert progress.trouble == ""
    progress.add(predicted("other"))
    assert questions(path) == ["other"]


@contextmanager
def refused_unlink(_: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def unlink(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        yield


@pytest.mark.parametrize("fault", [lock_that_another_process_holds, refused_unlink])
def test_refused_erasing_is_raised_and_forgets_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    progress = ProgressFile(path)
    progress.add(predicted())
    with fault(path, monkeypatch), pytest.raises(OSError, match=r"lock|denied"):
        progress.erase()
    assert list(progress.records()) == [("lesson", "q")]
    assert questions(path) == ["q"]


def test_erasing_nothing_is_no_error_and_makes_no_folder(path: Path) -> None:
    assert ProgressFile(path).erase() == 0
    assert not path.parent.exists()


def test_environment_says_where_progress_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPTLAB_PROGRESS", str(path))
    progress = ProgressFile()
    progress.add(predicted())
    assert progress.path == path
    assert questions(path) == ["q"]


def test_environment_may_name_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CKPTLAB_PROGRESS", "~/mine.json")
    assert progress_path() == tmp_path / "mine.json"


@pytest.mark.parametrize("told", [None, ""])
def test_progress_is_kept_in_the_users_data_folder_otherwise(
    told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CKPTLAB_PROGRESS")
    if told is not None:
        monkeypatch.setenv("CKPTLAB_PROGRESS", told)
    assert progress_path() == platformdirs.user_data_path("ckptlab") / "progress.json"
