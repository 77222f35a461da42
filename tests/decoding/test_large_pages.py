"""Parameters keep their values, their names and their ties when they move."""

import torch
from torch import nn

from decoding.large_pages import LINE, gather


def test_parameters_move_side_by_side_and_keep_their_values_and_ties() -> None:
    module = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 5, bias=False), nn.Linear(5, 7))
    module[2].weight = module[0].weight
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    gather(module)
    assert module[2].weight is module[0].weight
    places = [parameter.data_ptr() for parameter in module.parameters()]
    assert all(place % (4 * LINE) == 0 for place in places)
    assert places == sorted(places)
    assert places[-1] - places[0] == 4 * (48 + 16 + 48)  # 35, 7 and 35 numbers, each in whole lines
    for name, parameter in module.named_parameters():
        assert parameter.requires_grad
        assert torch.equal(parameter, before[name])
