"""What the drafters learn from: the target's hidden states at every position of the corpus.

`FeatureStore` keeps them on disk: `features.bin` is float16 `[tokens, taps * hidden]` (taps in the order given),
`final.bin` float16 `[tokens, hidden]`: the states that the target's head reads, which are its distribution after every
token in a hundredth of the room. `store.json` is written last: a folder without it is not finished and is made again
from where it stopped. `LiveFeatures` runs the target whenever they are asked for: on a GPU that takes less time than a
training step, and the features of a large corpus (7 kB a token) would fill the disk.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from decoding.errors import BadRequest
from decoding.files import write_atomically
from decoding.target import Target
from decoding.training.continuations import token_batches
from decoding.training.corpus import Example

Halves = np.memmap[Any, np.dtype[np.float16]]
FLUSH_EVERY = 10
"""Batches; an interruption costs at most so many."""


class Features(Protocol):
    """Where the features of a corpus come from."""

    def padded(self, indices: Sequence[int], taps: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Float32 features `[examples, tokens, len(taps) * hidden]` and final states `[examples, tokens, hidden]`.

        Examples stand side by side; what lies behind the end of the shorter ones means nothing.
        """


class LiveFeatures:
    """The target itself."""

    def __init__(self, target: Target, examples: Sequence[Example]) -> None:
        self.target, self.examples = target, examples

    @torch.no_grad()
    def padded(self, indices: Sequence[int], taps: Sequence[int]) -> tuple[Tensor, Tensor]:
        """As `Features.padded`, on the target's device."""
        tapped, final = _read(self.target, [self.examples[i] for i in indices], taps)
        return tapped.float(), final.float()


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """Features of a corpus, mapped from disk."""

    taps: tuple[int, ...]
    hidden: int
    start: np.ndarray[Any, np.dtype[np.int64]]
    """`[examples + 1]` where each example's tokens begin."""
    features: Halves
    final: Halves

    def of(self, example: int, taps: Sequence[int]) -> Tensor:
        """Float16 `[tokens, len(taps) * hidden]` of one example, for a part of the stored taps."""
        rows = np.array(self.features[self.start[example] : self.start[example + 1]])
        columns = [self.taps.index(tap) for tap in taps]
        return torch.from_numpy(rows.reshape(len(rows), -1, self.hidden)[:, columns].reshape(len(rows), -1))

    def final_of(self, example: int) -> Tensor:
        """Float16 `[tokens, hidden]`: the final states of one example."""
        return torch.from_numpy(np.array(self.final[self.start[example] : self.start[example + 1]]))

    def padded(self, indices: Sequence[int], taps: Sequence[int]) -> tuple[Tensor, Tensor]:
        """As `Features.padded`, on the host, with zeros behind the end."""
        return _side_by_side([(self, index) for index in indices], taps)


class JoinedFeatures:
    """Several stores as one: a corpus that grows by a file keeps the features of the others."""

    def __init__(self, stores: Sequence[FeatureStore], places: Sequence[tuple[int, int]]) -> None:
        """`places` says for every example in which store it is, and which of its examples."""
        self.stores, self.places = stores, places

    def padded(self, indices: Sequence[int], taps: Sequence[int]) -> tuple[Tensor, Tensor]:
        """As `Features.padded`, on the host, with zeros behind the end."""
        places = (self.places[index] for index in indices)
        return _side_by_side([(self.stores[store], at) for store, at in places], taps)


def _side_by_side(found: Sequence[tuple[FeatureStore, int]], taps: Sequence[int]) -> tuple[Tensor, Tensor]:
    final = pad_sequence([store.final_of(at).float() for store, at in found], batch_first=True)
    if not taps:
        return final[..., :0], final
    return pad_sequence([store.of(at, taps).float() for store, at in found], batch_first=True), final


def _read(target: Target, examples: Sequence[Example], taps: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Tapped and final states `[examples, tokens, ...]` in the target's dtype."""
    ids = pad_sequence([torch.tensor(example.tokens) for example in examples], batch_first=True).to(target.device)
    # Padding stands on the right, where no earlier position sees it: causal attention needs no mask.
    output = target.body(input_ids=ids, use_cache=False, output_hidden_states=list(taps) or False)
    final: Tensor = output.last_hidden_state
    return torch.cat([output.hidden_states[tap] for tap in taps], dim=-1) if taps else final[..., :0], final


def open_features(folder: Path) -> FeatureStore:
    """A finished store; raises BadRequest where there is none."""
    try:
        about = json.loads((folder / "store.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BadRequest(f"{folder} holds no finished features.", "Make them with make_features.") from None
    start, hidden, taps = np.array(about["start"], np.int64), about["hidden"], tuple(about["taps"])
    features = np.memmap(folder / "features.bin", np.float16, "r", shape=(int(start[-1]), len(taps) * hidden))
    final = np.memmap(folder / "final.bin", np.float16, "r", shape=(int(start[-1]), hidden))
    return FeatureStore(taps, hidden, start, features, final)


def digest(examples: Sequence[Example]) -> str:
    """A name for a text: its features are known by it, whatever else is trained on. 64 hexadecimal digits."""
    return hashlib.sha256(repr([example.tokens for example in examples]).encode()).hexdigest()


@torch.inference_mode()
def make_features(
    target: Target, examples: Sequence[Example], taps: Sequence[int], folder: Path, tokens_per_batch: int
) -> FeatureStore:
    """Runs the target over every example, in batches of like length; what an earlier call finished is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    start = np.concatenate([[0], np.cumsum([len(example) for example in examples])])
    about = {
        "taps": list(taps),
        "hidden": target.hidden_size,
        "dtype": str(target.dtype),
        "text": digest(examples),
        "start": start.tolist(),
    }
    if _content(folder / "store.json") == about:
        return open_features(folder)
    (folder / "store.json").unlink(missing_ok=True)
    progress, plan = folder / "progress.json", {**about, "tokens_per_batch": tokens_per_batch}
    known = _content(progress) or {}
    paths = folder / "features.bin", folder / "final.bin"
    done = int(known["batches"]) if known.get("plan") == plan and all(path.exists() for path in paths) else 0
    features, final = (
        _room(path, "r+" if done else "w+", (int(start[-1]), width * target.hidden_size))
        for path, width in zip(paths, (len(taps), 1), strict=True)
    )
    batches = list(token_batches(examples, tokens_per_batch))
    read = sum(len(examples[i]) for batch in batches[:done] for i in batch)
    with tqdm(total=int(start[-1]), initial=read, unit="token", unit_scale=True, desc="features") as bar:
        for number, batch in islice(enumerate(batches, 1), done, None):
            tapped, last = (part.half().cpu().numpy() for part in _read(target, [examples[i] for i in batch], taps))
            for row, i in enumerate(batch):
                at = slice(int(start[i]), int(start[i + 1]))
                features[at], final[at] = tapped[row, : len(examples[i])], last[row, : len(examples[i])]
            bar.update(sum(len(examples[i]) for i in batch))
            if number % FLUSH_EVERY == 0:
                features.flush()
                final.flush()
                write_atomically(progress, json.dumps({"plan": plan, "batches": number}))
    features.flush()
    final.flush()
    write_atomically(folder / "store.json", json.dumps(about))
    progress.unlink(missing_ok=True)
    return open_features(folder)


def _room(path: Path, mode: str, shape: tuple[int, int]) -> Halves:
    return np.memmap(path, np.float16, mode, shape=shape)  # type: ignore[call-overload, no-any-return]


def _content(path: Path) -> Any:
    """What a JSON file says, None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
