"""Tree + past length -> input ids, depth positions and the additive attention mask of one forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.tree import ancestors, depths
from decoding.types import Ints, Tree


@dataclass(frozen=True, eq=False)
class Layout:
    """Inputs of one forward pass, on the device."""

    input_ids: Tensor
    """`[1, nodes]` int64."""
    position_ids: Tensor
    """`[1, nodes]` int64: committed length + depth."""
    masks: dict[int | None, Tensor] | None
    """By attention window (None sees everything): additive `[1, 1, nodes, past + nodes]`, 0 or -inf.
    None where plain causal attention says the same and the model needs no mask."""


def tree_layout(
    tree: Tree, past: int, windows: Sequence[int | None], device: torch.device, dtype: torch.dtype
) -> Layout:
    """Every node sees the committed text, its ancestors and itself (DDTree, section 4.4)."""
    return nodes_layout(tree.token, depths(tree.parent), ancestors(tree.parent), past, windows, device, dtype)


def chain_layout(
    tokens: Ints, past: int, windows: Sequence[int | None], device: torch.device, dtype: torch.dtype
) -> Layout:
    """A piece of plain text behind `past` committed positions: each token sees all before it."""
    count = len(tokens)
    depth = np.arange(count, dtype=np.int32)
    return nodes_layout(tokens, depth, np.tri(count, dtype=np.bool_), past, windows, device, dtype)


def nodes_layout(
    tokens: Ints,
    depth: Ints,
    visible: NDArray[np.bool_],
    past: int,
    windows: Sequence[int | None],
    device: torch.device,
    dtype: torch.dtype,
    earlier_depth: Ints | None = None,
) -> Layout:
    """The layout of nodes behind `past` positions that all of them see; one copy to the device.

    `visible` `[nodes, earlier + nodes]` says what each node sees of the nodes already in the cache behind `past`
    (their depths are `earlier_depth`; none by default) and of these nodes themselves.

    With 2 committed positions and the tree root -> a, root -> b (parents [-1, 0, 0]):
    positions [2, 3, 3] and the mask rows (. seen, x hidden) `..`+`.xx`, `..`+`..x`, `..`+`.x.`.
    """
    count, columns = visible.shape
    longest = past + int(depth.max(initial=0)) + 1
    in_reach = all(window is None or longest <= window for window in windows)
    # Without a mask the models apply plain causal attention, with the fastest kernels that they have.
    alone = count == 1 and bool(visible.all())
    chain = past == 0 and columns == count and bool((depth == np.arange(count)).all())
    plain = in_reach and (alone or chain)

    numbers = np.empty(2 * count + columns, np.int64)
    numbers[:count] = tokens
    numbers[count : 2 * count] = depth
    numbers[2 * count : columns + count] = () if earlier_depth is None else earlier_depth
    numbers[columns + count :] = depth
    numbers[count:] += past
    packed = (
        numbers.view(np.uint8) if plain else np.concatenate([numbers.view(np.uint8), visible.view(np.uint8).ravel()])
    )
    buffer = torch.from_numpy(packed)
    if device.type == "cuda":
        buffer = buffer.pin_memory().to(device, non_blocking=True)
    ids, positions, column_positions = buffer[: 8 * len(numbers)].view(torch.int64).split([count, count, columns])
    if plain:
        return Layout(ids[None], positions[None], None)

    seen = buffer[8 * len(numbers) :].view(torch.bool).view(count, columns)
    full = _additive_mask(seen, past, dtype)
    masks = {
        window: full
        if window is None or longest <= window
        else _windowed(full, positions, column_positions, past, window)
        for window in set(windows)
    }
    return Layout(ids[None], positions[None], masks)


def _additive_mask(seen: Tensor, past: int, dtype: torch.dtype) -> Tensor:
    """`[1, 1, nodes, past + columns]`: the committed text in full, then the nodes as far as `seen`."""
    count, columns = seen.shape
    # Rows start at multiples of 8 entries, which is what the memory-efficient CUDA kernel asks for.
    width = -(-(past + columns) // 8) * 8
    mask = torch.zeros((count, width), dtype=dtype, device=seen.device)[:, : past + columns]
    mask[:, past:].masked_fill_(~seen, float("-inf"))
    return mask[None, None]


def _windowed(full: Tensor, positions: Tensor, column_positions: Tensor, past: int, window: int) -> Tensor:
    """Hides what lies `window` or more positions behind each node."""
    columns = torch.cat([torch.arange(past, device=positions.device), column_positions])
    return full.masked_fill(columns[None, :] <= positions[:, None] - window, float("-inf"))
