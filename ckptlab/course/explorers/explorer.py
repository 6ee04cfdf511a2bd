"""What every explorer is made of: controls, a picture, and a sentence about it.

The browser sends what is chosen, and a number that rises; the kernel draws and sends
the number back. Until then the browser holds further choices, and sends only the last
of them: a drag over twenty values asks for two or three pictures, and no old picture
ever follows a new one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import traitlets

from ckptlab.course.card import Card
from ckptlab.course.markup import escape

Chosen = dict[str, Any]
Draw = Callable[[Chosen], tuple[str, str]]
"""What is chosen, by name -> SVG, and one sentence in words that says what it shows."""


@dataclass(frozen=True)
class Control:
    """One thing to choose.

    Attributes:
        name: by which `draw` knows it.
        label: what it is, with its unit unless the texts carry it.
        values: what there is to choose from, in order; JSON holds them.
        start: one of them.
        texts: the values in words; the numbers themselves unless told.
        kind: "slider", "steps" (a slider with buttons for back and next), "choice"
            (a list to pick from), or "switch" (on or off: two values, off first).
    """

    name: str
    label: str
    values: Sequence[Any]
    start: Any
    texts: Sequence[str] = ()
    kind: str = "slider"

    def form(self) -> dict[str, Any]:
        """What the browser needs to draw it."""
        return {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "values": list(self.values),
            "start": self.start,
            "texts": list(self.texts) or [_text(value) for value in self.values],
        }


class Explorer(Card):
    """Controls, a picture, and one sentence that says what it shows.

    Attributes:
        chosen: control -> value, as drawn.
        picture: SVG.
        summary: plain text.
        answered: the number of the last message that was drawn.
    """

    controls: Any = traitlets.List().tag(sync=True)
    picture = traitlets.Unicode().tag(sync=True)
    summary = traitlets.Unicode().tag(sync=True)
    answered = traitlets.Int().tag(sync=True)

    def __init__(
        self, draw: Draw, *, controls: Sequence[Control], twin: str = ""
    ) -> None:
        super().__init__(
            kind="explorer", controls=[control.form() for control in controls]
        )
        self._draw = draw
        self._values = {control.name: list(control.values) for control in controls}
        self._twin = twin
        self.chosen: Chosen = {control.name: control.start for control in controls}
        self.choose()
        self._start = self.summary
        self.on_msg(self._receive)

    def choose(self, **chosen: Any) -> None:
        """Set some of the controls and draw, as the browser does.

        Values that a control does not have are left out.
        """
        known = self._values
        fitting = {n: v for n, v in chosen.items() if n in known and v in known[n]}
        self.chosen = {**self.chosen, **fitting}
        try:
            picture, summary = self._draw(dict(self.chosen))
        except Exception as error:  # shown where the learner looks, not in a log
            self.summary = f"This could not be drawn: {error}"
            return
        self.picture, self.summary = picture, summary

    def twin_html(self) -> str:
        return f"<p>{escape(self._start)}</p>\n{self._twin}".rstrip()

    def twin_text(self) -> str:
        return self._start

    def _receive(self, _: object, content: Any, __: object) -> None:
        asked = content if isinstance(content, Mapping) else {}
        chosen, number = asked.get("chosen"), asked.get("number")
        with self.hold_sync():  # one message, so that picture and words fit together
            self.choose(**(chosen if isinstance(chosen, dict) else {}))
            self.answered = number if type(number) is int else self.answered


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
