"""One small function that every backend may share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def cosine_similarity(
    left: Sequence[float] | NDArray[np.floating], right: Sequence[float] | NDArray[np.floating]
) -> float:
    """The cosine of the angle between two vectors, from -1 to 1.

    0 when the lengths differ, either is empty, or either has zero norm.
    """
    a, b = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if a.shape != b.shape or a.size == 0:
        return 0.0
    norms = float(np.linalg.norm(a)) * float(np.linalg.norm(b))
    return float(a @ b) / norms if norms else 0.0
