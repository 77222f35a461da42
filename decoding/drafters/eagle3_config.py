"""What a published EAGLE-3 checkpoint says of itself (arXiv 2503.01840), in the layouts that its trainers write.

EAGLE, SpecForge, AngelSlim and ModelOpt write one flat config.json; the speculators library nests the layer's part in
`transformer_layer_config`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import LlamaConfig

from decoding.drafters.checkpoint import read_json
from decoding.drafters.target_states import require_made_for
from decoding.errors import Incompatible, UnsupportedModel
from decoding.model_config import DRAFTER_KINDS, EAGLE3, NESTED_LAYER, flat_config

ARCHITECTURES = tuple(name for name, kind in DRAFTER_KINDS.items() if kind == EAGLE3)
LEAST_LAYERS = 7
"""From here on the default taps are three different layers."""
FOREIGN_KEYS = {
    "norm_before_fc": "a norm before fc",
    "fc_norm": "norms before fc",
    "norm_output": "a normed recurrent state",
    "mlp_bias": "biases in its feed-forward part",
    "quantization_config": "quantized weights",
}


@dataclass(frozen=True)
class Eagle3Config:
    """One EAGLE-3 drafter: a single Llama layer over the target's hidden states."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    activation: str
    attention_bias: bool
    norm_eps: float
    vocab: int
    """The target's vocabulary."""
    draft_vocab: int
    """The drafter's own: the commonest tokens of the target's."""
    norm_before_residual: bool
    """Whether the residual path starts from the normed hidden state (speculators) or the plain one (EAGLE)."""
    tap_ids: tuple[int, ...] | None
    """Indices into the target's `hidden_states`, where the config names them."""
    target_hidden: int
    target_layers: int | None
    max_context: int
    """Positions that it was made for."""
    rope: LlamaConfig
    """The stock config, kept for transformers' rope utilities."""

    @property
    def tap_count(self) -> int:
        """How many hidden states are fused."""
        return 3 if self.tap_ids is None else len(self.tap_ids)

    def taps(self, target_layers: int) -> tuple[int, ...]:
        """Indices into the `hidden_states` (0 is the embedding) of a target with so many layers."""
        return (2, target_layers // 2, target_layers - 3) if self.tap_ids is None else self.tap_ids

    @staticmethod
    def from_folder(folder: Path) -> "Eagle3Config":
        """Reads `config.json`; raises ModelUnavailable, or UnsupportedModel as `from_dict` does."""
        return Eagle3Config.from_dict(read_json(folder / "config.json"))

    @staticmethod
    def from_dict(nested: Mapping[str, Any]) -> "Eagle3Config":
        """Reads the content of config.json; raises UnsupportedModel naming what is not implemented or not usable."""
        raw = flat_config(nested)
        _refuse_foreign(raw)
        try:
            stock = LlamaConfig.from_dict(raw)
            vocab, hidden = int(raw["vocab_size"]), int(raw["hidden_size"])
            config = Eagle3Config(
                hidden=hidden,
                intermediate=stock.intermediate_size,
                heads=stock.num_attention_heads,
                kv_heads=stock.num_key_value_heads,
                head_dim=stock.head_dim,
                activation=stock.hidden_act,
                attention_bias=bool(stock.attention_bias),
                norm_eps=float(stock.rms_norm_eps),
                vocab=vocab,
                draft_vocab=int(raw.get("draft_vocab_size") or vocab),
                # speculators' own default is the other way round
                norm_before_residual=bool(raw.get("norm_before_residual", NESTED_LAYER in nested)),
                tap_ids=_tap_ids(raw),
                target_hidden=int(raw.get("target_hidden_size") or hidden),
                target_layers=raw.get("num_target_layers"),
                max_context=int(stock.max_position_embeddings),
                rope=stock,
            )
        except UnsupportedModel:
            raise
        except KeyError as error:
            raise _unsupported(f"its config says no {error.args[0]}") from None
        except Exception as error:  # transformers' config checks raise their own kinds, and a wrong type raises here
            raise UnsupportedModel(f"The drafter's config.json is not usable: {error}.", "") from error
        config._check()
        return config

    def _check(self) -> None:
        if not 0 < self.draft_vocab <= self.vocab:
            raise _unsupported(f"draft_vocab_size is {self.draft_vocab} and vocab_size {self.vocab}")
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise _unsupported(f"{self.heads} heads, {self.kv_heads} kv heads, head_dim {self.head_dim} do not fit")
        if self.tap_ids is not None and min(self.tap_ids) < 0:
            raise _unsupported(f"eagle_aux_hidden_state_layer_ids is {list(self.tap_ids)}")

    def check_target(self, hidden: int, layers: int, vocab: int) -> None:
        """Raises Incompatible, naming both numbers, when the drafter was not made for such a target."""
        require_made_for(
            (
                ("hidden size", self.target_hidden, hidden),
                ("number of layers", self.target_layers, layers),
                ("vocabulary", self.vocab, vocab),
            )
        )
        if self.tap_ids is None and layers < LEAST_LAYERS:
            raise _other_target(
                f"reads hidden states 2, n // 2 and n - 3 of a target with at least {LEAST_LAYERS} layers; "
                f"this one has {layers}"
            )
        # hidden_states[layers] is the one after the final norm, which no EAGLE-3 drafter was trained on.
        if max(self.taps(layers)) >= layers:
            raise _other_target(f"reads hidden state {max(self.taps(layers))}; the target has {layers} layers")


def _unsupported(what: str) -> UnsupportedModel:
    return UnsupportedModel(f"This EAGLE-3 checkpoint cannot be used: {what}.", "See the drafters that are listed.")


def _other_target(what: str) -> Incompatible:
    return Incompatible(f"The drafter {what}.", "Choose the drafter that was trained for this target.")


def _refuse_foreign(raw: Mapping[str, Any]) -> None:
    architectures = raw.get("architectures")
    if not isinstance(architectures, list) or not set(architectures) & set(ARCHITECTURES):
        raise _unsupported(f"its architectures are {architectures}; {', '.join(ARCHITECTURES)} are implemented")
    if raw.get("model_type", "llama") != "llama":
        raise _unsupported(f"its model_type is {raw.get('model_type')!r}, and only 'llama' is implemented")
    for key, meaning in FOREIGN_KEYS.items():
        if raw.get(key):
            raise _unsupported(f"it asks for {meaning} ({key}), which is not implemented")
    if raw.get("sliding_window") and raw.get("use_sliding_window") is not False:
        raise _unsupported(f"it attends through a sliding window of {raw['sliding_window']}, which is not implemented")


def _tap_ids(raw: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The hidden states that the config names.

    At the top level an id is an index into `hidden_states` (vLLM); inside `eagle_config` it counts layers whose
    output is meant, from 0, and is one less (SpecForge and SGLang; vLLM reads these as indices, too).
    """
    inner = raw.get("eagle_config") or {}
    if not inner.get("use_aux_hidden_state", True):
        raise _unsupported("it does not read fused hidden states (use_aux_hidden_state is off)")
    if raw.get("eagle_aux_hidden_state_layer_ids"):
        return tuple(int(index) for index in raw["eagle_aux_hidden_state_layer_ids"])
    if inner.get("eagle_aux_hidden_state_layer_ids"):
        return tuple(int(layer) + 1 for layer in inner["eagle_aux_hidden_state_layer_ids"])
    return None
