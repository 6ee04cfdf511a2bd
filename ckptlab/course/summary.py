"""How a learner is doing: how right, how well calibrated, what to look at again.

Pure functions of the records and the banks; `progress_card.py` puts them on screen.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptlab.course.kinds import Question
from ckptlab.course.kinds.choice import ChoiceQuestion
from ckptlab.course.questions import Bank
from ckptlab.course.record import Record

OUTCOMES = {"right": "✓ Right", "near": "≈ Close", "wrong": "✗ Not so"}
"""How outcomes are called: a sign and a word, never a colour alone."""

Records = Mapping[tuple[str, str], Record]
Banks = Mapping[str, Bank]


@dataclass(frozen=True)
class LessonSummary:
    """One lesson in numbers.

    Attributes:
        lesson: its name.
        n_questions: that ask for a prediction; None where the bank is not at hand.
        n_predicted: predictions that were committed.
        outcomes: how many of them were "right", "near" and "wrong".
        n_shown: answers that were opened without a prediction.
    """

    lesson: str
    n_questions: int | None
    n_predicted: int
    outcomes: Counter[str]
    n_shown: int

    @property
    def n_waiting(self) -> int:
        """Predictions that have not met their measurement yet."""
        return self.n_predicted - self.outcomes.total()


@dataclass(frozen=True)
class Prediction:
    """One prediction in words; `how_right` and `second_try` may be a dash."""

    topic: str
    prediction: str
    how_right: str
    second_try: str


@dataclass(frozen=True)
class Calibration:
    """Predictions made with one degree of confidence.

    Attributes:
        confidence: in percent.
        n_predictions: that were revealed.
        n_right: of them; a near miss is not right.
    """

    confidence: int
    n_predictions: int
    n_right: int

    @property
    def right_percent(self) -> float:
        """How many of a hundred were right."""
        return 100 * self.n_right / self.n_predictions


@dataclass(frozen=True)
class LookAgain:
    """A question that was missed, or opened without a prediction; `why` says which."""

    lesson: str
    topic: str
    why: str
    misconceptions: tuple[str, ...]


def summarize_lessons(records: Records, banks: Banks) -> list[LessonSummary]:
    """One summary for each lesson that has a bank or a record."""
    names = sorted({lesson for lesson, _ in records} | set(banks))
    return [_summarize(name, records, banks.get(name)) for name in names]


def list_predictions(
    lesson: str, records: Records, bank: Bank | None
) -> list[Prediction]:
    """What was predicted in one lesson, in the order in which it was."""
    found = []
    for (place, question_id), record in records.items():
        if place != lesson or not (record.prediction or record.was_shown):
            continue
        known = bank.questions.get(question_id) if bank else None
        first, second = record.prediction, record.second_try
        sure = f" ({first.confidence} % sure)" if first and first.confidence else ""
        found.append(
            Prediction(
                topic=known.topic if known else question_id,
                prediction=_cut(_text(known, first.answer)) + sure if first else "–",
                how_right=OUTCOMES[record.outcome] if record.outcome else "–",
                second_try=f"{_cut(_text(known, second.answer))} "
                f"({OUTCOMES[record.second_outcome]})"
                if second and record.second_outcome
                else "–",
            )
        )
    return found


def calibrate(records: Records) -> list[Calibration]:
    """Confidence against correctness, by rising confidence."""
    asked: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for record in records.values():
        if record.prediction and record.outcome:
            confidence = record.prediction.confidence
            if confidence is not None:
                asked[confidence] += 1
                right[confidence] += record.outcome == "right"
    return [Calibration(sure, asked[sure], right[sure]) for sure in sorted(asked)]


def describe_calibration(calibrations: list[Calibration]) -> str:
    """One plain sentence: surer than right, less sure than right, or well judged."""
    n_all = sum(one.n_predictions for one in calibrations)
    if not n_all:
        return "No prediction with a confidence is revealed yet."
    sure = sum(one.confidence * one.n_predictions for one in calibrations) / n_all
    right = sum(one.n_right for one in calibrations) / n_all * 100
    start = (
        f"You were {sure:.0f} % sure on average, and right {right:.0f} % of the time"
    )
    if n_all < 5:
        return f"{start}; five predictions or more say whether that fits."
    if sure - right > 15:
        return f"{start}: surer than right. When you next feel sure, look for a reason."
    if right - sure > 15:
        return f"{start}: you know more than you think."
    return f"{start}: well judged."


def look_again(records: Records, banks: Banks) -> list[LookAgain]:
    """What was missed, the surest errors first, then near misses, then the unseen."""
    found = []
    for (lesson, question_id), record in records.items():
        question = banks[lesson].questions.get(question_id) if lesson in banks else None
        rank, why = _why_again(record)
        if why:
            topic = question.topic if question else question_id
            beliefs = _beliefs(question, record)
            found.append((rank, LookAgain(lesson, topic, why, beliefs)))
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


def missed_first(bank: Bank, records: Records) -> list[str]:
    """Questions of a bank by how their like went: surest errors first, right ones last.

    A question that revisits several counts by the worst of them; one whose like was
    never asked stands between the missed and the right ones.
    """

    def rank(question: Question) -> float:
        known = [
            records[lesson, asked]
            for lesson, _, asked in (ref.partition("/") for ref in question.revisits)
            if (lesson, asked) in records
        ]
        return min((_rank_again(record) for record in known), default=3.0)

    return sorted(bank.predicted, key=lambda one: rank(bank.questions[one]))


def _rank_again(record: Record) -> float:
    rank, why = _why_again(record)
    return rank if why else 3.0 if record.outcome is None else 4.0


def export_csv(records: Records, banks: Banks, name: str = "") -> str:
    """A table for a teacher, one question a line; `name` stands in it where given."""
    rows = export_rows(records, banks, name)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_row("", "", Record(), None, name)))
    writer.writeheader()
    writer.writerows({key: _plain_cell(v) for key, v in row.items()} for row in rows)
    return text.getvalue()


def export_json(records: Records, banks: Banks, name: str = "") -> str:
    """The same as JSON: a list of objects."""
    return json.dumps(export_rows(records, banks, name), indent=1)


def export_rows(records: Records, banks: Banks, name: str = "") -> list[dict[str, Any]]:
    """What a teacher sees: one row a question, in the order of the learner's work."""
    rows = []
    for (lesson, question_id), record in records.items():
        known = banks[lesson].questions.get(question_id) if lesson in banks else None
        rows.append(_row(lesson, question_id, record, known, name))
    return rows


