"""The small Llama: a stock checkpoint, and a teacher's pupil over the whole vocabulary."""

from pathlib import Path

import numpy as np
import pytest
import torch

from decoding.drafters.autoregressive import Autoregressive
from decoding.drafters.draft_tokens import read_draft_tokens
from decoding.errors import Incompatible
from decoding.models import load_causal_lm
from decoding.target import Target
from decoding.training.copying_heads import CONSTANT
from decoding.training.corpus import Example
from decoding.training.export import export_folder
from decoding.training.features import LiveFeatures
from decoding.training.llama import CHAIN, LlamaRecipe, LlamaTrainer, _chain
from decoding.training.vocabulary import common_tokens
from tests.decoding.training.material import generator, target, teacher_of, texts
from tests.tiny_models import VOCAB

RECIPE = LlamaRecipe(
    hidden=16, layers=2, heads=4, intermediate=24, examples_per_step=3, vocabulary=40, negatives=30, draft_vocab=60
)


def trainer_of(examples: list[Example], recipe: LlamaRecipe = RECIPE, seed: int = 0) -> LlamaTrainer:
    store = LiveFeatures(target(), examples)
    return LlamaTrainer(target(), examples, store, recipe, teacher_of(examples, recipe.vocabulary), seed)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[LlamaTrainer, Path]:
    folder, trainer = tmp_path_factory.mktemp("llama"), trainer_of(texts(3))
    export_folder(folder, trainer.published(), "# card")
    return trainer, folder


