"""The target's own text: many at once as one by one, and an interruption leaves no trace in it."""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from decoding.errors import BadRequest
from decoding.kv_cache import BatchedCache
from decoding.target import Target
from decoding.training import continuations
from decoding.training.continuations import Prompt, continue_batch, token_batches, write_continuations
from decoding.training.corpus import read_corpus
from tests.decoding.training.material import generator, texts
from tests.tiny_models import VOCAB, tiny_model, tiny_target

NEW = 16


@cache
def target() -> Target:
    return tiny_target("llama")


def prompts(count: int, temperature: float = 0.0, seed: int = 0) -> list[Prompt]:
    rng = random.Random(seed)
    return [
        Prompt("test", tuple(rng.randrange(3, VOCAB) for _ in range(rng.randint(1, 14))), temperature)
        for _ in range(count)
    ]


def ending_target(ends: list[int]) -> Target:
    """One that ends its texts at any of many tokens, so that the rows of a batch end early and apart."""
    model = tiny_model("llama")
    model.generation_config.eos_token_id = ends
    return Target(model, None, "ending")


@torch.inference_mode()
def assert_plain_greedy(whole: Target, prompt: Prompt, response: list[int], count: int) -> None:
    """Every token is the target's choice after those before it, and the text ends where plain decoding ends it."""
    tokens = torch.tensor([[*prompt.tokens, *response]])
    choices = whole.model(input_ids=tokens, use_cache=False).logits[0, len(prompt.tokens) - 1 : -1].argmax(-1)
    assert response == choices.tolist()
    assert len(response) == count or response[-1] in whole.end_ids
    assert not set(response[:-1]) & set(whole.end_ids)


