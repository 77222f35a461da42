"""Heads that copy, built into an EAGLE-3 drafter: what they make likelier, and what they leave as it was."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from decoding.drafters.eagle3_config import Eagle3Config
from decoding.drafters.eagle3_model import Eagle3Model
from decoding.drafters.network import rotation
from decoding.training.eagle3 import test_mask as seen_mask
from decoding.training.eagle3_copying import copies, copying_config, with_copying_heads
from decoding.training.export import Checkpoint, export_folder, in_bfloat16
from tests.decoding.drafters.eagle3_checkpoint import SHAPE

VOCAB, HIDDEN, SIZE, LENGTH = 400, 96, 32, 3.0
WORDS, GAP = 20, 60
RAW = {
    **SHAPE, "vocab_size": VOCAB, "draft_vocab_size": VOCAB, "hidden_size": HIDDEN, "head_dim": SIZE,
    "num_attention_heads": 3, "num_key_value_heads": 3, "rope_theta": 100_000.0,
    "architectures": ["LlamaForCausalLMEagle3"],
}  # fmt: skip
TAPS = (2, 4, 5)


def embedding() -> Tensor:
    torch.manual_seed(3)
    return torch.randn(VOCAB, HIDDEN) * torch.linspace(1.4, 0.6, HIDDEN)


def drafter() -> Eagle3Model:
    torch.manual_seed(0)
    model = Eagle3Model(Eagle3Config.from_dict(RAW))
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.1)
        model.lm_head.weight.copy_(embedding())
    return model


def grown(model: Eagle3Model) -> Eagle3Model:
    config = Eagle3Config.from_dict(copying_config(RAW, TAPS))
    return with_copying_heads(model, config, embedding(), LENGTH)


@torch.inference_mode()
def logits(model: Eagle3Model, tokens: Tensor, features: Tensor) -> Tensor:
    """After every entry of a text; entry i pairs token i + 1 with the features of position i."""
    rows = len(tokens) - 1
    table = rotation(model.config, rows, torch.float32, torch.device("cpu"))
    mask = seen_mask(rows, 0, torch.device("cpu"))
    return model.logits(model(embedding()[tokens[1:]], model.fuse(features), lambda pairs: pairs, table, mask))


def text(gap: int) -> tuple[Tensor, Tensor]:
    """Words, `gap` others and the words once more, and the features of its positions, the embedding first."""
    rng = torch.Generator().manual_seed(1)
    ids = torch.randperm(VOCAB, generator=rng)[: WORDS + gap]
    tokens = torch.cat([ids, ids[:WORDS]])
    fused = torch.randn(len(tokens) - 1, len(TAPS) * HIDDEN, generator=rng)
    return tokens, torch.cat([embedding()[tokens[:-1]], fused], dim=1)


@pytest.mark.parametrize("gap", [0, GAP])
def test_what_followed_the_token_before_becomes_likelier(gap: int) -> None:
    model, (tokens, features) = drafter(), text(gap)
    without, copied = logits(model, tokens, features[:, HIDDEN:]), logits(grown(model), tokens, features)
    again = torch.arange(WORDS + gap, len(tokens) - 1)  # entries whose next token has been seen behind the same token
    wanted = tokens[again + 1, None]

    def median_rank(found: Tensor) -> float:
        rows = found[again - 1]
        return float((rows > rows.gather(1, wanted)).sum(1).float().median())

    assert median_rank(copied) < 5 < 50 < median_rank(without)


def test_what_the_drafter_could_do_before_is_still_there() -> None:
    model, rng = drafter(), torch.Generator().manual_seed(2)
    larger = grown(model)
    theirs = model.state_dict()
    for name, tensor in larger.state_dict().items():
        old = theirs[name]
        part = tensor[:, : old.shape[1]] if name.endswith("o_proj.weight") else tensor[: len(old)]
        if name != "fc.weight":
            assert torch.equal(part, old), name
    features = torch.randn(50, len(TAPS) * HIDDEN, generator=rng)
    before = model.fuse(features)
    after = larger.fuse(torch.cat([torch.zeros(50, HIDDEN), features], dim=1))
    lost = torch.linalg.svdvals(before - after)
    assert int((lost > 1e-3).sum()) == SIZE  # as many directions as the token before takes, and no others


def test_directions_are_given_up_that_the_head_reads_least() -> None:
    model = drafter()
    with torch.no_grad():
        model.lm_head.weight[:, :SIZE] *= 0.01
    larger = grown(model)
    written = larger.fc.weight[:, :HIDDEN].square().sum(1)
    assert float(written[:SIZE].sum() / written.sum()) > 0.99


def test_a_checkpoint_says_whether_it_copies(tmp_path: Path) -> None:
    model = drafter()
    export_folder(tmp_path / "before", Checkpoint(in_bfloat16(model.state_dict()), RAW), "# card")
    raw = copying_config(RAW, TAPS)
    export_folder(tmp_path / "after", Checkpoint(in_bfloat16(grown(model).state_dict()), raw), "# card")
    assert not copies(tmp_path / "before")
    assert copies(tmp_path / "after")
    config = Eagle3Config.from_folder(tmp_path / "after")
    assert (config.heads, config.kv_heads, config.taps(30)) == (6, 6, (0, *TAPS))
