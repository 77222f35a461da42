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

from decoding.errors import BadRequest
from decoding.kv_cache import BatchedCache
from decoding.target import Target
from decoding.training.corpus import Example, append_examples, keep_lines, read_corpus


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

    Batches and their seeds follow from the prompts and `rows` alone: a call that was interrupted and a second one write
    what one call would have written. Raises BadRequest where `path` holds continuations of other prompts.
    """
    ordered = sorted(prompts, key=lambda prompt: len(prompt.tokens))
    done = _resume(path, ordered, rows, target.vocab_size)
    path.touch()
    with tqdm(total=len(ordered), initial=done, unit="prompt", desc=path.name) as bar:
        for start in range(done, len(ordered), rows):
            batch = ordered[start : start + rows]
            generator = torch.Generator(target.device).manual_seed(seed * 1_000_003 + start)
            responses = continue_batch(target, batch, max_new_tokens, generator)
            pairs = zip(batch, responses, strict=True)
            append_examples(path, [Example(p.source, p.temperature, p.tokens, tuple(text)) for p, text in pairs])
            bar.update(len(batch))


def _resume(path: Path, ordered: Sequence[Prompt], rows: int, vocab_size: int) -> int:
    """How many prompts are done; a last batch that is not whole is cut off."""
    if not path.exists():
        return 0
    found = [(example.prompt, example.temperature) for example in read_corpus([path], vocab_size)]
    if found != [(prompt.tokens, prompt.temperature) for prompt in ordered[: len(found)]]:
        raise BadRequest(
            f"{path} holds continuations of other prompts.", "Give another --work folder, or remove it to begin anew."
        )
    done = len(found) if len(found) == len(ordered) else len(found) // rows * rows
    keep_lines(path, done)
    return done


@torch.inference_mode()
def continue_batch(
    target: Target, batch: Sequence[Prompt], max_new_tokens: int, generator: torch.Generator
) -> list[list[int]]:
    """At most `max_new_tokens` for each prompt, an ending token included."""
    width = max(len(prompt.tokens) for prompt in batch)
    device, ends = target.device, torch.tensor(target.end_ids, dtype=torch.int64, device=target.device)
    padding = torch.tensor([width - len(prompt.tokens) for prompt in batch], device=device)
    ids = torch.tensor([[0] * (width - len(p.tokens)) + list(p.tokens) for p in batch], device=device)
    temperature = torch.tensor([prompt.temperature for prompt in batch], device=device)
    cache = BatchedCache(width + max_new_tokens, target.layers)
    written = torch.zeros((len(batch), max_new_tokens), dtype=torch.int64, device=device)
    alive = torch.arange(len(batch), device=device)
    ended = torch.zeros(len(batch), dtype=torch.bool, device=device)
    for step in range(max_new_tokens):
        hidden = _forward(target, ids, padding[alive], cache)
        chosen = _choose(target.head(hidden[:, -1]).float(), temperature[alive], generator)
        written[alive, step] = chosen  # a row that has ended goes on unread until it is dropped
        ended |= torch.isin(chosen, ends)
        ids, count = chosen[:, None], int(ended.sum())
        if count == len(ended):
            break
        if count * 2 > len(ended):
            kept = (~ended).nonzero()[:, 0]
            cache.select_rows(kept)
            alive, ids, ended = alive[kept], ids[kept], ended[kept]
    return [_until_end(row, target.end_ids) for row in written.tolist()]


def _until_end(row: list[int], ends: Sequence[int]) -> list[int]:
    """For ends (2,): 5 2 7 2 is 5 2."""
    first = next((place for place, token in enumerate(row) if token in ends), len(row))
    return row[: first + 1]


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
    chosen = logits.argmax(-1)
    warm = (temperature > 0).nonzero()[:, 0]
    if len(warm):
        below = (logits[warm] / temperature[warm, None]).softmax(-1).cumsum(-1)
        # One number a row, above 0: the first sum that reaches it is that of a token with a chance.
        level = 1 - torch.rand(len(warm), 1, generator=generator, device=logits.device)
        chosen[warm] = torch.searchsorted(below, level * below[:, -1:])[:, 0]
    return chosen


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
