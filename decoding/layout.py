"""Tree + past length -> input ids, depth positions and the additive attention mask of one forward pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.kernels.visibility import tree_numbers
from decoding.tree_mask import TreeMask
from decoding.types import Ints, Tree

Windows = Sequence[int | None]
"""For each layer how many positions a node sees, itself included; None where it sees all."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Inputs of one forward pass, on the device."""

    input_ids: Tensor
    """`[1, nodes]` int64."""
    position_ids: Tensor
    """`[1, nodes]` int64: committed length + depth."""
    masks: dict[int | None, Tensor] | None
    """By attention window: additive `[1, 1, nodes, past + nodes]`, 0 or -inf. None where plain causal attention says
    the same, for which the models have faster kernels."""


def tree_layout(tree: Tree, past: int, windows: Windows, mask: TreeMask) -> Layout:
    """Every node sees the committed text, its ancestors and itself (DDTree, section 4.4); one copy to the device.

    The masks are views of `mask`'s buffer, good until its next use. With 2 committed positions and the tree
    root -> a, root -> b (parents [-1, 0, 0]): positions [2, 3, 3], and the rows of the mask see (.) and do not see (x)
    `...xx`, `....x`, `...x.`.
    """
    count = len(tree)
    numbers, deepest = tree_numbers(tree.token, tree.parent, past, mask.width)
    longest = past + int(deepest) + 1
    plain = count == 1 and _in_reach(windows, longest)
    ids, positions, places = _to_device(numbers, mask.device).split([count, count, len(numbers) - 2 * count])
    if plain:
        return Layout(ids[None], positions[None], None)
    full = mask.write(places, count, past)
    return Layout(ids[None], positions[None], _by_window(full, positions, positions, past, windows, longest))


def chain_layout(tokens: Ints, past: int, windows: Windows, device: torch.device, dtype: torch.dtype) -> Layout:
    """A piece of plain text behind `past` committed positions: each token sees all before it."""
    count = len(tokens)
    depth = np.arange(count, dtype=np.int32)
    return nodes_layout(tokens, depth, np.tri(count, dtype=np.bool_), past, windows, device, dtype)


def nodes_layout(
    tokens: Ints,
    depth: Ints,
    visible: NDArray[np.bool_],
    past: int,
    windows: Windows,
    device: torch.device,
    dtype: torch.dtype,
    earlier_depth: Ints | None = None,
) -> Layout:
    """The layout of nodes behind `past` positions that all of them see; one copy to the device.

    `visible` `[nodes, earlier + nodes]` says what each node sees of the nodes already in the cache behind `past`
    (their depths are `earlier_depth`; none by default) and of these nodes themselves.
    """
    count, columns = visible.shape
    longest = past + int(depth.max(initial=0)) + 1
    alone = count == 1 and bool(visible.all())
    chain = past == 0 and columns == count and bool((depth == np.arange(count)).all())
    plain = _in_reach(windows, longest) and (alone or chain)

    numbers = np.empty(2 * count + columns, np.int64)
    numbers[:count] = tokens
    numbers[count : 2 * count] = depth
    numbers[2 * count : columns + count] = () if earlier_depth is None else earlier_depth
    numbers[columns + count :] = depth
    numbers[count:] += past
    seen = visible[:0] if plain else visible
    buffer = _to_device(np.concatenate([numbers.view(np.uint8), seen.view(np.uint8).ravel()]), device)
    ids, positions, column_positions = buffer[: 8 * len(numbers)].view(torch.int64).split([count, count, columns])
    if plain:
        return Layout(ids[None], positions[None], None)
    full = torch.zeros((count, past + columns), dtype=dtype, device=device)
    full[:, past:].masked_fill_(~buffer[8 * len(numbers) :].view(torch.bool).view(count, columns), float("-inf"))
    masks = _by_window(full[None, None], positions, column_positions, past, windows, longest)
    return Layout(ids[None], positions[None], masks)


def _in_reach(windows: Windows, longest: int) -> bool:
    return all(window is None or longest <= window for window in windows)


def _to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def _by_window(
    full: Tensor, positions: Tensor, columns: Tensor, past: int, windows: Windows, longest: int
) -> dict[int | None, Tensor]:
    """The mask of every window that occurs; `columns` are the positions of what stands behind `past`."""
    masks: dict[int | None, Tensor] = {}
    for window in set(windows):
        if window is None or longest <= window:
            masks[window] = full
        else:
            places = torch.cat([torch.arange(past, device=full.device), columns])
            masks[window] = full.masked_fill(places[None, :] <= positions[:, None] - window, float("-inf"))
    return masks
