"""What a published DFlash checkpoint says of itself (arXiv 2602.06036), in both layouts of its config.json."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import Qwen3Config

from decoding.drafters.checkpoint import read_json
from decoding.drafters.target_states import require_made_for
from decoding.errors import Incompatible, UnsupportedModel

ARCHITECTURE = "DFlashDraftModel"
KNOWN_DFLASH_KEYS = frozenset(
    {
        "block_size",
        "mask_token_id",
        "target_layer_ids",
        "input_embedding_scale",
        "output_multiplier",
        "final_logit_softcapping",
    }
)
FOREIGN_KEYS = {
    "selector_rank": "DFlash 2's candidate selector",
    "selector_top_k": "DFlash 2's candidate selector",
    "conv_kernel_size": "DFlash 2's convolutions",
    "conv_group_size": "DFlash 2's convolutions",
    "markov_rank": "a Markov head",
    "enable_confidence_head": "a confidence head",
    "fc_layernorm": "norms before fc",
    "quantization_config": "quantized weights",
    "speculators_model_type": "the layout of the speculators library",
}


@dataclass(frozen=True)
class BlockDiffusionConfig:
    """One DFlash drafter. Field names are ours; the comments of `from_dict` say where each comes from."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    activation: str
    attention_bias: bool
    norm_eps: float
    block_size: int
    """Rows of one draft: the root and `block_size - 1` masks."""
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    """Target layers whose outputs are the context, counted from 0: `hidden_states[id + 1]`."""
    target_layers: int | None
    vocab: int | None
    windows: tuple[int | None, ...]
    """Per layer: the sliding window (a key is seen when it lies fewer places away), None for full attention."""
    causal: tuple[bool, ...]
    """Per layer: whether a row of the block sees only the rows before it. Published full layers are not causal."""
    embedding_scale: float
    output_multiplier: float
    logit_softcap: float | None
    rope: Qwen3Config
    """The stock config, kept for transformers' rope utilities."""

    @property
    def layers(self) -> int:
        return len(self.windows)

    @property
    def taps(self) -> tuple[int, ...]:
        """Indices into the target's `hidden_states` (0 is the embedding)."""
        return tuple(layer + 1 for layer in self.target_layer_ids)

    @staticmethod
    def from_folder(folder: Path) -> "BlockDiffusionConfig":
        """Reads `config.json`; raises ModelUnavailable, or UnsupportedModel as `from_dict` does."""
        return BlockDiffusionConfig.from_dict(read_json(folder / "config.json"))

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> "BlockDiffusionConfig":
        """Reads the content of config.json; raises UnsupportedModel naming what is not implemented or not usable.

        What belongs to the block stands at the top level (older) or inside `dflash_config` (newer, wins).
        """
        dflash = raw.get("dflash_config") or {}
        _refuse_foreign(raw, dflash)

        def value(name: str, default: Any = None) -> Any:
            return dflash.get(name, raw.get(name, default))

        try:
            stock = Qwen3Config.from_dict(dict(raw))
            windows = _windows(stock)
            config = BlockDiffusionConfig(
                hidden=stock.hidden_size,
                intermediate=stock.intermediate_size,
                heads=stock.num_attention_heads,
                kv_heads=stock.num_key_value_heads,
                head_dim=stock.head_dim,
                activation=stock.hidden_act,
                attention_bias=bool(stock.attention_bias),
                norm_eps=float(stock.rms_norm_eps),
                block_size=int(value("block_size", 16)),
                mask_token_id=int(_required(value("mask_token_id"), "mask_token_id")),
                target_layer_ids=_target_layer_ids(value("target_layer_ids"), raw, stock.num_hidden_layers),
                target_layers=raw.get("num_target_layers"),
                vocab=raw.get("vocab_size"),
                windows=windows,
                causal=_causal(raw.get("is_causal"), windows),
                embedding_scale=float(value("input_embedding_scale", 1.0)),
                output_multiplier=float(value("output_multiplier", 1.0)),
                logit_softcap=_positive(value("final_logit_softcapping")),
                rope=stock,
            )
        except UnsupportedModel:
            raise
        except Exception as error:  # transformers' config checks raise their own kinds, and a wrong type raises here
            raise UnsupportedModel(f"The drafter's config.json is not usable: {error}.", "") from error
        config._check(raw)
        return config

    def _check(self, raw: Mapping[str, Any]) -> None:
        wide = raw.get("target_hidden_size") or self.hidden
        if wide != self.hidden:
            # The target's embedding feeds the drafter and its head reads it, so only one width can work.
            raise _unsupported(f"its hidden size is {self.hidden} and its target_hidden_size {wide}")
        if raw.get("draft_vocab_size") not in (None, self.vocab):
            raise _unsupported(f"it has a vocabulary of its own (draft_vocab_size {raw['draft_vocab_size']})")
        if self.block_size < 2:
            raise _unsupported(f"block_size is {self.block_size}, which leaves nothing to draft")
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise _unsupported(f"{self.heads} heads, {self.kv_heads} kv heads, head_dim {self.head_dim} do not fit")
        if not self.target_layer_ids or min(self.target_layer_ids) < 0:
            raise _unsupported(f"target_layer_ids is {list(self.target_layer_ids)}")
        if self.vocab is not None and not 0 <= self.mask_token_id < self.vocab:
            raise _unsupported(f"mask_token_id {self.mask_token_id} lies outside its vocabulary of {self.vocab}")

    def check_target(self, hidden: int, layers: int, vocab: int) -> None:
        """Raises Incompatible, naming both numbers, when the drafter was not made for such a target."""
        require_made_for(
            (
                ("hidden size", self.hidden, hidden),
                ("number of layers", self.target_layers, layers),
                ("vocabulary", self.vocab, vocab),
            )
        )
        if max(self.target_layer_ids) >= layers:
            raise Incompatible(
                f"The drafter reads target layer {max(self.target_layer_ids)}; the target has {layers} (from 0).",
                "Choose the drafter that was trained for this target.",
            )
        if not 0 <= self.mask_token_id < vocab:
            raise Incompatible(
                f"The drafter's mask token {self.mask_token_id} lies outside the target's vocabulary of {vocab}.",
                "Choose the drafter that was trained for this target.",
            )


