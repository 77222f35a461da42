"""What can be named: targets and drafters, what each is, and how a drafter's name becomes a drafter."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.base import Drafter
from decoding.drafters.block_diffusion import load_block_diffusion
from decoding.drafters.prompt_lookup import PromptLookup
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.errors import UnsupportedModel
from decoding.fit import DrafterInfo, TargetInfo, misfit
from decoding.models import PRESETS, load_causal_lm, read_config
from decoding.settings import Settings
from decoding.strategies.base import Strategy
from decoding.target import Target

BUILT_IN = (
    DrafterInfo(
        "transition-matrix",
        "Transition matrix",
        "stepwise",
        False,
        "the target's last top-8 after every token it has seen (Token Recycling); no model, learns as it runs",
    ),
    DrafterInfo(
        "prompt-lookup",
        "Prompt lookup",
        "stepwise",
        False,
        "copies what followed the same words earlier in the text; no model",
    ),
    DrafterInfo(
        "self",
        "The target itself",
        "stepwise",
        True,
        "the target drafts for itself: shows trees at their best acceptance, and is never faster",
    ),
)
