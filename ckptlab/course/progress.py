"""What this learner has answered, kept safely on disk.

One file of JSON that people can read, one event a line:

    {"version": 1, "events": [
    {"lesson": "01_…", "question": "overtake", "event": "predicted", …},
    {"lesson": "01_…", "question": "overtake", "event": "revealed", …}
    ]}

1. An event is kept under a lock: read the file, add, write a new file beside it,
   flush it to the disk, and put it in place of the old one. A killed process leaves
   the old file or the new one, and two notebooks never overwrite each other.
2. A file that cannot be read is set aside under a new name, and said so. The lines
   of it that are events live on.
3. When the disk refuses, events stay in memory, and are written with the next one
   that succeeds; `trouble` says so to the learner.

The file is `progress.json` in the user's data folder (platformdirs), or the path in
the environment variable CKPTLAB_PROGRESS.
"""

import glob
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import platformdirs
from filelock import FileLock

from ckptlab.course.record import Event, Record

VERSION = 1
LOCK_SECONDS = 10
"""Longer than any write takes; a lock held longer belongs to a process that hangs."""

Fits = Callable[[str, str, object], bool]
"""(lesson, question, answer) -> whether a stored answer still fits its question."""


@dataclass
class _Content:
    """What a progress file holds; `fault` says why it is not all of it."""

    events: list[Event] = field(default_factory=list)
    fault: str = ""


class ProgressFile:
    """All events of one learner, as the file at `path` holds them.

    Attributes:
        path: of the file.
        fits: which stored answers still fit their questions; the others count as none.
        trouble: what the learner should know: a write that was refused, a file that
            was set aside. Empty when all is well.
    """

    def __init__(self, path: Path | None = None, fits: Fits | None = None) -> None:
        self.path = path or progress_path()
        self.fits: Fits = fits or (lambda lesson, question, answer: True)
        self._unsaved: list[Event] = []
        self._refusal = ""
        self._notice = ""

    @property
    def trouble(self) -> str:
        """See the class."""
        return " ".join(filter(None, (self._refusal, self._notice)))

    def records(self) -> dict[tuple[str, str], Record]:
        """What came of each (lesson, question); read anew, others may have written."""
        return self._fold(self._read())

    def record(self, lesson: str, question: str) -> Record:
        """What came of one question."""
        return self.records().get((lesson, question), Record())

    def add(self, event: Event) -> Record:
        """Keep an event, if it can follow the earlier ones; returns what came of it.

        Whether it can is decided under the lock: of two notebooks that answer at
        once, the first one's answer stands, and both are told so.

        Raises:
            ValueError, TypeError: no event, such as an answer that is not finite.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        # checked first: what the file cannot hold would make all of it unreadable
        self._unsaved.append(Event.read(asdict(replace(event, time=now))))
        self._write_unsaved()
        return self.record(event.lesson, event.question)

    def erase(self) -> int:
        """Delete every answer, for good; returns how many predictions there were.

        Raises:
            OSError: the disk refuses; nothing is forgotten.
        """
        count = sum(1 for record in self.records().values() if record.prediction)
        if self.path.parent.is_dir():
            stem, suffix = glob.escape(self.path.stem), glob.escape(self.path.suffix)
            broken = self.path.parent.glob(f"{stem}.broken-*{suffix}")
            with self._lock():
                for path in (self.path, _unfinished(self.path), *broken):
                    path.unlink(missing_ok=True)
        self._unsaved.clear()
        self._refusal = self._notice = ""
        return count

    def _fold(self, events: Iterable[Event]) -> dict[tuple[str, str], Record]:
        records: dict[tuple[str, str], Record] = {}
        for event in events:
            self._apply(event, records)
        return records

    def _apply(self, event: Event, records: dict[tuple[str, str], Record]) -> bool:
        """Add an event to the records; returns whether it changed anything."""
        place = (event.lesson, event.question)
        is_answer = event.event in ("predicted", "tried again")
        if is_answer and not self.fits(*place, event.answer):
            return False  # the question has changed since: as if never answered
        before = records.get(place, Record())
        records[place] = before.after(event)
        return records[place] != before

    def _read(self) -> list[Event]:
        """Every event, the unsaved ones last."""
        if not self._unsaved:
            self._refusal = ""  # of an earlier read
        try:
            content = _load(self.path)
            if content.fault:
                self._write_unsaved()  # which sets the file aside
                content = content if self._refusal else _load(self.path)
        except OSError as error:
            self._refuse(error)
            content = _Content()
        return [*content.events, *self._unsaved]

    def _write_unsaved(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock():
                content = _load(self.path)
                records = self._fold(content.events)
                new = [event for event in self._unsaved if self._apply(event, records)]
                events = [*content.events, *new]
                if content.fault:
                    self._set_aside(content, events)
                elif new:
                    _replace(self.path, events)
        except OSError as error:
            self._refuse(error)
        else:
            self._unsaved.clear()
            self._refusal = ""

    def _refuse(self, error: OSError) -> None:
        self._refusal = (
            f"Not saved to {self.path} ({error.strerror or error}); your answers are "
            "kept while this notebook runs, and written with the next one."
        )

    def _set_aside(self, content: _Content, events: list[Event]) -> None:
        """Copy a file that cannot be read to a new name, and put events in its place.

        Raises:
            OSError: the disk refuses; the file is where it was, and has no copy.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        aside = self.path.with_name(
            f"{self.path.stem}.broken-{stamp}{self.path.suffix}"
        )
        aside.open("xb").close()  # never over an earlier one
        try:
            with aside.open("wb") as file:
                _write(file, self.path.read_bytes())
            _replace(self.path, events)
        except OSError:
            aside.unlink()
            raise
        self._notice = (
            f"{self.path.name} could not be read ({content.fault}) and was set aside "
            f"as {aside.name}; events of it that were saved: {len(content.events)}."
        )

    def _lock(self) -> FileLock:
        return FileLock(self.path.with_name(f"{self.path.name}.lock"), LOCK_SECONDS)


