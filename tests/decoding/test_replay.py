"""Replayed rounds are those of real decoding: tree for tree when greedy, in distribution when sampling."""

import itertools
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decoding.drafter_loading import load_drafter
from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter, Observation
from decoding.drafters.prompt_lookup import PromptLookup, PromptLookupSettings
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import Incompatible
from decoding.loop import Request, decode
from decoding.metrics import accepted_per_round, tokens_per_round
from decoding.replay import UNKNOWN, Recording, record, replay
from decoding.sampling import Sampling
from decoding.scores import TreeScores
from decoding.strategies import make_strategy
from decoding.strategies.ar import ARSettings
from decoding.strategies.base import Growth, Strategy
from decoding.target import Target
from decoding.tree import TreeBuilder, accepted_path, cumulative_logprob, path_to
from decoding.types import Round, Summary, Tree
from decoding.verifiers import make_verifier
from decoding.verifiers.sample_match import SampleMatch
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.random_trees import random_tree
from tests.tiny_models import VOCAB, tiny_model, tiny_target

PROMPT = (5, 17, 33, 8, 5, 17, 60, 9, 12, 5, 17)
NEW_TOKENS = 40


def block_drafter(target: Target, folder: Path, block_size: int = 6) -> Drafter:
    write_dflash_checkpoint(
        folder, hidden=32, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=3, target_layer_ids=[0, 2],
        block_size=block_size, mask_token_id=4, vocab=VOCAB, seed=0,
    )  # fmt: skip
    return load_drafter(str(folder), target, print)


def real_rounds(
    target: Target, drafter: Drafter, strategy: str, settings: dict[str, Any], request: Request
) -> tuple[list[Round], Summary]:
    verifier = make_verifier(None, Sampling())
    _, *rounds, summary = decode(target, drafter, make_strategy(strategy, settings), verifier, request)
    assert isinstance(summary, Summary)
    return rounds, summary  # type: ignore[return-value]


def paths(tree: Tree) -> dict[tuple[int, ...], float]:
    """The tokens from the root to every node, and their log-probability."""
    score = cumulative_logprob(tree)
    return {tuple(tree.token[path_to(tree.parent, node)].tolist()): float(score[node]) for node in range(len(tree))}


def assert_same(replayed: list[Round], real: list[Round]) -> None:
    """The same rounds with the same trees; of nodes all but tied for the last place either may be there."""
    assert len(replayed) == len(real)
    for ours, theirs in zip(replayed, real, strict=True):
        one, other = paths(ours.tree), paths(theirs.tree)
        assert len(one) == len(other)
        for path in set(one) ^ set(other):
            both = one | other
            assert both[path] == pytest.approx(min(one.values()), abs=1e-4)
        for path in set(one) & set(other):
            assert one[path] == pytest.approx(other[path], abs=1e-4, nan_ok=True)
        for name in ("index", "emitted", "accepted", "cache_before"):
            assert getattr(ours, name) == getattr(theirs, name), name
    assert tokens_per_round(replayed) == tokens_per_round(real)
    assert accepted_per_round(replayed) == accepted_per_round(real)


def blurred(family: str) -> Target:
    """The tiny target of a family with some noise on its weights: a drafter that is right now and then."""
    model, rng = tiny_model(family), torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight.mul_(1 + 0.1 * torch.randn(weight.shape, generator=rng))
    return Target(model, None, f"blurred-{family}")


CASES = {
    "block linear": ("block", "linear", {"budget": 64}),
    "block ddtree 8": ("block", "ddtree", {"budget": 8}),
    "block ddtree 200": ("block", "ddtree", {"budget": 200}),
    "lookup linear": ("lookup", "linear", {"budget": 10}),
    "lookup fixed": ("lookup", "fixed", {"depth": 5, "branching": 3, "budget": 20}),
    "self linear": ("self", "linear", {"budget": 5}),
    "blurred linear": ("blurred", "linear", {"budget": 5}),
    "blurred fixed": ("blurred", "fixed", {"depth": 4, "branching": 3, "budget": 24, "threshold": 0}),
}


def make_drafter(name: str, target: Target, family: str, folder: Path) -> Drafter:
    if name == "block":
        return block_drafter(target, folder)
    if name == "lookup":
        return PromptLookup(VOCAB, PromptLookupSettings(matches=4))
    return Autoregressive(target if name == "self" else blurred(family), VOCAB)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("case", CASES)
