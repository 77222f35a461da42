"""Equal to the official implementation on random weights: same checkpoint folder, same target, float32."""

from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from decoding.drafters.base import Observation, no_next
from decoding.drafters.block_diffusion import BlockDiffusionDrafter, load_block_diffusion
from decoding.drafters.fitting import Fitting
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.decoding.drafters.official_dflash import official_model

TOLERANCE = 1e-5
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCAB, BLOCK, MASK = 48, 6, 2, 16, 64, 6, 63
TARGET_LAYERS, TARGET_LAYER_IDS = 7, [0, 3, 5]
SLIDING = {
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 9,
    "use_sliding_window": True,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e5, "original_max_position_embeddings": 1024}
VARIANTS: dict[str, dict[str, Any]] = {
    "published": {},
    "bias": {"attention_bias": True},
    "causal": {"is_causal": True},
    "sliding": SLIDING,
    "sliding both ways": SLIDING | {"is_causal": False},
    "yarn": {"rope_parameters": YARN},
    "scaled": {
        "dflash_config": {"input_embedding_scale": 2.5, "output_multiplier": 0.3, "final_logit_softcapping": 2.0}
    },
}


@pytest.fixture(scope="module")
def official(request: pytest.FixtureRequest) -> ModuleType:
    return official_model(request.config.cache.mkdir("official_dflash"))


def tiny_target(family: str, vocab: int = VOCAB) -> Any:
    shape = {
        "vocab_size": vocab,
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "num_hidden_layers": TARGET_LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "tie_word_embeddings": family == "qwen3",
        "initializer_range": 0.2,
        "eos_token_id": None,
    }
    torch.manual_seed(1)
    config = {"qwen3": Qwen3Config, "llama": LlamaConfig}[family](**shape)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def checkpoint(folder: Path, variant: str, *, vocab: int = VOCAB, mask: int = MASK, old_layout: bool = False) -> Path:
    return write_dflash_checkpoint(
        folder,
        hidden=HIDDEN,
        heads=HEADS,
        kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        layers=2,
        target_layers=TARGET_LAYERS,
        target_layer_ids=TARGET_LAYER_IDS,
        block_size=BLOCK,
        mask_token_id=mask,
        vocab=vocab,
        seed=4,
        old_layout=old_layout,
        extra=VARIANTS[variant],
    )


def ours(folder: Path, target: Any) -> BlockDiffusionDrafter:
    return load_block_diffusion(
        folder,
        Fitting(target.config.vocab_size, HIDDEN, TARGET_LAYERS),
        target.get_input_embeddings(),
        target.get_output_embeddings(),
    )


def observe(drafter: BlockDiffusionDrafter, features: Tensor) -> None:
    drafter.observe(Observation(np.zeros(len(features), np.int32), features, np.zeros(0, np.int32), no_next()))


def features_of(target: Any, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
    """`[tokens, taps * hidden]` for ids `[1, tokens]`, as the contract of Observation.features says."""
    with torch.no_grad():
        states = target(ids, output_hidden_states=True).hidden_states
    return torch.cat([states[tap][0] for tap in taps], -1)


@pytest.mark.parametrize("old_layout", [False, True], ids=["new layout", "old layout"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_logits_of_every_round_are_the_official_ones(
    official: ModuleType, tmp_path: Path, family: str, variant: str, old_layout: bool
) -> None:
    """The official model is driven as its own loop does, with accepted lengths from 0 to the whole block."""
    target = tiny_target(family)
    folder = checkpoint(tmp_path, variant, old_layout=old_layout)
    model = official.DFlashDraftModel.from_pretrained(folder, dtype=torch.float32).eval()
    drafter = ours(folder, target)
    text = torch.randint(0, VOCAB, (1, 60), generator=torch.Generator().manual_seed(6))
    features = features_of(target, text, drafter.taps)
    cache = official._make_cache(model.config)
    drafter.begin(60)
    start, largest = 0, 0.0
    with torch.inference_mode():
        for committed in (17, 1, 3, BLOCK, 2, 1, 1, 5, BLOCK, 4):
            known = features[start : start + committed]
            begin, start = start, start + committed
            block = torch.full((1, BLOCK), MASK)
            block[0, 0] = text[0, start]
            scale = float(official._draft_value(model.config, "input_embedding_scale", 1.0))
            hidden = model(
                target_hidden=known[None],
                noise_embedding=official._raw_input_embeddings(target, block, scale),
                position_ids=torch.arange(begin, start + BLOCK)[None],
                past_key_values=cache,
                use_cache=True,
            )[:, 1 - BLOCK :]
            official._crop_to(cache, start)
            theirs = model.compute_logits(hidden, official._output_head(target))[0]
            observe(drafter, known)
            mine = drafter.logits(int(text[0, start]))
            largest = max(largest, (mine - theirs).abs().max().item())
            torch.testing.assert_close(mine, theirs, atol=TOLERANCE, rtol=TOLERANCE)
    assert theirs.std() > 0.05
    print(f"largest difference {largest:.1e}")


@dataclass
class Watched:
    """Wraps the official model's head, to keep the logits of every draft."""

    model: Any
    logits: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        original = self.model.compute_logits

        def compute_logits(hidden: Tensor, head: Any) -> Tensor:
            logits: Tensor = original(hidden, head)
            self.logits.append(logits[0])
            return logits

        self.model.compute_logits = compute_logits


@pytest.mark.parametrize("variant", ["published", "sliding"])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_the_official_loop_drafts_the_same(
    official: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, variant: str
) -> None:
    """Its own generate() from end to end; four tokens only, so that drafts are accepted by chance."""
    vocab = 4
    target = tiny_target(family, vocab)
    folder = checkpoint(tmp_path, variant, vocab=vocab, mask=vocab - 1)
    model = official.DFlashDraftModel.from_pretrained(folder, dtype=torch.float32).eval()
    watched = Watched(model)
    prompt = torch.tensor([[0, 2, 1, 1, 0]])
    monkeypatch.setattr(official, "_cuda_time", lambda: 0.0)
    with torch.random.fork_rng():
        torch.manual_seed(2)
        run = official.dflash_generate(model, target, prompt, 60, None, temperature=1.0, return_stats=True)
    drafter = ours(folder, target)
    features = features_of(target, run.output_ids, drafter.taps)
    drafter.begin(run.output_ids.shape[1])
    begin, start, largest, compared = 0, prompt.shape[1], 0.0, 0
    for theirs, produced in zip(watched.logits, run.acceptance_lengths, strict=False):
        if len(theirs) < BLOCK - 1:
            break  # near its limit the official loop drafts a shorter block
        observe(drafter, features[begin:start])
        mine = drafter.logits(int(run.output_ids[0, start]))
        largest, compared = max(largest, (mine - theirs).abs().max().item()), compared + 1
        torch.testing.assert_close(mine, theirs, atol=TOLERANCE, rtol=TOLERANCE)
        begin, start = start, start + produced
    assert compared > 10
    assert len(set(run.acceptance_lengths)) >= 3, "the accepted lengths hardly vary: choose another seed"
    print(f"largest difference {largest:.1e}")
