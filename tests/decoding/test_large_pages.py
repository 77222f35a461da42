"""Parameters keep their values, their names and their ties when they move."""

import torch
from torch import nn

from decoding.large_pages import LINE, exact_in_bfloat16, gather


def test_parameters_move_side_by_side_and_keep_their_values_and_ties() -> None:
    module = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 5, bias=False), nn.Linear(5, 7))
    module[2].weight = module[0].weight
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    gather(module)
    assert module[2].weight is module[0].weight
    places = [parameter.data_ptr() for parameter in module.parameters()]
    assert all(place % LINE == 0 for place in places)
    assert places == sorted(places)
    assert places[-1] - places[0] == 192 + 64 + 192  # 35, 7 and 35 numbers of 4 bytes, each in whole lines
    for name, parameter in module.named_parameters():
        assert parameter.requires_grad
        assert torch.equal(parameter, before[name])


def test_matrices_that_bfloat16_holds_may_be_kept_in_it() -> None:
    module = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 5))
    assert not exact_in_bfloat16(module)
    for linear in module:
        linear.weight.data = linear.weight.data.to(torch.bfloat16).float()
    assert exact_in_bfloat16(module)  # biases are kept as they are
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    gather(module, narrow=True)
    for name, parameter in module.named_parameters():
        assert parameter.dtype == (torch.bfloat16 if parameter.ndim == 2 else torch.float32)
        assert parameter.data_ptr() % LINE == 0
        assert torch.equal(parameter.float(), before[name])