@pytest.mark.parametrize("ends", [[], list(range(0, VOCAB, 12)), list(range(0, VOCAB, 3))])
def test_a_greedy_batch_is_plain_decoding_row_by_row(ends: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    whole, dropped = ending_target(ends), []
    select = BatchedCache.select_rows
    monkeypatch.setattr(BatchedCache, "select_rows", lambda cache, rows: (dropped.append(rows), select(cache, rows)))
    batch = prompts(10)
    written = continue_batch(whole, batch, NEW, generator())
    for prompt, response in zip(batch, written, strict=True):
        assert_plain_greedy(whole, prompt, response, NEW)
    lengths = {len(text) for text in written}
    assert (len(lengths) > 3, bool(dropped)) == ((False, False) if ends == [] else (True, True))


def test_one_new_token_and_one_row() -> None:
    assert [len(text) for text in continue_batch(target(), prompts(3), 1, generator())] == [1, 1, 1]
    (prompt,) = prompts(1)
    assert_plain_greedy(target(), prompt, continue_batch(target(), [prompt], 5, generator())[0], 5)


def test_samples_follow_the_seed_and_greedy_rows_beside_them_do_not() -> None:
    mixed = [*prompts(4, 0.0), *prompts(4, 1.0, seed=1)]
    first, again, other = (continue_batch(target(), mixed, 8, generator(seed)) for seed in (0, 0, 1))
    assert first == again
    for prompt, response in zip(mixed[:4], first, strict=False):
        assert_plain_greedy(target(), prompt, response, 8)
    assert first[:4] == other[:4]
    assert first[4:] != other[4:]


def test_samples_follow_the_target_s_distribution() -> None:
    prompt = Prompt("test", (5, 6, 7), 0.7)
    texts = continue_batch(target(), [prompt] * 4000, 1, generator())
    found = torch.bincount(torch.tensor(texts)[:, 0], minlength=VOCAB) / 4000
    wanted = (target().model(input_ids=torch.tensor([prompt.tokens])).logits[0, -1] / 0.7).softmax(-1)
    assert float((found - wanted).abs().sum()) / 2 < 0.05
    assert float(wanted.max()) < 0.9  # a test that greedy decoding would fail


@dataclass
class Interrupted(Exception):
    """Raised in the middle of the work."""


def interrupt_after(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, calls: int) -> None:
    """Lets `module.name` work `calls` times and then raises Interrupted."""
    real, left = getattr(module, name), [calls]

    def worn_out(*args: Any) -> Any:
        if not left[0]:
            raise Interrupted
        left[0] -= 1
        return real(*args)

    monkeypatch.setattr(module, name, worn_out)


@pytest.mark.parametrize(("batches", "cut"), [(0, 0), (1, 0), (2, 0), (2, 1), (2, 7), (2, 200), (3, 5)])
def test_an_interrupted_file_becomes_that_of_one_call(
    batches: int, cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, wanted = tmp_path / "whole.jsonl", prompts(11, 1.0)
    write_continuations(target(), wanted, whole, 4, rows=4, seed=3)
    path = tmp_path / "parts.jsonl"
    with monkeypatch.context() as patched:
        interrupt_after(patched, continuations, "continue_batch", batches)
        if batches < 3:
            with pytest.raises(Interrupted):
                write_continuations(target(), wanted, path, 4, rows=4, seed=3)
        else:
            write_continuations(target(), wanted, path, 4, rows=4, seed=3)
    if cut:  # in the middle of a line, or of several, as when the disk fills up
        path.write_bytes(path.read_bytes()[:-cut])
    write_continuations(target(), wanted, path, 4, rows=4, seed=3)
    assert path.read_bytes() == whole.read_bytes()
    with monkeypatch.context() as patched:
        interrupt_after(patched, continuations, "continue_batch", 0)
        write_continuations(target(), wanted, path, 4, rows=4, seed=3)  # nothing is left to do


def test_the_file_holds_every_prompt_and_the_seed_counts(tmp_path: Path) -> None:
    wanted = prompts(9, 1.0)
    for seed in (0, 1):
        write_continuations(target(), wanted, tmp_path / f"{seed}.jsonl", 6, rows=4, seed=seed)
    first, second = (read_corpus([tmp_path / f"{seed}.jsonl"], VOCAB) for seed in (0, 1))
    assert sorted(example.prompt for example in first) == sorted(prompt.tokens for prompt in wanted)
    assert [example.prompt for example in first] == [example.prompt for example in second]
    assert {(example.source, example.temperature) for example in first} == {("test", 1.0)}
    assert [example.response for example in first] != [example.response for example in second]


def test_no_two_batches_share_their_random_numbers(tmp_path: Path) -> None:
    write_continuations(target(), [Prompt("own", (5, 6), 1.0)] * 8, tmp_path / "own.jsonl", 12, rows=2, seed=0)
    pairs = [example.response for example in read_corpus([tmp_path / "own.jsonl"], VOCAB)]
    assert len({pairs[place : place + 2][0] for place in range(0, 8, 2)}) == 4


@pytest.mark.parametrize("change", ["prompt", "temperature", "fewer"])
def test_a_file_of_other_prompts_is_not_gone_on_with(change: str, tmp_path: Path) -> None:
    path, wanted = tmp_path / "text.jsonl", prompts(4)
    write_continuations(target(), wanted, path, 3, rows=4, seed=0)
    before = path.read_bytes()
    others = {"prompt": prompts(4, seed=1), "temperature": prompts(4, 0.5), "fewer": wanted[:3]}[change]
    with pytest.raises(BadRequest, match=r"text\.jsonl holds continuations of other prompts.*--work"):
        write_continuations(target(), others, path, 3, rows=4, seed=0)
    assert path.read_bytes() == before


def test_token_batches_hold_every_example_once_within_the_room() -> None:
    examples = texts(30)
    batches = list(token_batches(examples, 100))
    assert sorted(index for batch in batches for index in batch) == list(range(30))
    assert all(len(batch) * max(len(examples[i]) for i in batch) <= 100 for batch in batches)
    assert len(batches) < 20
    assert list(token_batches(examples[:3], 1)) == [[i] for i in sorted(range(3), key=lambda i: -len(examples[i]))]
