"""Native draws are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest
from readers import choose_reader

from karat.files.native import native
from karat.statistics.draws import Draws

needs_native = pytest.mark.skipif(native() is None, reason="the native library is not compiled")
ENTROPIES = [[0, 3], [1, 3], [42, 3], [2**32, 3], [2**53, 3], [7], [0], [1, 2, 3, 4, 5, 6], [2**160 + 5, 2**40, 3]]


def drawn(entropy: list[int], *sizes: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    found, draws = [np.empty(size) for size in sizes], Draws(entropy)
    for part in found:
        draws.exponential(part)
    return np.concatenate(found)


@needs_native
@pytest.mark.parametrize("entropy", ENTROPIES)
def test_draws_are_those_of_numpy(entropy: list[int]) -> None:
    wanted = np.random.default_rng(entropy).standard_exponential(200_000)
    assert drawn(entropy, 200_000).tobytes() == wanted.tobytes()


@needs_native
@pytest.mark.parametrize("entropy", ENTROPIES)
@pytest.mark.parametrize("shape", [0.5, 0.1, 0.999])
def test_gamma_too(entropy: list[int], shape: float) -> None:
    found = np.empty((2, 100_000))
    Draws(entropy).gamma(shape, found)
    wanted = np.random.default_rng(entropy).standard_gamma(shape, (2, 100_000))
    assert found.tobytes() == wanted.tobytes()


@needs_native
def test_a_stream_continues() -> None:
    assert drawn([5, 3], 1, 0, 70_000, 29_999).tobytes() == drawn([5, 3], 100_000).tobytes()


@needs_native
def test_rare_draws_too() -> None:
    """The tail, and points between two layers."""
    wanted = np.random.default_rng([11, 3]).standard_exponential(5_000_000)
    assert wanted.max() > 12
    assert drawn([11, 3], 5_000_000).tobytes() == wanted.tobytes()


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    native_draws = drawn([9, 3], 1000)
    choose_reader(monkeypatch, "1")
    assert drawn([9, 3], 1000).tobytes() == native_draws.tobytes()


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Draws([-1, 3])
