"""Sampled trees through `decode()` on tiny models: token-exact at temperature 0, the target's distribution above."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoding.devices import exact_float32
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter, Observation, OnePassDrafter
from decoding.errors import Incompatible
from decoding.fit import require_verifier_fit
from decoding.loop import Request, decode
from decoding.marginals import top_marginals
from decoding.sampling import Sampling, probabilities
from decoding.strategies import STRATEGIES, make_strategy
from decoding.target import Target
from decoding.types import Marginals, Round, Summary
from decoding.verifiers import VERIFIERS, make_verifier
from tests.decoding.test_lossless import NEW_TOKENS, PROMPT, plain_greedy
from tests.decoding.verifiers.enumerated import fit_p_value
from tests.tiny_models import FAMILIES, VOCAB, tiny_model, tiny_target

SMALL = 5
LENGTH = 3
START = (3, 4, 3)


class Positions(OnePassDrafter):
    """One-pass logits that depend on the root alone."""

    name = "positions"
    positions = 4

    def __init__(self, vocab: int) -> None:
        self.vocab_size = vocab

    def begin(self, capacity: int) -> None: ...

    def observe(self, observation: Observation) -> None: ...

    def marginals(self, root: int, k: int) -> Marginals:
        return top_marginals(self.logits(root), k)

    def logits(self, root: int) -> Tensor:
        rng = np.random.default_rng([7, root])
        return torch.from_numpy(rng.normal(0, 2, (self.positions, self.vocab_size))).float()


def run(
    target: Target, drafter: Drafter | None, strategy: str, settings: dict[str, Any], verifier: str | None,
    sampling: Sampling, **request: Any,
) -> tuple[list[Round], Summary]:  # fmt: skip
    grown, judged = make_strategy(strategy, settings), make_verifier(verifier, sampling)
    require_verifier_fit(grown, type(judged))
    _, *rounds, summary = decode(target, drafter, grown, judged, Request("", **request))
    assert isinstance(summary, Summary)
    return rounds, summary  # type: ignore[return-value]


@pytest.mark.parametrize(("family", "replacement"), [*((family, False) for family in FAMILIES), ("llama", True)])
def test_greedy_runs_are_token_exact(family: str, replacement: bool) -> None:
    target = tiny_target(family)
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    settings = {"budget": 16, "depth": 4, "replacement": replacement}
    accepted = 0
    for drafter in (Autoregressive(target, VOCAB), Positions(VOCAB)):
        rounds, summary = run(
            target, drafter, "sampled", settings, None, Sampling(), prompt_ids=PROMPT, max_new_tokens=NEW_TOKENS
        )
        assert list(summary.output_ids) == expected
        accepted += sum(item.verdict.accepted for item in rounds)
    assert accepted > 0


@pytest.mark.cuda
def test_on_cuda_the_draws_stay_there() -> None:
    exact_float32()
    target = Target(tiny_model("llama").to("cuda"), None, "llama")
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    for verifier in (None, "multi-round", "without-replacement", "traversal", "eagle"):
        sampling = Sampling() if verifier is None else Sampling(1e-6)
        settings = {"replacement": verifier == "multi-round", "temperature": 1.0, "budget": 12}
        _, summary = run(
            target, Autoregressive(target, VOCAB), "sampled", settings, verifier, sampling,
            prompt_ids=PROMPT, max_new_tokens=NEW_TOKENS,
        )  # fmt: skip
        assert list(summary.output_ids) == expected


@pytest.mark.parametrize("verifier", ["multi-round", "without-replacement", "traversal", "eagle"])
def test_a_tiny_temperature_is_greedy(verifier: str) -> None:
    target = tiny_target("llama")
    expected = plain_greedy(target, PROMPT, NEW_TOKENS)
    _, summary = run(
        target, Autoregressive(target, VOCAB), "sampled",
        {"replacement": verifier == "multi-round", "temperature": 1.0, "budget": 12}, verifier, Sampling(1e-6),
        prompt_ids=PROMPT, max_new_tokens=NEW_TOKENS,
    )  # fmt: skip
    assert list(summary.output_ids) == expected


def test_a_run_is_its_seed_and_a_drafter_of_its_own_target_is_accepted_whole() -> None:
    target = tiny_target("llama")
    outputs = []
    for seed in (1, 1, 2):
        rounds, summary = run(
            target, Autoregressive(target, VOCAB), "sampled", {"budget": 3, "width": 1}, "traversal", Sampling(1.0),
            prompt_ids=PROMPT, max_new_tokens=NEW_TOKENS, seed=seed,
        )  # fmt: skip
        outputs.append(summary.output_ids)
        if summary.finish == "length":
            assert all(item.verdict.accepted == 3 for item in rounds[:-1])
    assert outputs[0] == outputs[1] != outputs[2]


def test_plain_decoding_takes_every_verifier() -> None:
    target = tiny_target("llama")
    for name, kind in VERIFIERS.items():
        sampling = Sampling() if kind.greedy else Sampling(1.0)
        _, summary = run(target, None, "ar", {}, name, sampling, prompt_ids=PROMPT, max_new_tokens=4)
        assert len(summary.output_ids) <= 4


@pytest.mark.parametrize("verifier", list(VERIFIERS))
@pytest.mark.parametrize("strategy", list(STRATEGIES))
@pytest.mark.parametrize("replacement", [True, False])
def test_what_fits_and_what_would_fit_instead(verifier: str, strategy: str, replacement: bool) -> None:
    grown = make_strategy(strategy, {"replacement": replacement} if strategy == "sampled" else {})
    kind = VERIFIERS[verifier]
    if strategy == "ar" or grown.drawn in kind.needs_candidates:
        require_verifier_fit(grown, kind)
        return
    with pytest.raises(Incompatible) as refused:
        require_verifier_fit(grown, kind)
    assert repr(verifier) in refused.value.message
    assert repr(strategy) in refused.value.message
    assert all(repr(name) in refused.value.hint for name in ("sample-match", "eagle", "sampled"))
    assert repr("greedy") not in refused.value.hint


@cache
def small_target() -> Target:
    target = tiny_target("llama", vocab_size=SMALL, eos_token_id=None)
    target.model.generation_config.eos_token_id = None
    return target


@cache
def small_drafter() -> Target:
    return tiny_target("qwen3", seed=1, vocab_size=SMALL, eos_token_id=None)


def exact(sampling: Sampling) -> NDArray[np.float64]:
    """Probability of every text of LENGTH tokens, by the stock model without a cache."""
    probs = np.ones(SMALL**LENGTH)
    for place, text in enumerate(product(range(SMALL), repeat=LENGTH)):
        ids = torch.tensor([[*START, *text]])
        logits = small_target().model(input_ids=ids, use_cache=False).logits[0, len(START) - 1 : -1].float()
        rows = probabilities(logits, sampling).double()
        probs[place] = float((rows / rows.sum(1, keepdim=True))[torch.arange(LENGTH), torch.tensor(text)].prod())
    return probs


def p_value(texts: list[tuple[int, ...]], sampling: Sampling) -> float:
    return fit_p_value(np.array(texts), exact(sampling), SMALL)


DRAWN = [
    ("multi-round", {"replacement": True}),
    ("without-replacement", {}),
    ("traversal", {"replacement": True}),
    ("traversal", {}),
    ("eagle", {}),
    ("sample-match", {"replacement": True}),
]
RUNS = [("sampled", {"budget": 6, "depth": 3, "width": 2, **chosen}, name, one_pass)
        for name, chosen in DRAWN for one_pass in (False, True)]  # fmt: skip
RUNS += [(name, {"budget": 6}, "eagle", False) for name in ("linear", "fixed", "recycle")]
RUNS += [(name, {"budget": 6}, "eagle", True) for name in ("linear", "ddtree")]
LEVEL = 1e-4 / len(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "settings", "verifier", "one_pass"), RUNS)
def test_whole_runs_follow_the_target(strategy: str, settings: dict[str, Any], verifier: str, one_pass: bool) -> None:
    sampling = Sampling(1.2, top_p=0.95) if one_pass else Sampling(1.0)
    drafter = Positions(SMALL) if one_pass else Autoregressive(small_drafter(), SMALL)
    texts = [
        run(
            small_target(), drafter, strategy, settings, verifier, sampling,
            prompt_ids=START, max_new_tokens=LENGTH, seed=seed,
        )[1].output_ids
        for seed in range(300)
    ]  # fmt: skip
    assert p_value(texts, sampling) > LEVEL


@pytest.mark.slow
def test_whole_runs_at_another_temperature_are_rejected() -> None:
    drafter = Autoregressive(small_drafter(), SMALL)
    texts = [
        run(
            small_target(), drafter, "sampled", {"budget": 6}, "traversal", Sampling(0.5),
            prompt_ids=START, max_new_tokens=LENGTH, seed=seed,
        )[1].output_ids
        for seed in range(300)
    ]  # fmt: skip
    assert p_value(texts, Sampling(1.0)) < LEVEL
