"""The card that shows how the learner is doing, exports it, and erases it."""

from pathlib import Path
from typing import Any

import traitlets

from ckptlab.course import palette, summary
from ckptlab.course.card import Card
from ckptlab.course.markup import details, escape, table
from ckptlab.course.questions import Bank, bank_paths, load_bank
from ckptlab.course.session import Session
from ckptlab.course.summary import Banks, Calibration, Records
from ckptlab.errors import AnswerError, QuestionError

_EXPORTS = {".csv": summary.export_csv, ".json": summary.export_json}


class ProgressCard(Card):
    """What was predicted, how right, how sure; the twin names nobody's answers.

    Attributes:
        live_html: all of it.
        n_predictions: how many there are to erase.
        download: the name and the text of a file for the browser to save.
        said: what came of the last button, plain text.
    """

    live_html = traitlets.Unicode().tag(sync=True)
    n_predictions = traitlets.Int().tag(sync=True)
    download = traitlets.Dict().tag(sync=True)
    said = traitlets.Unicode().tag(sync=True)

    def __init__(self, session: Session) -> None:
        super().__init__(kind="progress")
        self._session = session
        self.refresh()
        self.on_msg(self._receive)

    @property
    def path(self) -> str:
        """The file that holds the answers."""
        return str(self._session.progress.path)

    def export(self, path: str | Path, name: str = "") -> str:
        """Write what is shown here to a file for a teacher; says where it is.

        Args:
            path: ends in .csv or .json. A file that is there already is kept.
            name: of the learner, or anything else to tell files apart; none unless
                given.

        Raises:
            AnswerError: the path ends otherwise, is taken, or cannot be written.
        """
        path = Path(path).expanduser()
        text = self._export(path.suffix, name)
        try:
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        except FileExistsError:
            raise AnswerError(f"{path} is there already; give another name") from None
        except OSError as error:
            raise AnswerError(
                f"{path} cannot be written ({error.strerror}); choose another folder"
            ) from None
        return f"Written: {path.resolve()}"

    def erase(self, *, sure: bool = False) -> str:
        """Delete every answer from the disk, for good, once you say that you are sure.

        Args:
            sure: without it, nothing is deleted, and the text asks.
        """
        if not sure:
            count = _count(self.n_predictions, "prediction")
            return (
                f"This would erase {count} for good. If you are sure, call "
                "progress().erase(sure=True)."
            )
        try:
            count = _count(self._session.progress.erase(), "prediction")
        except OSError as error:
            return (
                f"Not erased: {error.strerror or error}. Delete {self.path} yourself."
            )
        self._session.redraw()
        self.refresh()
        return f"Erased: {count}. Every question is open again."

    def refresh(self) -> None:
        """Read everything anew."""
        records, banks = self._session.progress.records(), self._banks()
        self.n_predictions = sum(1 for r in records.values() if r.prediction)
        parts = [
            _describe_lessons(records, banks),
            _describe_predictions(records, banks),
            _describe_calibration(records),
            _describe_look_again(records, banks),
            f"<p>Kept in <code>{escape(self.path)}</code>.</p>",
        ]
        if self._session.progress.trouble:
            trouble = escape(self._session.progress.trouble)
            parts.append(f"<p><strong>⚠ {trouble}</strong></p>")
        self.live_html = "\n".join(filter(None, parts))

    def twin_html(self) -> str:
        return f"<p>{self.twin_text()}</p>"

    def twin_text(self) -> str:
        return "Run this cell to see what you have predicted so far."

    def _banks(self) -> Banks:
        banks: dict[str, Bank] = {}
        for lesson, path in bank_paths().items():
            try:
                banks[lesson] = load_bank(path)
            except (QuestionError, OSError):
                continue  # its own lesson says what is wrong with it
        if self._session.bank:
            banks[self._session.bank.lesson] = self._session.bank
        return banks

    def _export(self, suffix: object, name: object) -> str:
        if suffix not in _EXPORTS:
            raise AnswerError(f"{suffix!r} is no format; use .csv or .json")
        records = self._session.progress.records()
        return _EXPORTS[str(suffix)](records, self._banks(), str(name)[:100])

    def _receive(self, _: object, content: Any, __: object) -> None:
        asked = content if isinstance(content, dict) else {}
        self.said = ""  # so that the same words are told twice
        try:
            if asked.get("do") == "erase":
                self.said = self.erase(sure=True)
            elif asked.get("do") == "download":
                self.said = self._offer(asked.get("format"), asked.get("name") or "")
            else:
                self.refresh()
                self.said = "Read anew."
        except AnswerError as error:
            self.said = str(error)

    def _offer(self, suffix: object, name: object) -> str:
        file = f"ckptlab_progress{suffix}"
        text = self._export(suffix, name)
        self.download = {}  # so that the same file can be saved twice
        self.download = {"file": file, "text": text}
        return f"{file} is in your downloads."