def test_greedy_replay_is_real_decoding(case: str, family: str, tmp_path: Path) -> None:
    name, strategy, settings = CASES[case]
    target = tiny_target(family)
    drafter = make_drafter(name, target, family, tmp_path)
    request = Request("", PROMPT, NEW_TOKENS)
    real, summary = real_rounds(target, drafter, strategy, settings, request)
    recording = record(target, make_verifier(None, Sampling()), request, drafter.taps)
    assert recording.output_ids == summary.output_ids
    assert len(recording.output_ids) > 20, "the text is too short to show anything"
    assert_same(list(replay(recording, drafter, make_strategy(strategy, settings))), real)
    if case in ("block ddtree 200", "self linear", "blurred fixed"):
        assert sum(item.accepted for item in real) > 2, "the trees were never right, so this shows little"


def test_the_recorded_features_are_those_of_each_drafter(tmp_path: Path) -> None:
    """A record with the taps of several drafters gives each drafter its own columns, in its own order."""
    target = tiny_target("llama")
    drafter = block_drafter(target, tmp_path)
    request = Request("", PROMPT, NEW_TOKENS)
    real, _ = real_rounds(target, drafter, "ddtree", {"budget": 20}, request)
    recording = record(target, make_verifier(None, Sampling()), request, (0, *reversed(drafter.taps), 2))
    assert_same(list(replay(recording, drafter, make_strategy("ddtree", {"budget": 20}))), real)
    without = record(target, make_verifier(None, Sampling()), request)
    with pytest.raises(Incompatible, match="reads the hidden states"):
        next(replay(without, drafter, make_strategy("ddtree", {})))


def test_the_end_of_text_inside_an_accepted_path() -> None:
    target = tiny_target("llama")
    drafter = Autoregressive(target, VOCAB)
    request = Request("", PROMPT, NEW_TOKENS)
    whole = record(target, make_verifier(None, Sampling()), request).output_ids
    inside = 0
    for place in (0, 1, 3, 4, 7):
        target.model.generation_config.eos_token_id = whole[place]
        real, _ = real_rounds(target, drafter, "linear", {"budget": 5}, request)
        recording = record(target, make_verifier(None, Sampling()), request)
        replayed = list(replay(recording, drafter, make_strategy("linear", {"budget": 5})))
        assert_same(replayed, real)
        inside += any(item.verdict.bonus == UNKNOWN for item in replayed)
    assert inside >= 2


def test_the_end_of_the_context() -> None:
    target = tiny_target("llama", max_position_embeddings=64)
    drafter = Autoregressive(target, VOCAB)
    for length in (50, 61, 63, 64):
        prompt = tuple(np.random.default_rng(0).integers(3, VOCAB, length).tolist())
        request = Request("", prompt, NEW_TOKENS)
        real, summary = real_rounds(target, drafter, "linear", {"budget": 5}, request)
        assert summary.finish == "context"
        recording = record(target, make_verifier(None, Sampling()), request)
        assert_same(list(replay(recording, drafter, make_strategy("linear", {"budget": 5}))), real)


CHAIN = torch.from_numpy(np.random.default_rng(3).normal(0, 0.6, (4, 4)).astype(np.float32))
"""Logits `[4, 4]` of a target whose next token depends on the last one alone."""
LENGTH = 5


class Bush(Strategy[ARSettings]):
    """The `width` likeliest children of the root, and below each of them the likeliest two."""

    settings_class = ARSettings
    max_nodes = 12

    def __init__(self, width: int) -> None:
        super().__init__(ARSettings())
        self.width = width

    def grow(self, drafter: Drafter | None, root: int, max_depth: int) -> Growth:
        builder = TreeBuilder(root)
        for token in CHAIN[root].topk(self.width).indices.tolist() if max_depth > 0 else []:
            node = builder.add(0, token)
            for below in CHAIN[token].topk(2).indices.tolist() if max_depth > 1 else []:
                builder.add(node, below)
        return Growth(builder.build())


def replayed_law(width: int) -> dict[tuple[int, ...], float]:
    """The exact distribution of the rounds' lengths: every text after the token 0, weighed and replayed."""
    probability = CHAIN.softmax(-1).numpy()
    law: dict[tuple[int, ...], float] = defaultdict(float)
    for rest in itertools.product(range(4), repeat=LENGTH - 1):
        text = (0, *rest)
        recording = Recording(PROMPT, text, LENGTH, 256, (), None)
        rounds = replay(recording, PromptLookup(4), Bush(width))
        law[tuple(len(item.emitted) for item in rounds)] += float(np.prod(probability[text[:-1], text[1:]]))
    return law


