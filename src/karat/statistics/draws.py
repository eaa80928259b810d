"""Draws from the exponential and the gamma distribution, without loading `numpy.random` where that is possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from karat.files.native import native
from karat.statistics.sums import Floats

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = 32  # bits


class Draws:
    """The draws of `np.random.default_rng(entropy)`. The native library makes the same ones, since loading
    `numpy.random` takes longer than many evaluations."""

    def __init__(self, entropy: list[int]) -> None:
        self._state: NDArray[np.uint64] | None = _native_state(entropy)
        self._rng = None if self._state is not None else np.random.default_rng(entropy)

    def exponential(self, found: Floats) -> None:
        """Replace the values of an array, in its order, with the next draws."""
        if self._rng is not None:
            self._rng.standard_exponential(out=found)
        elif self._state is not None:
            native().karat_exponential(self._state.ctypes.data, found.size, found.ctypes.data)

    def gamma(self, shape: float, found: Floats) -> None:
        """The same from the gamma distribution, for a shape under 1."""
        if self._rng is not None:
            self._rng.standard_gamma(shape, out=found)
        elif self._state is not None:
            native().karat_gamma(self._state.ctypes.data, shape, found.size, found.ctypes.data)


def _native_state(entropy: list[int]) -> NDArray[np.uint64] | None:
    """The state of the native generator; None without the library."""
    library = native()
    if library is None or min(entropy) < 0:  # numpy says what is wrong
        return None
    words = np.array([word for number in entropy for word in _words(number)], np.uint32)
    state = np.empty(4, np.uint64)
    return None if library.karat_seed(words.ctypes.data, len(words), state.ctypes.data) else state


def _words(number: int) -> Iterator[int]:
    """A number in words, the lowest first."""
    yield number & (1 << _WORD) - 1
    while number := number >> _WORD:
        yield number & (1 << _WORD) - 1
