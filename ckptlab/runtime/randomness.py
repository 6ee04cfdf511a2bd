"""Where random numbers come from: PyTorch's generators, Python's and NumPy's.

A recomputation must draw what the first pass drew, and leave every generator as if it
had drawn nothing. Reading Python's or NumPy's state by their own functions takes longer
than a small checkpoint; both keep the state of a Mersenne twister, 624 words and a
position, in one piece of memory, which is read as it lies. Where it does not lie as
expected, the slow functions serve.
"""

import ctypes
import pickle
import random
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch

_WORDS = struct.Struct("@624I")
_INDEX = struct.Struct("@i")
_SIZE = _WORDS.size + _INDEX.size


class Source(Protocol):
    """Something that random numbers come from."""

    def read(self) -> Any:
        """Its state, which compares equal as long as nothing was drawn."""

    def write(self, state: Any) -> None:
        """Go back to a state."""


class TorchSource:
    """A generator of PyTorch, a device's default one or one of the user's."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def read(self) -> bytes:
        """The state as bytes."""
        return as_bytes(self._generator.get_state())

    def write(self, state: bytes) -> None:
        """Go back to a state."""
        copy = torch.frombuffer(bytearray(state), dtype=torch.uint8)
        self._generator.set_state(copy)


def as_bytes(state: torch.Tensor) -> bytes:
    """A generator's state, read without an operation, which others would see."""
    return ctypes.string_at(state.data_ptr(), state.numel())


class PythonSource:
    """The generator behind the functions of `random`."""

    def __init__(self) -> None:
        generator: Any = random._inst
        self._generator = generator
        # the C object: reference count and type, then index and words
        self._address = id(generator) + object.__basicsize__
        self._is_readable = (
            sys.implementation.name == "cpython"
            and self._full(ctypes.string_at(self._address, _SIZE), None)[1]
            == generator.getstate()[1]
        )

    def read(self) -> Any:
        """The state: as it lies in memory, and the cached normal number."""
        if self._is_readable:
            memory = ctypes.string_at(self._address, _SIZE)
            return memory, self._generator.gauss_next
        return self._generator.getstate()

    def write(self, state: Any) -> None:
        """Go back to a state."""
        self._generator.setstate(self._full(*state) if self._is_readable else state)

    @staticmethod
    def _full(memory: bytes, gauss: float | None) -> Any:
        [index] = _INDEX.unpack_from(memory)
        words = _WORDS.unpack_from(memory, _INDEX.size)
        return 3, (*words, index), gauss


class NumpySource:
    """The generator behind the functions of `numpy.random`.

    Its cached normal number does not lie with the rest. It comes only by drawing, so it
    is known while the rest stays as it was when nothing was cached.
    """

    def __init__(self) -> None:
        import numpy.random

        self._random = numpy.random
        self._generator: Any = None  # numpy.random can be given another
        self._address: int | None = None
        self._known: tuple[bytes, Any] | None = None

    def read(self) -> Any:
        """The state: as it lies in memory, and all of it."""
        generator = self._random.mtrand._rand._bit_generator
        if generator is not self._generator:
            is_twister = isinstance(generator, self._random.MT19937)
            self._address = generator.ctypes.state_address if is_twister else None
            self._generator, self._known = generator, None
        if self._address is None:
            return None, pickle.dumps(self._random.get_state(legacy=False))
        memory = ctypes.string_at(self._address, _SIZE)
        if self._known and self._known[0] == memory:
            return self._known
        full: Any = self._random.get_state()
        kind, words, position, has_gauss, gauss = full
        state = memory, (kind, words.tobytes(), position, has_gauss, gauss)
        self._known = None if has_gauss else state
        return state

    def write(self, state: Any) -> None:
        """Go back to a state."""
        import numpy

        memory, full = state
        if memory is None:
            self._random.set_state(pickle.loads(full))
            return
        kind, words, *rest = full
        self._random.set_state((kind, numpy.frombuffer(words, numpy.uint32), *rest))


class OwnSource:
    """A generator of Python or NumPy that the user has made."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], object]) -> None:
        self._read, self._write = read, write

    def read(self) -> bytes:
        """The state, pickled, which compares where it holds arrays."""
        return pickle.dumps(self._read())

    def write(self, state: bytes) -> None:
        """Go back to a state."""
        self._write(pickle.loads(state))


def default_sources(devices: Iterable[torch.device]) -> list[Source]:
    """What functions on those devices draw from unless they are given a generator."""
    found: list[Source] = [CPU, _PYTHON]
    if "numpy" in sys.modules:
        found.append(_numpy())
    for device in devices:
        if device.type == "cuda":
            found.append(TorchSource(torch.cuda.default_generators[device.index]))
    return found


def source_of(item: Any) -> Source | None:
    """A generator as a source; None for what is no generator."""
    if isinstance(item, _PLAIN):  # most of what anybody asks about
        return None
    if isinstance(item, torch.Generator):
        return TorchSource(item)
    if isinstance(item, random.Random):
        return OwnSource(item.getstate, item.setstate)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(item, numpy.random.RandomState):
            return OwnSource(item.get_state, item.set_state)
        if isinstance(item, numpy.random.Generator):
            bits = item.bit_generator
            return OwnSource(
                lambda: bits.state, lambda state: setattr(bits, "state", state)
            )
    return None


def _numpy() -> NumpySource:
    global _NUMPY
    if _NUMPY is None:
        _NUMPY = NumpySource()
    return _NUMPY


_PLAIN = (bool, int, float, str, tuple, list, torch.Tensor)
CPU = TorchSource(torch.default_generator)
_PYTHON = PythonSource()
_NUMPY: NumpySource | None = None
