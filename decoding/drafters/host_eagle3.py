"""EAGLE-3's layer on a CPU, by the kernels."""

from torch import Tensor

from decoding.drafters.eagle3_model import Eagle3Model
from decoding.drafters.network import Rotation
from decoding.host_layers import HostLayers, kernels_suit, narrowed
from decoding.kernel_linear import KernelLinear
from decoding.kernels.crew import run_together
from decoding.kernels.eagle import Pairs, eagle_pass


def host_eagle3(model: Eagle3Model) -> "HostEagle3 | None":
    """The kernels' way through a float32 model on a CPU; None where they cannot do what it does.

    With it, all products of the model are the kernels': torch's threads would go on looking for work on their cores.
    """
    weight = model.fc.weight
    if not kernels_suit(weight.device, weight.dtype, model.config.activation):
        return None
    layer = narrowed(model, lambda: HostEagle3(model))
    if layer is not None:
        model.fc, model.lm_head = KernelLinear(model.fc), KernelLinear(model.lm_head)
    return layer


class HostEagle3:
    """See `host_eagle3`."""

    def __init__(self, model: Eagle3Model) -> None:
        layer = model.midlayer
        self._layers = HostLayers([layer], model.norm, model.config.head_dim**-0.5)
        self._hidden_norm = layer.hidden_norm.weight.detach().numpy()
        self._from_normed = layer.norm_before_residual

    def run(
        self, embedded: Tensor, hidden: Tensor, rotation: Rotation, slab: Tensor, behind: int, mask: Tensor | None
    ) -> Tensor:
        """Recurrent states `[rows, hidden]`, as `Eagle3Model.forward` gives them.

        The entries are written behind the first `behind` of `slab` `[2, kv_heads, entries, head_dim]`. `mask` is
        additive, `[rows, behind + rows]`; without one every row sees itself and all before it.
        """
        state = hidden.clone()
        keys, values = slab[:, None]
        run = self._layers.new_pass(
            state, rotation.cos, rotation.sin, keys, values, behind, mask, ins=2 * embedded.shape[1]
        )
        run_together(
            eagle_pass, self._layers.weights, run, Pairs(embedded.numpy(), self._hidden_norm, self._from_normed)
        )
        return state
