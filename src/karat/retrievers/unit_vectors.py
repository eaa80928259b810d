"""Vectors of length 1, so that their product is their cosine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def normalised(vectors: Vectors) -> Vectors:
    norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    units: Vectors = (vectors / norms).astype(np.float32)
    return units