def _describe_lessons(records: Records, banks: Banks) -> str:
    rows = []
    for one in summary.summarize_lessons(records, banks):
        title = banks[one.lesson].title if one.lesson in banks else one.lesson
        label = f"{_short(one.lesson)}: {title}" if one.lesson in banks else title
        of = "" if one.n_questions is None else f" of {one.n_questions}"
        extras = [
            f"{n} {what}"
            for n, what in (
                (one.n_waiting, "not compared yet"),
                (one.n_shown, "opened without a prediction"),
            )
            if n
        ]
        outcomes = [str(one.outcomes[key]) for key in ("right", "near", "wrong")]
        rows.append(
            (label, f"{one.n_predicted}{of}", *outcomes, ", ".join(extras) or "–")
        )
    if not rows:
        return "<p>No prediction committed yet.</p>"
    header = ("Lesson", "Predicted", "✓ Right", "≈ Close", "✗ Not so", "Besides")
    return table(header, rows)


def _describe_predictions(records: Records, banks: Banks) -> str:
    """For each lesson a closed section: what was predicted, and how right it was."""
    sections = []
    for lesson in dict.fromkeys(lesson for lesson, _ in records):
        rows = [
            (one.topic, one.prediction, one.how_right, one.second_try)
            for one in summary.list_predictions(lesson, records, banks.get(lesson))
        ]
        if rows:
            header = ("Question", "You predicted", "How right", "Second try")
            title = f"Your predictions in lesson {_short(lesson)}"
            sections.append(details(title, table(header, rows)))
    return "\n".join(sections)


def _describe_calibration(records: Records) -> str:
    found = summary.calibrate(records)
    html = "<h4>How sure, how right</h4>\n"
    html += f"<p>{escape(summary.describe_calibration(found))}</p>"
    if not found:
        return html
    rows = [
        (f"{one.confidence} %", f"{one.n_right} of {one.n_predictions}")
        for one in found
    ]
    return html + _draw_calibration(found) + table(("You said", "Right"), rows)


def _describe_look_again(records: Records, banks: Banks) -> str:
    found = summary.look_again(records, banks)
    if not found:
        return ""
    items = []
    for one in found:
        belief = "; ".join(one.misconceptions)
        remark = f" The belief behind it: <em>{escape(belief)}</em>." if belief else ""
        items.append(
            f"<li><strong>{escape(one.topic)}</strong> (lesson "
            f"{escape(_short(one.lesson))}, {escape(one.why)}).{remark}</li>"
        )
    return f"<h4>Look at these again</h4>\n<ul>{''.join(items)}</ul>"


def _draw_calibration(found: list[Calibration]) -> str:
    """SVG: confidence along, correctness up; on the line the two agree."""
    left, top, side = 44, 10, 150

    def place(confidence: float, right: float) -> tuple[float, float]:
        return left + side * confidence / 100, top + side * (1 - right / 100)

    dots = ""
    for one in found:
        x, y = place(one.confidence, one.right_percent)
        dots += (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{3 + min(one.n_predictions, 9)}" '
            f'fill="{palette.WEIGHT}" stroke="currentColor"/>'
        )
    x0, y0 = place(0, 0)
    x1, y1 = place(100, 100)
    label = "; ".join(
        f"{one.confidence} % sure: {one.n_right} of {one.n_predictions} right"
        for one in found
    )
    return f"""<svg viewBox="0 0 300 205" class="ckptlab-small" role="img"
 aria-label="{escape(label)}" font-size="12" fill="currentColor">
<path d="M{x0} {y1}V{y0}H{x1}" fill="none" stroke="currentColor"/>
<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="currentColor"
 stroke-dasharray="4 3"/>
<text x="{x1 + 6}" y="{y1 + 12}">as right as sure</text>
<text x="{left - 6}" y="{y1 + 5}" text-anchor="end">100 %</text>
<text x="{left - 6}" y="{y0}" text-anchor="end">0 %</text>
<text x="{x0}" y="{y0 + 16}">0 % sure</text>
<text x="{x1}" y="{y0 + 16}" text-anchor="middle">100 %</text>
<text x="{x0 + 6}" y="{y1 + 5}">right</text>
{dots}</svg>"""


def _short(lesson: str) -> str:
    """The number of a lesson, or its name where it has none."""
    return lesson[:2] if lesson[:2].isdigit() else lesson


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
