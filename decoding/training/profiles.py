"""How much of everything: for two CPU cores in about an hour a drafter, and for one large GPU."""

from dataclasses import dataclass

from decoding.training.block_diffusion import BlockRecipe
from decoding.training.eagle3 import Eagle3Recipe
from decoding.training.fit_loop import FitOptions
from decoding.training.llama import LlamaRecipe
from decoding.training.sequential_head import SequentialRecipe


@dataclass(frozen=True)
class Profile:
    """Everything that depends on the machine."""

    examples: int
    """Prompts to be continued."""
    look_alikes: int
    """Texts outside a chat, and answers to what is made from them."""
    max_new_tokens: int
    rows: int
    """Texts written at once; the cache of the longest ones takes 23 kB a token in bfloat16."""
    feature_tokens: int | None
    """Tokens read at once when features are made and kept; None where the target reads anew for every step."""
    block: BlockRecipe
    block_fit: FitOptions
    sequential: SequentialRecipe
    sequential_fit: FitOptions
    eagle3: Eagle3Recipe
    eagle3_fit: FitOptions
    llama: LlamaRecipe
    llama_fit: FitOptions


PROFILES = {
    "cpu": Profile(
        examples=1500,
        look_alikes=1500,
        max_new_tokens=192,
        rows=64,
        feature_tokens=2048,
        block=BlockRecipe(),
        block_fit=FitOptions(steps=3000, rate=1e-3),
        sequential=SequentialRecipe(),
        sequential_fit=FitOptions(steps=2000, rate=2e-3),
        eagle3=Eagle3Recipe(examples_per_step=4),
        eagle3_fit=FitOptions(steps=1200, rate=1e-3),
        llama=LlamaRecipe(examples_per_step=8),
        llama_fit=FitOptions(steps=4000, rate=2e-3),
    ),
    "gpu": Profile(
        examples=40_000,
        look_alikes=40_000,
        max_new_tokens=256,
        rows=1024,
        feature_tokens=None,
        block=BlockRecipe(block_size=16, examples_per_step=48, anchors=64),
        block_fit=FitOptions(steps=4000, rate=1e-3, save_every=500, log_every=50),
        sequential=SequentialRecipe(),
        sequential_fit=FitOptions(steps=3000, rate=2e-3, save_every=500, log_every=50),
        eagle3=Eagle3Recipe(test_steps=7, examples_per_step=48),
        eagle3_fit=FitOptions(steps=3000, rate=1e-3, save_every=500, log_every=50),
        llama=LlamaRecipe(layers=6, examples_per_step=128, negatives=8192),
        llama_fit=FitOptions(steps=3000, rate=2e-3, save_every=500, log_every=50),
    ),
}
