"""The target's own continuations of many prompts at once: batched, with a preallocated cache, resumable.

Prompts of like length share a batch and are padded on the left, so all rows write at one place of the cache. Rows that
have ended are dropped once they are half of the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm

from decoding.kv_cache import BatchedCache
from decoding.target import Target
from decoding.training.corpus import Example, append_examples, drop_cut_off_line


@dataclass(frozen=True)
class Prompt:
    """A prompt to be continued."""

    source: str
    tokens: tuple[int, ...]
    temperature: float


def write_continuations(
    target: Target, prompts: Sequence[Prompt], path: Path, max_new_tokens: int, rows: int, seed: int
) -> None:
    """Appends the continuations of all prompts to `path`; what is there already is not made again.

    The order of the file follows from the prompts alone, so a second call goes on after the last whole batch.
    """
    ordered = sorted(prompts, key=lambda prompt: len(prompt.tokens))
    done = drop_cut_off_line(path)
    batches = [ordered[start : start + rows] for start in range(done, len(ordered), rows)]
    bar = tqdm(total=sum(len(batch) for batch in batches), unit="prompt", desc=path.name)
    for index, batch in enumerate(batches):
        generator = torch.Generator(target.device).manual_seed(seed + done + index)
        responses = continue_batch(target, batch, max_new_tokens, generator)
        pairs = zip(batch, responses, strict=True)
        append_examples(path, [Example(p.source, p.temperature, p.tokens, tuple(response)) for p, response in pairs])
        bar.update(len(batch))
    bar.close()


@torch.inference_mode()
def continue_batch(
    target: Target, batch: Sequence[Prompt], max_new_tokens: int, generator: torch.Generator
) -> list[list[int]]:
    """At most `max_new_tokens` for each prompt, an ending token included."""
    width = max(len(prompt.tokens) for prompt in batch)
    device, ends = target.device, torch.tensor(target.end_ids, device=target.device)
    padding = torch.tensor([width - len(prompt.tokens) for prompt in batch], device=device)
    ids = torch.tensor([[0] * (width - len(p.tokens)) + list(p.tokens) for p in batch], device=device)
    temperature = torch.tensor([prompt.temperature for prompt in batch], device=device)
    cache = BatchedCache(width + max_new_tokens, target.layers)
    responses: list[list[int]] = [[] for _ in batch]
    alive = torch.arange(len(batch), device=device)
    for _ in range(max_new_tokens):
        hidden = _forward(target, ids, padding[alive], cache)
        logits = target.head(hidden[:, -1]).float()
        chosen = _choose(logits, temperature[alive], generator)
        ended = torch.isin(chosen, ends) | torch.isin(alive, _finished(responses, ends, device))
        for row, token in zip(alive.tolist(), chosen.tolist(), strict=True):
            if not _has_ended(responses[row], target.end_ids):
                responses[row].append(token)
        ids = chosen[:, None]
        if bool(ended.all()):
            break
        if int(ended.sum()) * 2 > len(alive):
            kept = (~ended).nonzero()[:, 0]
            cache.select_rows(kept)
            alive, ids = alive[kept], ids[kept]
    return responses


def _has_ended(response: list[int], ends: Sequence[int]) -> bool:
    return bool(response) and response[-1] in ends


def _finished(responses: list[list[int]], ends: Tensor, device: torch.device) -> Tensor:
    ids = ends.tolist()
    return torch.tensor([row for row, text in enumerate(responses) if _has_ended(text, ids)], device=device)


def _forward(target: Target, ids: Tensor, padding: Tensor, cache: BatchedCache) -> Tensor:
    """Final hidden states `[rows, new, hidden]` of `ids` `[rows, new]`, whose texts begin after `padding` places."""
    new = ids.shape[1]
    place = torch.arange(cache.length, cache.length + new, device=ids.device)
    keys = torch.arange(cache.length + new, device=ids.device)
    seen = (keys <= place[:, None]) & (keys >= padding[:, None, None])
    seen |= keys == place[:, None]  # a padded row sees itself: no row of the softmax is empty
    mask = torch.zeros(seen.shape, dtype=target.dtype, device=ids.device)
    mask.masked_fill_(~seen, torch.finfo(target.dtype).min)
    output = target.body(
        input_ids=ids,
        position_ids=(place - padding[:, None]).clamp(min=0),
        attention_mask=mask[:, None],
        past_key_values=cache.past,
        use_cache=True,
    )
    cache.advance(new)
    hidden: Tensor = output.last_hidden_state
    return hidden


def _choose(logits: Tensor, temperature: Tensor, generator: torch.Generator) -> Tensor:
    """One token for each row `[rows, vocab]`: the best at temperature 0, else a sample."""
    greedy = logits.argmax(-1)
    if not bool((temperature > 0).any()):
        return greedy
    probabilities = (logits / temperature.clamp(min=1e-4)[:, None]).softmax(-1)
    sampled = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    return torch.where(temperature > 0, sampled, greedy)


def token_batches(examples: Sequence[Example], tokens: int) -> Iterator[list[int]]:
    """Indices of examples of like length, longest first, at most `tokens` (padding counted) a batch."""
    order = sorted(range(len(examples)), key=lambda index: -len(examples[index]))
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * len(examples[batch[0]]) > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
