"""Markdown of the question bank, and plain values, to safe HTML.

Authors write Markdown without raw HTML; whatever a learner typed passes `escape`.
The static twins use only tags that viewers such as GitHub keep: no style, no script.
"""

import re
from collections.abc import Iterable
from html import escape, unescape
from typing import cast

import mistune

__all__ = ["definitions", "details", "escape", "table", "to_html", "to_text"]

_markdown = mistune.create_markdown(escape=True)


def to_html(markdown: str) -> str:
    """HTML of a Markdown text; tags in it come out as text."""
    return cast(str, _markdown(markdown)).strip()


def to_text(markdown: str) -> str:
    """Plain text of a Markdown text, for places that show no markup."""
    return unescape(re.sub(r"<[^>]+>", "", to_html(markdown))).strip()


def details(summary: str, body_html: str) -> str:
    """A closed section that opens on its summary line (plain text)."""
    return f"<details><summary>{escape(summary)}</summary>\n{body_html}\n</details>"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """An HTML table of plain texts; the first cell of each row is its heading."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    return (
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>"
        + "\n".join(body)
        + "</tbody></table>"
    )


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """An HTML list of names and plain texts; each text keeps its own direction."""
    pairs = "".join(
        f"<dt>{escape(name)}</dt><dd><bdi>{escape(text)}</bdi></dd>"
        for name, text in rows
    )
    return f"<dl>{pairs}</dl>"
