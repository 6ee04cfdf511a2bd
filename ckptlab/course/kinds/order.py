"""Put events in their order.

kind = "order"
answer = ["b", "a", "c"]      ids of all items, in the right order
[[question.item]]             at least two, in the order in which they are shown
id, text
feedback                      why it belongs where it does; said of the first item
                              that is out of place
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

from ckptlab.course.kinds.question import Answer, Comparison, Question
from ckptlab.course.markup import to_html, to_text
from ckptlab.course.toml_table import Table
from ckptlab.errors import AnswerError


@dataclass(frozen=True)
class Item:
    """One thing to be put in its place."""

    id: str
    text: str
    feedback: str


@dataclass(frozen=True)
class OrderQuestion(Question):
    """Items to be put in order; `order` holds their ids as they should stand."""

    items: tuple[Item, ...]
    order: tuple[str, ...]

    kind = "order"

    @classmethod
    def load(cls, table: Table, common: dict[str, Any]) -> Self:
        """See the head of this file."""
        order = table.texts("answer")
        items = []
        for part in table.parts("item"):
            items.append(
                Item(part.text("id"), part.text("text"), part.template("feedback"))
            )
            part.done()
        ids = [item.id for item in items]
        if sorted(order) != sorted(ids):
            raise table.fault(
                "answer", f"is {list(order)}; write each of {ids} once, in their order"
            )
        if list(order) == ids:
            raise table.fault(
                "item", "stands in the right order already; list them in another"
            )
        return cls(**common, items=tuple(items), order=order)

    def read(self, typed: object) -> Answer:
        if self.fits(typed):
            return list(typed)  # type: ignore[call-overload,no-any-return]
        raise AnswerError("put every item in its place, each of them once")

    def fits(self, answer: object) -> bool:
        return (
            isinstance(answer, list)
            and len(answer) == len(self.order)
            and all(one in answer for one in self.order)
        )

    def text(self, answer: Any) -> str:
        texts = {item.id: to_text(item.text) for item in self.items}
        return "; ".join(
            f"{place}. {texts.get(one, one)}" for place, one in enumerate(answer, 1)
        )

    @property
    def key(self) -> Answer:
        return list(self.order)

    def agree(self, measured: object) -> Answer | None:
        is_list = isinstance(measured, (list, tuple))
        return self.key if is_list and tuple(measured) == self.order else None  # type: ignore[arg-type]

    def compare(self, answer: Any, measured: Any) -> Comparison:
        n_swaps = sum(
            answer.index(one) > answer.index(other)
            for one, other in combinations(measured, 2)
        )
        if n_swaps == 0:
            return Comparison("right", "Your prediction holds.")
        first = next(
            right for mine, right in zip(answer, measured, strict=True) if mine != right
        )
        told = next(item for item in self.items if item.id == first)
        n_pairs = len(measured) * (len(measured) - 1) // 2
        return Comparison(
            outcome="near" if n_swaps == 1 else "wrong",
            sentence="Two neighbours stand the wrong way round."
            if n_swaps == 1
            else f"{n_swaps} of {n_pairs} pairs stand the wrong way round.",
            feedback=(told.feedback,),
        )

    def form(self) -> dict[str, Any]:
        return {
            "items": [
                {
                    "id": item.id,
                    "html": to_html(item.text),
                    "text": to_text(item.text),
                }
                for item in self.items
            ]
        }

    def options_html(self) -> str:
        items = "".join(f"<li>{to_html(item.text)}</li>" for item in self.items)
        return f"<ul>{items}</ul>"

    def remarks(self) -> list[tuple[str, str]]:
        return [(to_text(item.text), item.feedback) for item in self.items]
