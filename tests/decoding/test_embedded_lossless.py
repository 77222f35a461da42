"""The real embedded model: every strategy gives what the stock model's own greedy `generate` gives."""

from typing import Any

import pytest
import torch

from decoding.bench.setup import untrained_block_drafter
from decoding.catalogue import load_drafter
from decoding.loop import Request, decode
from decoding.models import load_causal_lm
from decoding.prompts import encode_prompt
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.target import Target
from decoding.types import Summary
from decoding.verifiers import make_verifier

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
NEW_TOKENS = 32
PROMPT = "Write the numbers from one to nine, then write them again."
WAYS: list[tuple[str, str | None, dict[str, Any]]] = [
    ("ar", None, {}),
    ("linear", "prompt-lookup", {"budget": 10}),
    ("recycle", "transition-matrix", {"budget": 40}),
    ("fixed", "self", {"depth": 3, "branching": 2, "budget": 10}),
    ("ddtree", "untrained", {"budget": 24}),
]


@pytest.fixture(scope="module")
def target() -> Target:
    loaded = load_causal_lm("smollm2-135m", "float32", "cpu")
    return Target(loaded.model, loaded.tokenizer, loaded.name)


@pytest.fixture(scope="module")
def expected(target: Target) -> list[int]:
    ids = torch.tensor([encode_prompt(target.tokenizer, PROMPT)])
    output = target.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False)
    return output[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize(("strategy", "drafter", "settings"), WAYS)
def test_lossless(
    target: Target, expected: list[int], strategy: str, drafter: str | None, settings: dict[str, Any]
) -> None:
    if drafter == "untrained":
        loaded = untrained_block_drafter(target, layers=1, block_size=6)
    else:
        loaded = load_drafter(drafter, target, print) if drafter else None
    request = Request(PROMPT, encode_prompt(target.tokenizer, PROMPT), NEW_TOKENS)
    *_, summary = decode(target, loaded, make_strategy(strategy, settings), make_verifier(None, Sampling()), request)
    assert isinstance(summary, Summary)
    assert list(summary.output_ids) == expected
