"""What a learner did with one question, event by event.

    predicted      the prediction; the first one stands
    hint           a hint was opened, before the prediction
    shown          the answer was opened without a prediction
    revealed       the prediction, or the second try, met the measurement
    tried again    the second try, once the answer was open
    marked         a reflection, judged by the learner

`Record.after` is the single truth about what may follow what.
"""

from dataclasses import dataclass, replace
from typing import Any, cast, get_args

from ckptlab.course.kinds.question import Answer, Outcome

EVENTS = ("predicted", "hint", "shown", "revealed", "tried again", "marked")


@dataclass(frozen=True)
class Event:
    """One thing that a learner did.

    Attributes:
        lesson, question: with which question.
        event: one of EVENTS.
        answer: of "predicted" and "tried again"; the number of a hint; the criteria
            that a reflection is said to meet.
        confidence: of "predicted", in percent, where the question asks for it.
        outcome: of "revealed" and "marked".
        time: when, ISO 8601, UTC.
    """

    lesson: str
    question: str
    event: str
    answer: Answer | None = None
    confidence: int | None = None
    outcome: Outcome | None = None
    time: str = ""

    @staticmethod
    def read(content: Any) -> "Event":
        """An event from the content of a file that anybody may have edited.

        Raises:
            ValueError, TypeError: it is none.
        """
        event = Event(**content)
        texts = (event.lesson, event.question, event.time)
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("lesson, question and time must be texts")
        if event.event not in EVENTS:
            raise ValueError(f"no event is called {event.event!r}")
        if not _is_answer(event.answer):
            raise ValueError("the answer must be a text, a number, or a list of them")
        if event.answer is None and event.event in ("predicted", "tried again"):
            raise ValueError(f"{event.event!r} needs an answer")
        if event.confidence is not None and (
            type(event.confidence) is not int or not 0 <= event.confidence <= 100
        ):
            raise ValueError("the confidence must be in percent")
        if event.outcome not in (None, *get_args(Outcome)):
            raise ValueError(f"no outcome is called {event.outcome!r}")
        return event


@dataclass(frozen=True)
class Record:
    """What came of the events of one question.

    Attributes:
        prediction: the event that holds it, or None.
        outcome: how right it was; None until it is revealed (or judged).
        was_revealed: whether the prediction met the measurement.
        was_shown: whether the answer was opened without a prediction.
        n_hints: hints opened before the prediction.
        second_try, second_outcome: the same for the second try.
        met: criteria that the learner says a reflection meets; None until judged.
    """

    prediction: Event | None = None
    outcome: Outcome | None = None
    was_revealed: bool = False
    was_shown: bool = False
    n_hints: int = 0
    second_try: Event | None = None
    second_outcome: Outcome | None = None
    met: tuple[str, ...] | None = None

    @property
    def is_untouched(self) -> bool:
        """Whether a prediction can still be made."""
        return self.prediction is None and not self.was_shown

    @property
    def is_open(self) -> bool:
        """Whether the learner has seen the answer."""
        return self.was_revealed or self.was_shown

    def after(self, event: Event) -> "Record":
        """The record with an event added; the same where the event cannot follow."""
        match event.event:
            case "predicted" if self.is_untouched:
                return replace(self, prediction=event)
            case "hint" if self.is_untouched and event.answer == self.n_hints + 1:
                return replace(self, n_hints=self.n_hints + 1)
            case "shown" if self.is_untouched:
                return replace(self, was_shown=True)
            case "revealed" if self.prediction and not self.was_revealed:
                outcome = event.outcome or self.outcome  # it may be judged already
                return replace(self, was_revealed=True, outcome=outcome)
            case "revealed" if self.second_try and self.second_outcome is None:
                return replace(self, second_outcome=event.outcome)
            case "tried again" if self.is_open and self.second_try is None:
                return replace(self, second_try=event)
            case "marked" if self.prediction and isinstance(event.answer, list):
                met = tuple(cast(list[str], event.answer))
                return replace(self, met=met, outcome=event.outcome)
        return self


def _is_answer(value: object) -> bool:
    if isinstance(value, list):
        return all(
            isinstance(one, (str, int, float)) and _is_answer(one) for one in value
        )
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and -1e300 < value < 1e300
    return value is None or isinstance(value, str)
