"""What every card on the screen shares: a widget that has a static twin.

Where widgets run, a viewer shows the widget; where they do not (GitHub, nbviewer,
print), the twin, which is the same for everybody: no answers, no machine. A saved
lesson holds the twin alone, so that the same run saves the same notebook.

The browser's part of the cards is in `assets/`. Ipywidgets' own radio buttons have
no group name, no fieldset and no live region; anywidget lets the cards be plain
HTML forms, which a keyboard and a screen reader know.
"""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

_ASSETS = Path(__file__).parent / "assets"
# one module for the browser: anywidget takes no imports between files
_SCRIPTS = (
    "card.js",
    "forms.js",
    "chart.js",
    "prediction.js",
    "reveal.js",
    "progress.js",
    "explorer.js",
)
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


class Card(anywidget.AnyWidget):
    """A widget whose `twin` shows where widgets cannot.

    Attributes:
        kind: which of the functions in `assets/` draws it.
    """

    _esm = "\n".join(map(_asset, _SCRIPTS))
    _css = _asset("card.css")
    kind = traitlets.Unicode().tag(sync=True)

    def twin_html(self) -> str:
        """The static twin, safe HTML."""
        raise NotImplementedError

    def twin_text(self) -> str:
        """One plain line, for viewers without HTML."""
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:  # type: ignore[override]
        return {
            "text/plain": self.twin_text(),
            "text/html": self.twin_html(),
            WIDGET_VIEW: {
                "version_major": 2,
                "version_minor": 0,
                "model_id": self.model_id,
            },
        }


class HtmlCard(Card):
    """A card that shows `live_html` where widgets run, and its twin elsewhere."""

    live_html = traitlets.Unicode().tag(sync=True)

    def __init__(self, *, live_html: str, twin_html: str, twin_text: str) -> None:
        super().__init__(kind="html", live_html=live_html)
        self._twin_html = twin_html
        self._twin_text = twin_text

    def twin_html(self) -> str:
        return self._twin_html

    def twin_text(self) -> str:
        return self._twin_text