def progress_path() -> Path:
    """Where progress is kept: CKPTLAB_PROGRESS, or the user's data folder."""
    told = os.environ.get("CKPTLAB_PROGRESS")
    if told:
        return Path(told).expanduser()
    return platformdirs.user_data_path("ckptlab") / "progress.json"


def _load(path: Path) -> _Content:
    """What a file holds.

    Raises:
        OSError: it is there and cannot be read, or a newer ckptlab wrote it: it must
            be left alone.
    """
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return _Content()
    try:
        content = json.loads(raw)
        version = content["version"]
        if type(version) is not int or version < 1:
            raise ValueError(f"there is no version {version!r}")
        if version > VERSION:
            raise OSError(
                f"a newer ckptlab wrote this file, version {version}, and this one "
                f"knows version {VERSION}; update ckptlab"
            )
        return _Content([Event.read(entry) for entry in content["events"]])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        lines = raw.decode("utf-8", errors="replace").split("\n")
        events = [event for line in lines if (event := _salvage(line))]
        return _Content(events, fault=_reason(error))


def _reason(error: Exception) -> str:
    """Why a file cannot be read, in one line that people understand."""
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON: {error}"
    if type(error) is ValueError:  # our own words
        return str(error).split("\n")[0][:100]
    return "it holds something else than progress"


def _salvage(line: str) -> Event | None:
    try:
        return Event.read(json.loads(line.strip().rstrip(",")))
    except (ValueError, TypeError, RecursionError):
        return None


def _replace(path: Path, events: list[Event]) -> None:
    """Put a file with these events in place of the old one, whole or not at all."""
    lines = b",\n".join(map(_line, events))
    text = b'{"version": %d, "events": [\n%b\n]}\n' % (VERSION, lines)
    new = _unfinished(path)
    with new.open("wb") as file:
        _write(file, text)
    os.replace(new, path)
    if os.name == "posix":  # the new name must be on the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _unfinished(path: Path) -> Path:
    """Where a new file is written; one name is enough, for the lock is held."""
    return path.with_name(f"{path.name}.new")


def _write(file: BinaryIO, content: bytes) -> None:
    """Write, and wait until it is on the disk."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def _line(event: Event) -> bytes:
    known = {key: value for key, value in asdict(event).items() if value is not None}
    try:
        return json.dumps(known, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a character, which UTF-8 has no bytes for
        return json.dumps(known).encode()
