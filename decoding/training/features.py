"""What the drafters learn from: the target's hidden states at every position of the corpus, kept on disk.

`features.bin` is float16 `[tokens, taps * hidden]` (taps in the order given), `final.bin` float16 `[tokens, hidden]`:
the states that the target's head reads: its distribution after every token, in a hundredth of the room. `store.json` is
written last: a folder without it is not finished and is made again from where it stopped.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from decoding.errors import BadRequest
from decoding.files import write_atomically
from decoding.target import Target
from decoding.training.continuations import token_batches
from decoding.training.corpus import Example

Halves = np.memmap[Any, np.dtype[np.float16]]


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """Features of a corpus, mapped from disk."""

    taps: tuple[int, ...]
    hidden: int
    start: np.ndarray[Any, np.dtype[np.int64]]
    """`[examples + 1]` where each example's tokens begin."""
    features: Halves
    final: Halves

    def of(self, example: int, taps: Sequence[int]) -> torch.Tensor:
        """Float16 `[tokens, len(taps) * hidden]` of one example, for a part of the stored taps."""
        rows = self.features[self.start[example] : self.start[example + 1]]
        if tuple(taps) == self.taps:
            return torch.from_numpy(np.array(rows))
        columns = [self.taps.index(tap) for tap in taps]
        return torch.from_numpy(rows.reshape(len(rows), -1, self.hidden)[:, columns].reshape(len(rows), -1))

    def final_of(self, example: int) -> torch.Tensor:
        """Float16 `[tokens, hidden]`: the final states of one example."""
        return torch.from_numpy(np.array(self.final[self.start[example] : self.start[example + 1]]))


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


@torch.inference_mode()
def make_features(
    target: Target, examples: Sequence[Example], taps: Sequence[int], folder: Path, tokens_per_batch: int
) -> FeatureStore:
    """Runs the target over every example, in batches of like length; what an earlier call finished is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    start = np.concatenate([[0], np.cumsum([len(example) for example in examples])])
    about = {"taps": list(taps), "hidden": target.hidden_size, "start": start.tolist()}
    if (folder / "store.json").exists() and json.loads((folder / "store.json").read_text(encoding="utf-8")) == about:
        return open_features(folder)
    (folder / "store.json").unlink(missing_ok=True)
    features = _room(folder / "features.bin", (int(start[-1]), len(taps) * target.hidden_size))
    final = _room(folder / "final.bin", (int(start[-1]), target.hidden_size))
    progress = folder / "progress.json"
    plan = {**about, "tokens_per_batch": tokens_per_batch}
    done = _resume(progress, plan)
    bar = tqdm(total=int(start[-1]), unit="token", unit_scale=True, desc="features")
    for index, batch in enumerate(token_batches(examples, tokens_per_batch)):
        bar.update(sum(len(examples[i]) for i in batch))
        if index < done:
            continue
        width = max(len(examples[i]) for i in batch)
        ids = torch.tensor([[*examples[i].tokens, *[0] * (width - len(examples[i]))] for i in batch])
        # Padding stands on the right, where no earlier position sees it: causal attention needs no mask.
        output = target.body(input_ids=ids.to(target.device), use_cache=False, output_hidden_states=list(taps))
        tapped = torch.cat([output.hidden_states[tap] for tap in taps], dim=-1).half().cpu().numpy()
        last = output.last_hidden_state.half().cpu().numpy()
        for row, i in enumerate(batch):
            at = slice(int(start[i]), int(start[i + 1]))
            features[at], final[at] = tapped[row, : len(examples[i])], last[row, : len(examples[i])]
        if index % 10 == 9:
            features.flush()
            final.flush()
            write_atomically(progress, json.dumps({"plan": plan, "batches": index + 1}))
    bar.close()
    features.flush()
    final.flush()
    write_atomically(folder / "store.json", json.dumps(about))
    progress.unlink(missing_ok=True)
    return open_features(folder)


def _room(path: Path, shape: tuple[int, int]) -> Halves:
    size = shape[0] * shape[1] * 2
    mode = "r+" if path.exists() and path.stat().st_size == size else "w+"
    return np.memmap(path, np.float16, mode, shape=shape)  # type: ignore[call-overload, no-any-return]


def _resume(progress: Path, plan: dict[str, object]) -> int:
    try:
        record = json.loads(progress.read_text(encoding="utf-8"))
        return int(record["batches"]) if record["plan"] == plan else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0
