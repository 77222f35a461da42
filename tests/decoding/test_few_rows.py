"""Linear layers that take the turned product give what plain ones give."""

import pytest
import torch
from torch import nn

from decoding import few_rows
from decoding.few_rows import FewRowsLinear, turn_where_faster
from tests.tiny_models import tiny_model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (1, 7, 24), (2, 3, 24), (0, 24)])
def test_the_turned_product_is_the_product(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    plain = nn.Linear(24, 40, bias=bias)
    x = torch.randn(shape)
    turned = FewRowsLinear(plain, frozenset(range(20)))(x)
    assert turned.shape == plain(x).shape
    assert turned.is_contiguous()
    torch.testing.assert_close(turned, plain(x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", ["llama", "gpt-neox", "qwen2", "qwen3-moe"])
def test_a_whole_model_is_the_same_where_layers_are_replaced(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(family)
    ids = torch.arange(3, 15)[None]
    expected = model(ids).logits
    memory = sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(few_rows, "_faster_turned", lambda _: frozenset(range(2, 40)))
    assert "(W x^T)^T" in turn_where_faster(model)
    assert any(isinstance(module, FewRowsLinear) for module in model.modules())
    assert sum(parameter.numel() for parameter in model.parameters()) == memory
    torch.testing.assert_close(model(ids).logits, expected, rtol=1e-4, atol=1e-4)


def test_nothing_is_changed_where_it_is_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("llama")
    monkeypatch.setattr(few_rows, "WORTH", 1e9)
    assert turn_where_faster(model) == ""
    assert not any(isinstance(module, FewRowsLinear) for module in model.modules())