def _row(
    lesson: str, question_id: str, record: Record, known: Question | None, name: str
) -> dict[str, Any]:
    first, second = record.prediction, record.second_try
    row: dict[str, Any] = {"name": name} if name else {}
    return row | {
        "lesson": lesson,
        "question": question_id,
        "prediction": _text(known, first.answer) if first else "",
        "confidence_percent": first.confidence if first else None,
        "outcome": record.outcome,
        "second_try": _text(known, second.answer) if second else "",
        "second_outcome": record.second_outcome,
        "shown_without_prediction": record.was_shown,
        "hints_opened": record.n_hints,
        "time": first.time if first else "",
    }


def _summarize(name: str, records: Records, bank: Bank | None) -> LessonSummary:
    own = [record for (lesson, _), record in records.items() if lesson == name]
    predicted = [record for record in own if record.prediction]
    return LessonSummary(
        lesson=name,
        n_questions=len(bank.predicted) if bank else None,
        n_predicted=len(predicted),
        outcomes=Counter(r.outcome for r in predicted if r.outcome),
        n_shown=sum(record.was_shown for record in own),
    )


def _why_again(record: Record) -> tuple[float, str]:
    """A rank, low for what matters most, and the reason; none where all is well."""
    if record.was_shown:
        return 3.0, "opened without a prediction"
    if record.prediction is None or record.outcome in (None, "right"):
        return 4.0, ""
    sure = record.prediction.confidence
    how = "close" if record.outcome == "near" else "missed"
    why = how if sure is None else f"{how}, {sure} % sure"
    return 2 * (record.outcome == "near") - (sure or 0) / 100, why


def _beliefs(question: Question | None, record: Record) -> tuple[str, ...]:
    if not isinstance(question, ChoiceQuestion) or record.prediction is None:
        return ()
    return tuple(question.misconceptions(record.prediction.answer))


def _text(known: Question | None, answer: object) -> str:
    if known is not None and known.fits(answer):
        return known.text(answer)
    return str(answer)


def _cut(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + " …"


def _plain_cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    is_formula = isinstance(value, str) and value.startswith(tuple("=+-@\t\r"))
    return f"'{value}" if is_formula else value
