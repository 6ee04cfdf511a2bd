"""What this learner has answered, kept safely on disk.

One file of JSON lines, only ever appended to, one answer a line:

1. An answer is written in one piece and flushed to the disk before it counts as
   kept, so a killed kernel loses nothing; two notebooks may write at once.
2. A line that cannot be read (a torn write, another program) is passed over and
   left alone; it never hides the others.
3. The first answer to a question stands. To answer anew, erase.
4. When the disk refuses, answers stay in memory, and are written with the next
   one that succeeds; `unsaved_reason` says so to the learner.

The file is `answers.jsonl` in the user's data folder (platformdirs), or the path
in the environment variable CKPTLAB_ANSWERS.
"""

import json
import os
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import platformdirs


@dataclass(frozen=True)
class CommittedAnswer:
    """One committed prediction.

    Attributes:
        lesson, question: which question it answers.
        answer: a choice id, or a number in the question's unit.
        confidence: in percent, or None where the question did not ask.
        time: when it was committed, ISO 8601, UTC.
    """

    lesson: str
    question: str
    answer: str | float
    confidence: int | None = None
    time: str = ""


class AnswerBook:
    """All answers of one learner, as the file at `path` holds them."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or answers_path()
        self.unsaved_reason = ""
        self._unsaved: list[CommittedAnswer] = []

    def answers(self) -> list[CommittedAnswer]:
        """Every first answer, oldest first; read anew, for others may have written."""
        first: dict[tuple[str, str], CommittedAnswer] = {}
        for answer in [*self._read(), *self._unsaved]:
            first.setdefault((answer.lesson, answer.question), answer)
        return list(first.values())

    def find(self, lesson: str, question: str) -> CommittedAnswer | None:
        """The answer that stands for a question, or None."""
        wanted = (lesson, question)
        return next(
            (a for a in self.answers() if (a.lesson, a.question) == wanted), None
        )

    def commit(self, answer: CommittedAnswer) -> CommittedAnswer:
        """Keep an answer, and return the one that stands: an earlier one wins."""
        standing = self.find(answer.lesson, answer.question)
        if standing is not None:
            return standing
        now = datetime.now(UTC).isoformat(timespec="seconds")
        stamped = replace(answer, time=now)
        self._unsaved.append(stamped)
        self._write_unsaved()
        return self.find(answer.lesson, answer.question) or stamped

    def erase(self) -> int:
        """Delete every answer; returns how many there were."""
        count = len(self.answers())
        self._unsaved.clear()
        self.unsaved_reason = ""
        self.path.unlink(missing_ok=True)
        return count

    def _write_unsaved(self) -> None:
        lines = "".join(json.dumps(asdict(answer)) + "\n" for answer in self._unsaved)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab+", buffering=0) as file:
                # a line torn by a crash must not swallow the next one
                piece = (b"" if _ends_in_newline(file) else b"\n") + lines.encode()
                if file.write(piece) != len(piece):
                    raise OSError("the disk is full")
                os.fsync(file.fileno())
        except OSError as error:
            self.unsaved_reason = (
                f"not saved to {self.path} ({error.strerror or error}); your answers "
                "are kept while this notebook runs, and written with the next one"
            )
        else:
            self._unsaved.clear()
            self.unsaved_reason = ""

    def _read(self) -> list[CommittedAnswer]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return [answer for line in text.split("\n") if (answer := _read_line(line))]


def answers_path() -> Path:
    """Where answers are kept: CKPTLAB_ANSWERS, or the user's data folder."""
    told = os.environ.get("CKPTLAB_ANSWERS")
    if told:
        return Path(told).expanduser()
    return platformdirs.user_data_path("ckptlab") / "answers.jsonl"


def _read_line(line: str) -> CommittedAnswer | None:
    try:
        answer = CommittedAnswer(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    are_texts = isinstance(answer.lesson, str) and isinstance(answer.question, str)
    return (
        answer if are_texts and isinstance(answer.answer, (str, int, float)) else None
    )


def _ends_in_newline(file: IO[bytes]) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