def test_plain_transformers_load_it(exported: tuple[LlamaTrainer, Path]) -> None:
    from transformers import AutoModelForCausalLM

    trainer, folder = exported
    loaded, about = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not any(about[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert loaded.lm_head.weight.data_ptr() == loaded.model.embed_tokens.weight.data_ptr()
    ids = torch.tensor([texts(1)[0].tokens])
    with torch.inference_mode():
        found, wanted = loaded(input_ids=ids).logits, trainer.model(input_ids=ids).logits
    # e4m3 has three bits behind the point: a weight is off by up to 1/16
    assert float((found - wanted).norm() / wanted.norm()) < 0.1
    rounded = trainer.model.model.embed_tokens.weight.to(torch.float8_e4m3fn).float()
    assert torch.equal(loaded.model.embed_tokens.weight, rounded)
    assert AutoModelForCausalLM.from_pretrained(folder).dtype == torch.bfloat16  # what the config says, not 8 bits


def test_it_drafts_for_its_target(exported: tuple[LlamaTrainer, Path]) -> None:
    loaded = load_causal_lm(str(exported[1]), "float32", "cpu", with_tokenizer=False)
    assert loaded.tokenizer is None
    drafter = Autoregressive(Target(loaded.model, None, "trained"), VOCAB)
    candidates = [drafter.begin(16), drafter.start(5, 4)][1]
    with torch.inference_mode():
        wanted = loaded.model(input_ids=torch.tensor([[5]])).logits[0, -1].topk(4).indices
    assert candidates.token[0].tolist() == wanted.tolist()
    with pytest.raises(Incompatible, match=r"101 tokens, the target 50"):
        Autoregressive(Target(loaded.model, None, "trained"), 50)


def test_it_drafts_with_the_common_tokens(exported: tuple[LlamaTrainer, Path]) -> None:
    ids = read_draft_tokens(exported[1], VOCAB)
    assert ids is not None
    assert ids.tolist() == common_tokens(texts(3), 60, VOCAB, target().end_ids).ids.tolist()
    loaded = load_causal_lm(str(exported[1]), "float32", "cpu", with_tokenizer=False)
    drafter = Autoregressive(Target(loaded.model, None, "trained"), VOCAB, ids)
    drafter.begin(16)
    best, logits = drafter.start(5, 100), drafter.start_logits(5)
    assert logits is not None
    with torch.inference_mode():
        kept = loaded.model(input_ids=torch.tensor([[5]])).logits[0, -1, ids]
    assert sorted(best.token[0].tolist()) == [-1] * 40 + ids.tolist()
    np.testing.assert_allclose(best.logprob[0, :60], kept.log_softmax(-1).sort(descending=True).values, atol=1e-5)
    torch.testing.assert_close(logits[0, ids], kept, rtol=1e-4, atol=1e-5)
    assert set(logits.isfinite().nonzero()[:, 1].tolist()) == set(ids.tolist())


def test_it_begins_with_the_target_s_embedding_and_the_seed_decides_the_rest() -> None:
    first, again, other = (trainer_of(texts(2), seed=seed).model for seed in (0, 0, 1))
    for name, weight in first.named_parameters():
        assert torch.equal(weight, again.get_parameter(name)), name
    embedding = first.model.embed_tokens.weight.detach()
    assert torch.equal(embedding, other.model.embed_tokens.weight)
    assert not torch.equal(first.model.layers[0].mlp.up_proj.weight, other.model.layers[0].mlp.up_proj.weight)
    assert embedding[:, -1].unique().tolist() == [CONSTANT]
    embedding = embedding[:, :-1]
    assert 1.0 <= float(embedding.square().mean()) < 1.1
    table = target().embed.weight.double()
    centred = table - table.mean(0)
    kept = torch.linalg.svdvals(centred)[:15].square().sum() / centred.square().sum()
    own = torch.linalg.lstsq(embedding.double(), centred)
    left = (centred - embedding.double() @ own.solution).square().sum() / centred.square().sum()
    assert float(1 - left) == pytest.approx(float(kept), rel=1e-4)  # no projection onto 15 directions keeps more


def test_its_loss_counts_responses_with_random_tokens_beside_the_common_ones() -> None:
    examples = texts(2)
    trainer = trainer_of(examples)
    loss, numbers = trainer.loss([0, 1], generator(4))
    negatives = torch.randint(VOCAB, (RECIPE.negatives,), generator=generator(4))
    common, place = trainer.teacher.common.ids, trainer.teacher.common.place
    others = [token for token in negatives.tolist() if place[token] < 0]
    assert 0 < len(others) < RECIPE.negatives
    each, right, spoken = [], [], 0
    for example in examples:
        ids = torch.tensor([example.tokens])
        with torch.no_grad():
            logits = trainer.model(input_ids=ids).logits[0]
            teacher = target().model(input_ids=ids).logits[0][:, common].softmax(-1)
        for at in range(len(example.prompt) - 1, len(example) - 1):
            label = example.tokens[at + 1]
            normaliser = torch.cat([logits[at, common], logits[at, others]]).logsumexp(-1)
            hard = float(normaliser - logits[at, label]) if place[label] >= 0 else 0.0
            soft = float(normaliser - (teacher[at] * logits[at, common]).sum())
            each.append(0.3 * hard + 0.7 * soft)
            if at >= len(example.prompt):
                right.append(int(common[logits[at, common].argmax()]) == label)
                spoken += 1
    assert float(loss) == pytest.approx(float(np.mean(each)), rel=1e-4)
    assert float(numbers["top1"]) == pytest.approx(sum(right) / spoken)


def test_the_chain_is_counted_from_every_place() -> None:
    hits = torch.tensor([[1, 1, 0, 1, 0, 0, 0.0]])
    counted = torch.tensor([[True, True, True, True, True, False, False]])
    # From the five places 2, 1, 0, 1 and 0 tokens are right in a row.
    assert float(_chain(hits * counted, counted)) == pytest.approx(1 + 4 / 5)
    assert float(_chain(torch.ones(1, 30), torch.ones(1, 30) > 0)) == pytest.approx(
        1 + sum(30 - step for step in range(CHAIN)) / 30
    )


def test_every_weight_learns_also_in_bfloat16() -> None:
    trainer = trainer_of(texts(3))
    exact = float(trainer.loss([0, 1, 2], generator())[0])
    with torch.autocast("cpu", torch.bfloat16):
        loss = trainer.loss([0, 1, 2], generator())[0]
    loss.backward()
    assert float(loss) == pytest.approx(exact, rel=0.05)
    for name, weight in trainer.model.named_parameters():
        assert weight.grad is not None, name
        assert float(weight.grad.abs().max()) > 0, name