def default_target_layer_ids(target_layers: int, count: int) -> tuple[int, ...]:
    """`count` layers spread evenly from the second to the third last: round(1 + i(N - 4)/(count - 1)).

    For N = 36 and 5: 1, 9, 17, 25, 33. A single one is the middle layer, N // 2.
    """
    if count == 1:
        return (target_layers // 2,)
    return tuple(round(1 + i * (target_layers - 4) / (count - 1)) for i in range(count))


def _unsupported(what: str) -> UnsupportedModel:
    return UnsupportedModel(f"This DFlash checkpoint cannot be used: {what}.", "See the drafters that are listed.")


def _refuse_foreign(raw: Mapping[str, Any], dflash: object) -> None:
    architectures = raw.get("architectures")
    if architectures != [ARCHITECTURE]:
        raise _unsupported(f"its architectures are {architectures}, and only {ARCHITECTURE} is implemented")
    if raw.get("model_type") != "qwen3":
        raise _unsupported(f"its model_type is {raw.get('model_type')!r}, and only 'qwen3' is implemented")
    if not isinstance(dflash, Mapping):
        raise _unsupported("dflash_config is not an object")
    for key, meaning in FOREIGN_KEYS.items():
        if raw.get(key) or dflash.get(key):
            raise _unsupported(f"it asks for {meaning} ({key}), which is not implemented")
    unknown = sorted(key for key in dflash if key not in KNOWN_DFLASH_KEYS and dflash[key])
    if unknown:
        raise _unsupported(f"dflash_config says {', '.join(unknown)}, which is not implemented")


def _required(given: Any, name: str) -> Any:
    if given is None:
        raise _unsupported(f"its config says no {name}")
    return given


def _target_layer_ids(given: Any, raw: Mapping[str, Any], draft_layers: int) -> tuple[int, ...]:
    if given is not None:
        return tuple(int(layer) for layer in given)
    return default_target_layer_ids(int(_required(raw.get("num_target_layers"), "num_target_layers")), draft_layers)


def _windows(stock: Any) -> tuple[int | None, ...]:
    kinds = list(stock.layer_types)
    if len(kinds) != stock.num_hidden_layers:
        raise _unsupported(f"layer_types names {len(kinds)} layers and num_hidden_layers {stock.num_hidden_layers}")
    unknown = sorted(set(kinds) - {"full_attention", "sliding_attention"})
    if unknown:
        raise _unsupported(f"layer_types says {', '.join(unknown)}")
    if "sliding_attention" in kinds and not stock.sliding_window:
        raise _unsupported("it has sliding layers but no sliding_window (or use_sliding_window is off)")
    return tuple(int(stock.sliding_window) if kind == "sliding_attention" else None for kind in kinds)


def _causal(given: Any, windows: tuple[int | None, ...]) -> tuple[bool, ...]:
    """Without `is_causal`, sliding layers are causal and full layers are not, as in the published code."""
    return tuple(window is not None if given is None else bool(given) for window in windows)


def _positive(given: Any) -> float | None:
    return float(given) if given is not None and float(given) > 0 else None
