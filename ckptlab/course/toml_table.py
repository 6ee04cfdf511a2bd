"""One table of a question bank, which says where it stands when something is wrong.

Whoever reads a table asks for each key by its type, and calls `done` at the end: a
key that nobody asked for is a misspelt one, and a misspelt key is a lost sentence.
"""

import string
from math import isfinite
from typing import Any, cast

from ckptlab.errors import QuestionError


def placeholders(text: str) -> set[str]:
    """Names of the values that a text asks for, such as {"measured"}.

    Raises:
        ValueError: a brace that stands alone, or a placeholder that is no bare name.
    """
    names = set()
    for _, name, form, conversion in string.Formatter().parse(text):
        if name is not None:
            if form or conversion or not name.isidentifier():
                raise ValueError(f"{name!r} is not a bare name such as {{measured}}")
            names.add(name)
    return names


class Table:
    """Values by key; every fault is a QuestionError with file, question and key.

    Attributes:
        where: file and question, as a reader of the message would look for them.
    """

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self._content = content
        self._read: set[str] = set()
        self.where = where

    def peek(self, key: str) -> object:
        """Whatever stands there, or None; it still has to be read."""
        return self._content.get(key)

    def fault(self, key: str, what: str) -> QuestionError:
        """The error to raise over a key."""
        return QuestionError(f"{self.where}, key {key!r}: {what}")

    def text(self, key: str, default: str | None = None) -> str:
        """A plain text that is not empty."""
        if default is not None and not self._has(key):
            return default
        value = self._get(key, str, "a text")
        if not value.strip():
            raise self.fault(key, "is empty; write something")
        return cast(str, value)

    def template(self, key: str) -> str:
        """A text that may hold placeholders."""
        value = self.text(key)
        try:
            placeholders(value)
        except ValueError as error:
            raise self.fault(
                key, f"has a bad placeholder ({error}); double a bare brace"
            ) from None
        return value

    def one_of(
        self, key: str, allowed: tuple[str, ...], default: str | None = None
    ) -> str:
        """A text out of a few."""
        value = self.text(key, default)
        if value not in allowed:
            raise self.fault(key, f"is {value!r}; use one of {', '.join(allowed)}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        if default is not None and not self._has(key):
            return default
        value = self._get(key, (int, float), "a number")
        if isinstance(value, bool):
            raise self.fault(key, "is true or false; write a number")
        if not _is_finite(value):
            raise self.fault(key, f"is {value}; write a finite number")
        return cast(float, value)

    def flag(self, key: str) -> bool:
        """True or false; false where the key is missing."""
        return self._has(key) and cast(bool, self._get(key, bool, "true or false"))

    def texts(self, key: str, *, required: bool = True) -> tuple[str, ...]:
        """A list of texts, all different."""
        if not required and not self._has(key):
            return ()
        values = self._get(key, list, "a list of texts")
        if not all(isinstance(value, str) for value in values) or len(
            set(values)
        ) < len(values):
            raise self.fault(key, f"is {values}; write texts, all different")
        return tuple(values)

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        values = self._get(key, list, "a list of numbers")
        are_numbers = all(
            isinstance(v, (int, float)) and not isinstance(v, bool) and _is_finite(v)
            for v in values
        )
        if not are_numbers:
            raise self.fault(key, f"is {values}; write finite numbers")
        return tuple(map(float, values))

    def tables(self, key: str, *, required: bool = True) -> "list[Table]":
        """The tables of a list, each begun by [[key]]."""
        if not required and not self._has(key):
            return []
        values = self._get(key, list, f"a list of tables, [[{key}]]")
        if not all(isinstance(value, dict) for value in values):
            raise self.fault(key, f"must hold tables, each begun by [[{key}]]")
        return [Table(value, self.where) for value in values]

    def parts(self, key: str) -> "list[Table]":
        """Tables of a list, at least two of them, with ids that all differ."""
        tables = self.tables(key)
        ids = [table.peek("id") for table in tables]
        if len(ids) < 2 or any(ids.count(one) > 1 for one in ids):
            raise self.fault(
                key, f"has the ids {ids}; give at least two, all different"
            )
        for table in tables:
            table.where = f"{self.where}, {key} {table.peek('id')!r}"
        return tables

    def done(self) -> None:
        """Refuse whatever was not read."""
        for key in self._content:
            if key not in self._read:
                raise self.fault(
                    key, f"is not known here; known are {', '.join(sorted(self._read))}"
                )

    def _has(self, key: str) -> bool:
        self._read.add(key)
        return key in self._content

    def _get(self, key: str, kind: type | tuple[type, ...], wanted: str) -> Any:
        if not self._has(key):
            raise self.fault(key, f"is missing; write {wanted}")
        value = self._content[key]
        if not isinstance(value, kind):
            raise self.fault(key, f"is {value!r}; write {wanted}")
        return value


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False
