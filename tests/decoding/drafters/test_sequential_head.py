"""A sequential head: every node of a plan is thought of as the network thinks of its path, whoever runs the drafter."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from decoding.bench.position_marginals import PositionMarginals
from decoding.drafter_loading import load_drafter
from decoding.drafters.base import Observation, no_next
from decoding.drafters.block_diffusion import BlockDiffusionDrafter
from decoding.drafters.sequential_head import FILE, SequentialHead, unit
from decoding.errors import Incompatible, ModelUnavailable
from decoding.loop import Request, decode
from decoding.replay import record, replay
from decoding.sampling import Sampling
from decoding.strategies import make_strategy
from decoding.strategies.base import Growth
from decoding.target import Target
from decoding.types import Round
from decoding.verifiers import make_verifier
from tests.decoding.drafters.dflash_checkpoint import write_dflash_checkpoint
from tests.tiny_models import tiny_target

HIDDEN, POSITIONS, WIDTH = 32, 6, 12
VOCAB = 24
"""All of it is asked about, so nothing has to be guessed."""


def write_sequential_head(folder: Path, hidden: int = HIDDEN, positions: int = POSITIONS) -> SequentialHead:
    """A random one, beside whatever is in `folder`."""
    torch.manual_seed(1)
    module = SequentialHead(hidden, positions, WIDTH)
    with torch.no_grad():
        module.place.normal_()
        module.out.weight.normal_(std=0.5)
    save_file(module.state_dict(), folder / FILE)
    return module


def checkpoint(folder: Path) -> Path:
    return write_dflash_checkpoint(
        folder, hidden=HIDDEN, heads=4, kv_heads=2, head_dim=8, layers=2, target_layers=3, target_layer_ids=[0, 2],
        block_size=POSITIONS + 1, mask_token_id=4, vocab=VOCAB, seed=0,
    )  # fmt: skip


def begun(folder: Path, target: Target) -> BlockDiffusionDrafter:
    """A drafter that has read some features."""
    drafter = load_drafter(str(folder), target, print)
    assert isinstance(drafter, BlockDiffusionDrafter)
    drafter.begin(100)
    features = torch.randn(9, 2 * HIDDEN, generator=torch.Generator().manual_seed(0))
    drafter.observe(Observation(np.arange(9, dtype=np.int32), features, np.empty(0, np.int32), no_next()))
    return drafter


def grown(drafter: BlockDiffusionDrafter, budget: int, **given: bool) -> Growth:
    settings = {"budget": budget, "retrieve": False, **given}
    return make_strategy("ddtree-graft", settings).grow_beside(drafter, None, 7, 20)


@pytest.mark.parametrize("family", ["llama", "gpt-neox"])
def test_every_node_is_thought_of_as_the_network_thinks_of_its_path(family: str, tmp_path: Path) -> None:
    target = tiny_target(family, vocab_size=VOCAB)
    module = write_sequential_head(checkpoint(tmp_path))
    drafter = begun(tmp_path, target)
    assert drafter.runs_on_kernels == (family == "llama")
    tree = grown(drafter, 40).tree
    states = torch.from_numpy(drafter.sequel().states)
    paths: list[list[int]] = [[7]]
    for node in range(1, len(tree)):
        above = paths[tree.parent[node]]
        before = torch.tensor([above + [0] * (POSITIONS - len(above))])
        with torch.inference_mode():
            read = module(states[None], unit(target.embed(before)))[0, len(above) - 1]
            expected = target.head(read[None]).log_softmax(-1)[0, tree.token[node]]
        assert tree.logprob[node] == pytest.approx(float(expected), abs=2e-3)
        paths.append([*above, int(tree.token[node])])
    assert max(map(len, paths)) > 3, "no path is long enough to show how a step carries on"


def test_without_it_the_plan_is_ddtree_s(tmp_path: Path) -> None:
    write_sequential_head(checkpoint(tmp_path))
    drafter = begun(tmp_path, tiny_target("llama", vocab_size=VOCAB))
    expected = make_strategy("ddtree", {"budget": 30}).grow(drafter, 7, 20).tree
    alone = grown(drafter, 30, follow=False).tree
    assert np.array_equal(alone.token, expected.token)
    assert np.array_equal(alone.parent, expected.parent)
    assert not np.array_equal(grown(drafter, 30).tree.token, expected.token)


def test_a_head_of_another_drafter_is_refused(tmp_path: Path) -> None:
    write_sequential_head(checkpoint(tmp_path), positions=POSITIONS + 1)
    with pytest.raises(Incompatible, match=r"place.*\[7, 12\].*\[6, 12\]"):
        begun(tmp_path, tiny_target("llama", vocab_size=VOCAB))


@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_a_damaged_head_is_named(damage: str, tmp_path: Path) -> None:
    write_sequential_head(checkpoint(tmp_path))
    path = tmp_path / FILE
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    else:
        save_file({name: t for name, t in load_file(path).items() if name != "carry.weight"}, path)
    with pytest.raises(ModelUnavailable, match=FILE):
        begun(tmp_path, tiny_target("llama", vocab_size=VOCAB))


def test_what_is_measured_on_a_recorded_text_is_what_decoding_does(tmp_path: Path) -> None:
    write_sequential_head(checkpoint(tmp_path))
    target = tiny_target("llama", vocab_size=VOCAB)
    drafter = load_drafter(str(tmp_path), target, print)
    assert isinstance(drafter, BlockDiffusionDrafter)
    verifier, request = make_verifier(None, Sampling()), Request("", (5, 9, 6, 12, 3, 8), 40)
    recording = record(target, verifier, request, drafter.taps)
    table = PositionMarginals(drafter, recording, 200)
    settings = {"budget": 12, "retrieve": False}
    lived = decode(target, drafter, make_strategy("ddtree-graft", settings), verifier, request)
    trees = [item.tree for item in lived if isinstance(item, Round)]
    replayed = [item.tree for item in replay(recording, table, make_strategy("ddtree-graft", settings))]
    assert len(trees) == len(replayed) > 5
    for one, other in zip(trees, replayed, strict=True):
        assert np.array_equal(one.token, other.token)
        assert np.array_equal(one.parent, other.parent)
