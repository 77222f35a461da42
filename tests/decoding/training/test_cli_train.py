"""`python -m decoding train` from prompts to checkpoints, on a target that is tiny and random."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from decoding.__main__ import main
from decoding.drafters.block_diffusion import load_block_diffusion
from decoding.drafters.checkpoint import tensor_shapes
from decoding.drafters.eagle3 import load_eagle3
from decoding.drafters.fitting import Fitting
from decoding.drafters.sequential_head import FILE, read_sequential_head
from decoding.drafters.transition_matrix import TransitionMatrix
from decoding.models import load_causal_lm
from decoding.training import profiles, scribe, workshop
from decoding.training.block_diffusion import BlockRecipe
from decoding.training.corpus import append_examples, read_corpus
from decoding.training.eagle3 import Eagle3Recipe
from decoding.training.eagle3_copying import copies
from decoding.training.fit_loop import FitOptions
from decoding.training.llama import LlamaRecipe
from decoding.training.profiles import Profile
from decoding.training.sequential_head import CARD, SequentialRecipe
from tests.decoding.training.material import LAYERS, chat_tokenizer, texts
from tests.tiny_models import tiny_model

VOCAB = 97
STEPS = FitOptions(steps=3, warmup=1, log_every=1, save_every=2)
TINY = Profile(
    examples=40, look_alikes=40, max_new_tokens=16, rows=16, feature_tokens=200,
    block=BlockRecipe(layers=2, block_size=4, taps=(2, 4, 5, 6), mask_token_id=3, vocabulary=50, anchors=4),
    block_fit=STEPS,
    sequential=SequentialRecipe(width=8), sequential_fit=STEPS,
    eagle3=Eagle3Recipe(draft_vocab=50, test_steps=2, examples_per_step=4), eagle3_fit=STEPS,
    llama=LlamaRecipe(hidden=16, layers=2, heads=4, intermediate=24, examples_per_step=4, vocabulary=50, negatives=8),
    llama_fit=STEPS,
)  # fmt: skip
DTYPE = torch.float32


@pytest.fixture(scope="module")
def model() -> Any:
    """It ends a text often, so that its own questions are short."""
    whole = tiny_model("llama", num_hidden_layers=LAYERS, vocab_size=VOCAB)
    whole.generation_config.eos_token_id = [1, *range(10, VOCAB, 20)]
    return whole


@pytest.fixture(autouse=True)
def tiny(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = SimpleNamespace(model=model, tokenizer=chat_tokenizer(), name="smollm2-135m")
    monkeypatch.setattr(workshop, "load_causal_lm", lambda *_: loaded)
    monkeypatch.setattr(scribe, "LONG", 3)
    monkeypatch.setitem(profiles.PROFILES, "cpu", TINY)
    monkeypatch.setitem(profiles.PROFILES, "gpu", replace(TINY, feature_tokens=None))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the published prompts, where the work of all kinds is done."""
    folder = tmp_path_factory.mktemp("train")
    data = folder / "data"
    data.mkdir()
    rows = {
        "gsm8k_train.jsonl": [{"question": f"w{n} w{n + 1} w{n + 2}"} for n in range(3, 30)],
        "user_oriented_instructions.jsonl": [{"instruction": f"w{n}"} for n in range(3, 8)],
        "seed_tasks.jsonl": [{"instruction": f"w{n} w3"} for n in range(3, 8)],
    }
    for name, lines in rows.items():
        (data / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def train(place: Path, kind: str, *options: str, out: str = "out") -> int:
    given = options if "--corpus" in options else ("--data", str(place / "data"), *options)
    return main(["train", kind, "--out", str(place / out / kind), "--work", str(place / "work"), *given])


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return result


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused request prints."""
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    last = said.err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    return last


def check(kind: str, folder: Path, whole: Any) -> None:
    """The checkpoint is one that its reader takes."""
    embed, head = whole.get_input_embeddings(), whole.get_output_embeddings()
    if kind == "block-diffusion":
        load_block_diffusion(folder, Fitting(VOCAB, 32, LAYERS, DTYPE), embed, head)
    elif kind == "eagle3":
        load_eagle3(folder, Fitting(VOCAB, 32, LAYERS, DTYPE), embed)
    elif kind == "llama":
        assert load_causal_lm(str(folder), "float32", "cpu", with_tokenizer=False).config.vocab_size == VOCAB
    else:
        TransitionMatrix(VOCAB, torch.device("cpu")).load(folder / "model.safetensors")


@pytest.mark.parametrize("kind", ["block-diffusion", "eagle3", "llama", "matrix"])
def test_from_prompts_to_a_checkpoint(kind: str, place: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(place, kind) == 0
    said = last_line(capsys)
    assert (said["kind"], said["out"]) == (kind, str(place / "out" / kind))
    assert said["held_out"]
    assert all(value >= 0 for value in said["held_out"].values())
    folder = place / "out" / kind
    check(kind, folder, model)
    card = (folder / "README.md").read_text()
    for words in (f"python -m decoding train {kind}", "Seed 0", "prompts (", "Apache-2.0"):
        assert words in card, words
    assert kind == "matrix" or "| step | loss |" in card
    # Again: nothing is left to train, and the checkpoint is the same.
    assert train(place, kind, out="again") == 0
    assert (place / "again" / kind / "SHA256SUMS").read_text() == (folder / "SHA256SUMS").read_text()
    # From the beginning, with the same seed.
    (place / "work" / kind / "checkpoint.pt").unlink(missing_ok=True)
    assert train(place, kind, out="anew") == 0
    assert (place / "anew" / kind / "SHA256SUMS").read_text() == (folder / "SHA256SUMS").read_text()


def test_a_sequential_head_stands_beside_the_drafter_that_it_was_trained_for(
    place: Path, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(place, "block-diffusion", out="drafter") == 0
    drafter = place / "drafter" / "block-diffusion"
    before = {path.name: path.read_bytes() for path in drafter.iterdir()}
    assert train(place, "sequential-head", "--begin-with", str(drafter), out="head") == 0
    assert last_line(capsys)["held_out"]["chain"] >= 1
    folder = place / "head" / "sequential-head"
    assert {path.name: path.read_bytes() for path in drafter.iterdir()} == before
    assert all((folder / name).read_bytes() == content for name, content in before.items() if name != "SHA256SUMS")
    assert FILE in (folder / "SHA256SUMS").read_text()
    assert "python -m decoding train sequential-head --begin-with block-diffusion" in (folder / CARD).read_text()
    embed, head = model.get_input_embeddings(), model.get_output_embeddings()
    load_block_diffusion(folder, Fitting(VOCAB, 32, LAYERS, DTYPE), embed, head)
    assert read_sequential_head(folder, 32, 3) is not None
    # Into the drafter's own folder, too; and a drafter that is trained anew loses a head that no longer fits.
    assert main(["train", "sequential-head", "--begin-with", str(drafter), "--out", str(drafter), "--work",
                 str(place / "work"), "--data", str(place / "data")]) == 0  # fmt: skip
    assert (drafter / FILE).read_bytes() == (folder / FILE).read_bytes()
    assert train(place, "block-diffusion", out="drafter") == 0
    assert not (drafter / FILE).exists()


def test_a_sequential_head_needs_its_drafter(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(place, "sequential-head") == 2
    assert "--begin-with" in refused(capsys)


def test_the_text_is_the_target_s_own_on_every_sort_of_prompt(place: Path, model: Any) -> None:
    assert train(place, "matrix") == 0
    examples = read_corpus([place / "work" / "corpus.jsonl"], VOCAB)
    counts = {source: sum(e.source == source for e in examples) for source in {e.source for e in examples}}
    assert counts["published"] == 10
    assert counts["code"] == 84
    assert counts["own"] > 10
    assert counts["document"] > 2
    assert {e.temperature for e in examples if e.source == "code"} == {0.0, scribe.WARMTH}
    (greedy, *_) = (e for e in examples if e.temperature == 0 and e.source == "published")
    with torch.inference_mode():
        choices = model(input_ids=torch.tensor([greedy.tokens])).logits[0, len(greedy.prompt) - 1 : -1].argmax(-1)
    assert tuple(choices.tolist()) == greedy.response


def test_features_made_as_they_are_needed_train_the_same_drafter(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(place, "block-diffusion") == 0
    kept = last_line(capsys)["held_out"]
    (place / "work" / "block-diffusion" / "checkpoint.pt").unlink()
    assert train(place, "block-diffusion", "--profile", "gpu", out="live") == 0
    live = last_line(capsys)["held_out"]
    assert live == {name: pytest.approx(value, abs=0.15) for name, value in kept.items()}


def test_a_corpus_takes_the_place_of_prompts_and_measured_prompts_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examples = [replace(e, prompt=(0, 3, *(t % VOCAB for t in e.prompt), 4)) for e in texts(70, longest=16)]
    examples = [replace(e, response=tuple(t % VOCAB for t in e.response)) for e in examples]
    append_examples(tmp_path / "text.jsonl", examples)
    asked = next(e for e in examples if len(e.prompt) > 14)
    words = chat_tokenizer().decode(asked.prompt[2:-1])
    question = {"question_id": 1, "category": "qa", "turns": [f"Read this: {words}"]}
    (tmp_path / "measured.jsonl").write_text(json.dumps(question) + "\n")
    given = ("--corpus", str(tmp_path / "text.jsonl"), "--spec-bench", str(tmp_path / "measured.jsonl"))
    assert train(tmp_path, "llama", *given, "--steps", "2", "--rate", "3e-4") == 0
    said = capsys.readouterr()
    assert "69 examples" in said.err
    assert "1 dropped for sharing words with 1 measured prompts" in said.err
    assert not (tmp_path / "work" / "text.jsonl").exists()
    card = (tmp_path / "out" / "llama" / "README.md").read_text()
    assert "steps=2, rate=0.0003," in card


@pytest.mark.parametrize("kind", ["block-diffusion", "eagle3", "llama"])
def test_a_drafter_goes_on_from_a_checkpoint(kind: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, more = place / "first", place / "more"
    work = ("--work", str(place / "begun"))
    assert train(place, kind, out="first") == 0
    assert main(["train", kind, "--out", str(more / kind), *work, "--corpus", str(place / "work" / "corpus.jsonl"),
                 "--begin-with", str(first / kind)]) == 0  # fmt: skip
    assert f"`python -m decoding train {kind}`, begun with {kind}, " in (more / kind / "README.md").read_text()
    shapes, again = tensor_shapes(first / kind), tensor_shapes(more / kind)
    assert shapes == again
    capsys.readouterr()
    other = "eagle3" if kind == "llama" else "llama"
    assert train(place, other, out="other") == 0
    assert train(place, kind, "--begin-with", str(place / "other" / other), out="never") == 2
    assert "another one than this profile trains: " in refused(capsys)
    assert not (place / "never").exists()


def test_an_eagle_drafter_that_cannot_copy_is_given_heads_for_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert train(place, "eagle3") == 0  # writes the text
    text = ("--corpus", str(place / "work" / "corpus.jsonl"))
    before, after = place / "before", place / "after"
    with monkeypatch.context() as patch:
        patch.setitem(profiles.PROFILES, "cpu", replace(TINY, eagle3=replace(TINY.eagle3, copying=False)))
        assert main(["train", "eagle3", "--out", str(before), *text, "--work", str(place / "plain")]) == 0
    begun = ("--begin-with", str(before))
    assert main(["train", "eagle3", "--out", str(after), *text, "--work", str(place / "given"), *begun]) == 0
    assert not copies(before)
    assert copies(after)


def test_another_seed_goes_on_with_nothing_of_the_first(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(place, "llama") == 0
    capsys.readouterr()
    assert train(place, "llama", "--seed", "1") == 2
    assert "--work" in refused(capsys)


def not_loaded(*_: Any) -> Any:
    raise AssertionError("a model was loaded for a request that is bad in itself")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), ["nothing to train on", "--data", "--corpus"]),
        (("--data", "/nowhere"), ["/nowhere", "--data"]),
        (("--corpus", "/nowhere.jsonl"), ["/nowhere.jsonl", "--corpus"]),
        (("--corpus", "/dev", "--steps", "0"), ["--steps"]),
        (("--corpus", "/dev", "--rate", "0"), ["--rate"]),
        (("--corpus", __file__, "--spec-bench", "/nowhere"), ["/nowhere"]),
        (("--corpus", __file__, "--begin-with", "/nowhere"), ["/nowhere", "--begin-with"]),
    ],
)
def test_bad_requests_exit_with_2_and_one_line_before_a_model_is_loaded(
    options: tuple[str, ...], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(workshop, "load_causal_lm", not_loaded)
    assert main(["train", "llama", "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"), *options]) == 2
    line = refused(capsys)
    assert all(word in line for word in words), line
    assert list(tmp_path.iterdir()) == []


def test_an_out_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").write_text("mine")
    assert main(["train", "llama", "--out", str(tmp_path / "out"), "--corpus", __file__]) == 2
    assert "is a file" in refused(capsys)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_bad_corpus_and_too_small_a_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n{}\n")
    assert train(tmp_path, "llama", "--corpus", str(tmp_path / "bad.jsonl")) == 2
    assert "bad.jsonl, line 1: source is missing" in refused(capsys)
    append_examples(tmp_path / "few.jsonl", [replace(e, prompt=(5,), response=(6, 7)) for e in texts(1)])
    assert train(tmp_path, "llama", "--corpus", str(tmp_path / "few.jsonl")) == 2
    assert "1 examples are too few" in refused(capsys)


@pytest.mark.parametrize("arguments", [["train"], ["train", "gpt"], ["train", "llama"], ["train", "llama", "--out"]])
def test_what_argparse_refuses(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
