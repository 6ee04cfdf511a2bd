"""The lesson that is open: its bank, the learner's progress, the cards on the screen.

A notebook is one learner in one lesson. What happens to a question is an event in the
progress file; then every card of that question draws itself anew from the record, so
that two cards never disagree.
"""

import weakref
from collections import defaultdict
from typing import Any

import traitlets

from ckptlab.course.card import Card
from ckptlab.course.kinds import Question
from ckptlab.course.progress import ProgressFile, progress_path
from ckptlab.course.questions import Bank
from ckptlab.course.record import Event, Record
from ckptlab.errors import AnswerError, UnknownQuestionError


class Session:
    """What the cards of one notebook share.

    Attributes:
        bank: of the lesson that is open, or None.
        progress: what the learner has answered.
    """

    def __init__(self) -> None:
        self.bank: Bank | None = None
        self.progress = ProgressFile()
        self._cards: dict[tuple[str, str], weakref.WeakSet[QuestionCard]] = defaultdict(
            weakref.WeakSet
        )

    def open(self, bank: Bank) -> None:
        """Make a bank the open lesson; cards that are on the screen live on."""
        self.bank = bank
        if self.progress.path != progress_path():
            self.progress = ProgressFile()
        # else it may hold answers that the disk has refused so far
        self.progress.fits = self._fits

    def question(self, question_id: str) -> tuple[Bank, Question]:
        """A question of the open lesson.

        Raises:
            UnknownQuestionError: no lesson is open, or it has no such question.
        """
        if self.bank is None:
            raise UnknownQuestionError(
                'no lesson is open; run its first cell, lesson("…"), before this one'
            )
        return self.bank, self.bank.question(question_id)

    def watch(self, card: "QuestionCard") -> None:
        """Draw a card anew whenever something happens to its question."""
        self._cards[card.place].add(card)

    def happen(self, lesson: str, question: str, event: str, **details: Any) -> None:
        """Keep an event, and draw the cards of its question anew."""
        self.progress.add(Event(lesson, question, event, **details))
        for card in list(self._cards[lesson, question]):
            card.refresh()

    def redraw(self) -> None:
        """Draw every card anew, for everything may have changed."""
        for cards in list(self._cards.values()):
            for card in list(cards):
                card.refresh()

    def _fits(self, lesson: str, question: str, answer: object) -> bool:
        if self.bank is None or lesson != self.bank.lesson:
            return True
        known = self.bank.questions.get(question)
        return known is None or known.fits(answer)


SESSION = Session()
"""This notebook's."""


class QuestionCard(Card):
    """A card of one question; `state` is a view of its record, and nothing else.

    Attributes:
        place: the lesson and the id of its question.
        state: what the browser draws.
        error: why the last message was refused, plain text.
        n_replies: messages of the browser that are done with.
    """

    question_id = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode().tag(sync=True)
    n_replies = traitlets.Int().tag(sync=True)

    def __init__(self, bank: Bank, question: Question, **traits: Any) -> None:
        super().__init__(question_id=question.id, **traits)
        self.place = (bank.lesson, question.id)
        self.question = question
        SESSION.watch(self)
        self.on_msg(self._receive)

    @property
    def record(self) -> Record:
        """What the learner did with this question so far."""
        return SESSION.progress.record(*self.place)

    def refresh(self) -> None:
        """Set `state` from the record."""
        raise NotImplementedError

    def act(self, content: dict[str, Any]) -> None:
        """Do what the browser asks for.

        Raises:
            AnswerError: it cannot be done; the message is for the learner.
        """
        raise NotImplementedError

    def _happen(self, event: str, **details: Any) -> None:
        self.error = ""
        SESSION.happen(*self.place, event, **details)

    def _receive(self, _: object, content: Any, __: object) -> None:
        try:
            self.error = ""
            self.act(content if isinstance(content, dict) else {})
        except AnswerError as error:
            self.error = str(error)
        self.n_replies += 1
