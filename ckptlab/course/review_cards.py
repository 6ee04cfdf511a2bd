"""The cards of a review, one pair below the other, in this learner's own order."""

from collections.abc import Mapping, Sequence
from typing import Any

import ipywidgets

from ckptlab.course.card import WIDGET_VIEW
from ckptlab.course.prediction_card import PredictionCard
from ckptlab.course.reveal_card import RevealCard

Pair = tuple[PredictionCard, RevealCard]


class ReviewCards(ipywidgets.VBox):  # type: ignore[misc]
    """Predictions, each with its reveal below it; the twin has the bank's order.

    Attributes:
        order: ids of the questions, as they stand on the screen.
    """

    def __init__(self, cards: Mapping[str, Pair], order: Sequence[str]) -> None:
        super().__init__([card for question in order for card in cards[question]])
        self.order = list(order)
        self._cards = [card for pair in cards.values() for card in pair]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            "text/plain": "\n".join(card.twin_text() for card in self._cards),
            "text/html": "\n".join(card.twin_html() for card in self._cards),
            WIDGET_VIEW: {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.model_id,
            },
        }
