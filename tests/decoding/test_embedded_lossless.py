"""The embedded model, every pair that is offered with it: the text is the stock model's own, or drawn as it draws."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from decoding.catalogue import drafters, target_info
from decoding.fit import misfit, require_verifier_fit
from decoding.loop import Request, decode
from decoding.model_store import ModelStore
from decoding.prompts import encode_prompt
from decoding.sampling import Sampling, probabilities
from decoding.settings import Settings
from decoding.strategies import STRATEGIES, make_strategy
from decoding.strategies.base import Strategy
from decoding.target import Target
from decoding.types import Round, Summary
from decoding.verifiers import VERIFIERS, make_verifier
from tests.decoding.verifiers.enumerated import counts_p_value

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
NAME = "smollm2-135m"
NEW_TOKENS = 20
PROMPT = "Write the numbers from one to nine, then write them again."
PAIRS = [
    (strategy, drafter.id if drafter is not None else None)
    for strategy, kind in STRATEGIES.items()
    for drafter in (None, *drafters())
    if misfit(target_info(NAME), drafter, kind) is None
]
FEW = Sampling(temperature=1.5, top_k=3)
"""Three tokens at every place, so that all texts of three tokens can be listed."""
SMALL = {"budget": 12}
SHORT = "1, 2, 3,"
RUNS = 80


@pytest.fixture(scope="module")
def models() -> Iterator[ModelStore]:
    store = ModelStore()
    yield store
    store.clear()


@pytest.fixture(scope="module")
def target(models: ModelStore) -> Target:
    return models.target(NAME, "float32", "cpu", print)


@pytest.fixture(scope="module")
def ids(target: Target) -> tuple[int, ...]:
    return encode_prompt(target.tokenizer, PROMPT)


@pytest.fixture(scope="module")
def expected(target: Target, ids: tuple[int, ...]) -> list[int]:
    prompt = torch.tensor([ids])
    mask = torch.ones_like(prompt)
    output = target.model.generate(prompt, attention_mask=mask, max_new_tokens=NEW_TOKENS, do_sample=False)
    return output[0, prompt.shape[1] :].tolist()


def run(
    models: ModelStore, target: Target, strategy: Strategy[Settings], drafter: str | None, verifier: str | None,
    sampling: Sampling, request: Request,
) -> tuple[list[Round], Summary]:  # fmt: skip
    judge = make_verifier(verifier, sampling)
    require_verifier_fit(strategy, type(judge))
    loaded = models.drafter(drafter, target, print) if drafter else None
    retrieval = models.retrieval(type(strategy), target, print)
    _, *rounds, summary = decode(target, loaded, strategy, judge, request, retrieval=retrieval)
    assert isinstance(summary, Summary)
    return rounds, summary  # type: ignore[return-value]


@pytest.mark.parametrize(("strategy", "drafter"), PAIRS)
def test_every_pair_writes_what_the_stock_model_writes(
    models: ModelStore, target: Target, ids: tuple[int, ...], expected: list[int], strategy: str, drafter: str | None
) -> None:
    request = Request(PROMPT, ids, NEW_TOKENS)
    rounds, summary = run(models, target, make_strategy(strategy, {}), drafter, None, Sampling(), request)
    assert list(summary.output_ids) == expected
    assert strategy == "ar" or any(item.tree.drafted for item in rounds), "nothing was drafted: this shows nothing"


@pytest.fixture(scope="module")
def few_ids(target: Target) -> tuple[int, ...]:
    return tuple(target.tokenizer(SHORT)["input_ids"])


@pytest.fixture(scope="module")
def three_tokens(target: Target, few_ids: tuple[int, ...]) -> dict[tuple[int, int, int], float]:
    """Probability of every text of three tokens, by the stock model."""

    def chances(text: tuple[int, ...]) -> list[tuple[int, float]]:
        with torch.inference_mode():
            probs = probabilities(target.model(torch.tensor([text])).logits[:, -1].float(), FEW)[0]
        return [(int(token), float(probs[token])) for token in probs.nonzero()[:, 0]]

    return {
        (first, second, third): p1 * p2 * p3
        for first, p1 in chances(few_ids)
        for second, p2 in chances((*few_ids, first))
        for third, p3 in chances((*few_ids, first, second))
    }


SAMPLING = [
    (verifier, strategy, settings)
    for verifier, strategy, settings in (
        ("sample-match", "ddtree", SMALL),
        ("sample-match", "ddtree-graft", SMALL),
        ("eagle", "ddtree", SMALL),
        ("multi-round", "sampled", {**SMALL, "replacement": True}),
        ("without-replacement", "sampled", SMALL),
        ("traversal", "sampled", SMALL),
    )
]


def test_no_verifier_is_left_out() -> None:
    assert {verifier for verifier, _, _ in SAMPLING} == {name for name, kind in VERIFIERS.items() if not kind.greedy}


@pytest.mark.parametrize(("verifier", "strategy", "settings"), SAMPLING)
def test_every_verifier_keeps_the_distribution(
    models: ModelStore, target: Target, few_ids: tuple[int, ...], three_tokens: dict[tuple[int, int, int], float],
    verifier: str, strategy: str, settings: dict[str, object],
) -> None:  # fmt: skip
    texts = list(three_tokens)
    counts: NDArray[np.float64] = np.zeros(len(texts))
    accepted = 0
    for seed in range(RUNS):
        request = Request(SHORT, few_ids, 3, seed)
        grown = make_strategy(strategy, settings)
        rounds, summary = run(models, target, grown, "smollm2-135m-dflash", verifier, FEW, request)
        counts[texts.index(summary.output_ids)] += 1  # type: ignore[arg-type]  # none of them ends early
        accepted += sum(item.verdict.accepted for item in rounds)
    assert accepted > 0
    assert counts_p_value(counts, np.array([three_tokens[text] for text in texts])) > 1e-5
