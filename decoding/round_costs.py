"""What a round costs: milliseconds of a target's forward pass by nodes and context, and of a draft.

Measured once (`decoding.cost_probe`) and kept as small JSON files in the user's cache:

    <cache>/canopy/costs/<target>--<drafter>-<digest>.json

The digest stands for everything that the figures depend on: both models, the device, the dtype, threads and torch.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decoding.calibration import identity_digest, slug
from decoding.files import write_atomically
from decoding.user_cache import user_cache

VERSION = 9
"""Another one whenever rounds became faster or slower by our own doing: what was measured before holds no longer."""
MAX_BYTES = 1 << 20
Milliseconds = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RoundCosts:
    """A table that never falls with nodes nor with context, linear between its points."""

    contexts: tuple[int, ...]
    """Committed positions, rising."""
    nodes: tuple[int, ...]
    """Nodes of a forward pass, the root included, rising from 1."""
    verify_ms: Milliseconds
    """`[contexts, nodes]` compiling a tree, the forward pass over it, and reading its logits."""
    draft_ms: Milliseconds
    """`[contexts]` one draft, the reading of some tokens before it counted; 0 without a drafter."""
    beside_ms: float = 0.0
    """The rest of a round that plans a tree."""

    def __post_init__(self) -> None:
        for name in ("verify_ms", "draft_ms"):
            object.__setattr__(self, name, np.array(getattr(self, name), np.float64))
        for name in ("contexts", "nodes"):
            values = tuple(int(value) for value in getattr(self, name))
            object.__setattr__(self, name, values)
            if not values or list(values) != sorted(set(values)):
                raise ValueError(f"{name} must rise")
        if self.nodes[0] != 1 or self.contexts[0] < 0:
            raise ValueError("the first number of nodes is 1, and no context is below 0")
        shape = len(self.contexts), len(self.nodes)
        if self.verify_ms.shape != shape or self.draft_ms.shape != shape[:1]:
            raise ValueError("the costs must be [contexts, nodes] and [contexts]")
        if not (np.isfinite(self.verify_ms).all() and np.isfinite(self.draft_ms).all()):
            raise ValueError("costs must be finite")
        if (self.verify_ms <= 0).any() or (self.draft_ms < 0).any() or not 0 <= self.beside_ms < np.inf:
            raise ValueError("a forward pass takes time, and a draft not less than none")
        if (np.diff(self.verify_ms, axis=0) < 0).any() or (np.diff(self.verify_ms, axis=1) < 0).any():
            raise ValueError("the costs of a forward pass must not fall")

    @staticmethod
    def fitted(
        contexts: tuple[int, ...],
        nodes: tuple[int, ...],
        measured: ArrayLike,
        draft_ms: ArrayLike,
        beside_ms: float = 0.0,
    ) -> "RoundCosts":
        """The nearest table that never falls (least squares along nodes, then along contexts). Where more nodes were
        measured to take less time, as 8 rows do against 4 on some CPUs, both get the mean: a larger tree is never
        really cheaper, since a smaller one could be filled up to it."""
        along_nodes = [isotonic(row) for row in np.asarray(measured, np.float64)]
        # Isotonic regression keeps the order of its inputs, so the second pass does not undo the first.
        table = np.array([isotonic(column) for column in np.array(along_nodes).T]).T
        return RoundCosts(contexts, nodes, table, isotonic(np.asarray(draft_ms, np.float64)), beside_ms)

    @property
    def max_nodes(self) -> int:
        """Drafted nodes of the largest tree that was measured."""
        return self.nodes[-1] - 1

    def verify(self, context: int, drafted: int) -> Milliseconds:
        """`[drafted + 1]` milliseconds of trees with 0 to `drafted` nodes beside the root, at most `max_nodes`. Beyond
        the last context the slopes go on, below the first one that counts."""
        if drafted > self.max_nodes:
            raise ValueError(f"trees of {drafted} nodes were not measured, only those of up to {self.max_nodes}")
        row = np.array([_along(self.contexts, column, context) for column in self.verify_ms.T])
        row = np.maximum.accumulate(row)  # beyond the last context the columns rise by slopes of their own
        costs: Milliseconds = np.interp(np.arange(1, drafted + 2), self.nodes, row)
        return costs

    def draft(self, context: int) -> float:
        """Milliseconds of a draft."""
        return _along(self.contexts, self.draft_ms, context)

    def as_json(self) -> dict[str, Any]:
        return {
            "contexts": list(self.contexts),
            "nodes": list(self.nodes),
            "verify_ms": self.verify_ms.round(6).tolist(),
            "draft_ms": self.draft_ms.round(6).tolist(),
            "beside_ms": self.beside_ms,
        }


def isotonic(values: Milliseconds) -> Milliseconds:
    """The nearest sequence that never falls (pool adjacent violators). [1, 4, 2, 5] becomes [1, 3, 3, 5]."""
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2:] = [(means[-2] * sizes[-2] + means[-1] * sizes[-1]) / size]
            sizes[-2:] = [size]
    pooled: Milliseconds = np.repeat(means, sizes)
    # Adding up in another order can leave a last bit that falls.
    return np.maximum.accumulate(pooled) if len(pooled) else pooled


def _along(contexts: tuple[int, ...], values: Milliseconds, context: int) -> float:
    if len(contexts) > 1 and context > contexts[-1]:
        slope = (values[-1] - values[-2]) / (contexts[-1] - contexts[-2])
        return float(values[-1] + max(slope, 0.0) * (context - contexts[-1]))
    return float(np.interp(context, contexts, values))


@dataclass(frozen=True)
class CostKey:
    """What measured costs hold for."""

    target: str
    drafter: str
    """Its id, or `none`."""
    device: str
    dtype: str
    threads: int
    torch: str

    @property
    def path(self) -> Path:
        """Where the costs are kept."""
        circumstances = f"{self.device} {self.dtype} {self.threads} {self.torch}"
        digest = identity_digest(f"costs {circumstances}", self.target, self.drafter)
        return user_cache() / "costs" / f"{slug(self.target)}--{slug(self.drafter)}-{digest}.json"

    def save(self, costs: RoundCosts) -> None:
        """Writes the file in one step; raises OSError where it cannot."""
        content = {"version": VERSION, **self.__dict__, **costs.as_json()}
        write_atomically(self.path, json.dumps(content, indent=1, allow_nan=False))

    def load(self) -> RoundCosts | None:
        """What is kept; None where there is nothing or nothing that can be used: it is soon measured again."""
        try:
            if self.path.stat().st_size > MAX_BYTES:
                return None
            stored = json.loads(self.path.read_text(encoding="utf-8"))
            if stored["version"] != VERSION or any(stored[name] != value for name, value in self.__dict__.items()):
                return None
            return RoundCosts(*(stored[name] for name in ("contexts", "nodes", "verify_ms", "draft_ms", "beside_ms")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