def test_sampled_rounds_have_the_distribution_of_real_ones() -> None:
    """Sample-and-match decodes 600 times; the replayed law is exact, so only the noise of those draws is left."""
    rng, verifier, draws = torch.Generator().manual_seed(0), SampleMatch(Sampling(temperature=1)), 600
    real: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        text, lengths = [0], []
        while len(text) < LENGTH:
            tree = Bush(2).grow(None, text[-1], LENGTH - len(text) - 1).tree
            verdict = verifier.verify(tree, TreeScores.from_logits(CHAIN[tree.token.astype(np.int64)]), rng)
            emitted = [*tree.token[verdict.path[1:]].tolist(), verdict.bonus]
            text, lengths = text + emitted, [*lengths, len(emitted)]
        real[tuple(lengths)] += 1

    def distance(law: dict[tuple[int, ...], float]) -> float:
        return sum(abs(real[kind] / draws - law.get(kind, 0)) for kind in {*real, *law}) / 2

    assert sum(replayed_law(2).values()) == pytest.approx(1, abs=1e-5)
    assert distance(replayed_law(2)) < 0.06
    assert distance(replayed_law(1)) > 0.15, "other trees must not pass"


@pytest.mark.parametrize("seed", range(20))
def test_the_accepted_path_is_the_longest_that_holds_the_text(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, 30, vocab=3)
    coming = rng.integers(0, 3, 8).tolist()
    ways = {(): 0}
    for node in range(1, len(tree)):
        above = next(way for way, at in ways.items() if at == tree.parent[node])
        ways[(*above, int(tree.token[node]))] = node
    longest = max(length for length in range(9) if tuple(coming[:length]) in ways)
    assert accepted_path(tree, coming) == [ways[tuple(coming[:length])] for length in range(longest + 1)]


def test_a_source_that_learns_from_opinions_needs_them_recorded() -> None:
    matrix = TransitionMatrix(VOCAB)
    for said, kept in ((None, "none"), (np.zeros((13, 3), np.int32), "3")):
        recording = Recording(PROMPT, (1, 2, 3), 3, 256, (), None, said)
        with pytest.raises(Incompatible, match=f"learns from the target's 8 likeliest tokens; {kept} were recorded"):
            next(replay(recording, matrix, make_strategy("linear", {})))
        with pytest.raises(Incompatible, match="transition-matrix learns"):
            next(replay(recording, PromptLookup(VOCAB), make_strategy("ddtree-graft", {}), matrix))


def test_a_strategy_that_draws_its_candidates_is_refused() -> None:
    recording = Recording(PROMPT, (1, 2, 3), 3, 256, (), None)
    with pytest.raises(Incompatible, match="draws its candidates"):
        next(replay(recording, PromptLookup(VOCAB), make_strategy("sampled", {})))


class CommittedOnly(TransitionMatrix):
    """Hears of a chain's committed nodes alone, as a recorded text tells of no others."""

    def observe(self, observation: Observation) -> None:
        kept = len(observation.tokens)
        seen = observation.seen_token[:kept], observation.seen_next[:kept]
        super().observe(Observation(observation.tokens, observation.features, *seen))


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_opinions_on_the_text_are_those_of_real_decoding(family: str) -> None:
    target, request = tiny_target(family), Request("", PROMPT, NEW_TOKENS)
    real, _ = real_rounds(target, CommittedOnly(VOCAB), "linear", {"budget": 4}, request)
    recording = record(target, make_verifier(None, Sampling()), request, opinions=8)
    replayed = list(replay(recording, TransitionMatrix(VOCAB), make_strategy("linear", {"budget": 4})))
    assert_same(replayed, real)
    assert sum(item.accepted for item in replayed) > 0


def test_a_strategy_with_a_retrieval_source_is_replayed(tmp_path: Path) -> None:
    """Its drafted nodes are those of real decoding; what it retrieves comes from the text alone."""
    target, request = tiny_target("llama"), Request("", PROMPT, NEW_TOKENS)
    drafter = block_drafter(target, tmp_path)
    recording = record(target, make_verifier(None, Sampling()), request, drafter.taps, opinions=8)
    strategy = make_strategy("ddtree-graft", {"budget": 20})
    rounds = list(replay(recording, drafter, strategy, TransitionMatrix(VOCAB)))
    assert tuple(token for item in rounds for token in item.emitted) == recording.output_ids[1:]
    assert any(item.decision["grafts"]["node"] for item in rounds)
    plain = list(replay(recording, drafter, make_strategy("ddtree-graft", {"budget": 20, "retrieve": False})))
    assert_same(plain, list(replay(recording, drafter, make_strategy("ddtree", {"budget": 20}))))
