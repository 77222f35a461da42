"""From prompts to a shipped drafter: text, features, training, export; each stage goes on where it stopped."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from decoding.errors import BadRequest
from decoding.files import write_atomically
from decoding.models import load_causal_lm
from decoding.presets import DEFAULT_TARGET
from decoding.provenance import git_commit
from decoding.target import Target
from decoding.training import prompt_sets
from decoding.training.block_diffusion import BlockTrainer
from decoding.training.continuations import Prompt, write_continuations
from decoding.training.corpus import Example, read_corpus
from decoding.training.eagle3 import Eagle3Trainer
from decoding.training.export import Card, Checkpoint, export_folder
from decoding.training.features import Features, LiveFeatures, make_features
from decoding.training.fit_loop import FitOptions
from decoding.training.llama import LlamaTrainer
from decoding.training.matrix import warmed_successors
from decoding.training.overlap import SIZE, without_overlap
from decoding.training.profiles import Profile
from decoding.training.teacher import Teacher
from decoding.training.trainer import Trainer, train
from decoding.training.vocabulary import common_tokens

MAX_PROMPT = 640
"""Tokens; documents to summarise are the longest prompts."""
OWN = 0.6
"""Part of the examples whose prompts the target makes up itself."""
WARM = 3
"""One continuation in so many is sampled at `WARMTH`, the others are greedy."""
WARMTH = 0.8
LONG = 60
"""Tokens from which on a response is worth a summary."""


@dataclass(frozen=True)
class Workshop:
    """Where everything lies and what it is made from."""

    profile: Profile
    work: Path
    """Text, features and checkpoints; may be removed afterwards."""
    data: Path | None
    """The folder with the published prompts."""
    corpora: tuple[Path, ...]
    """Text that is there already; with it nothing is written anew."""
    measured: tuple[str, ...]
    """Prompts of the measuring sets, which must not be trained on."""
    device: str
    seed: int
    report: Callable[[str], None]

    def __post_init__(self) -> None:
        """Raises BadRequest where there is nothing to train on, before a model is loaded."""
        if self.data is None and not self.corpora:
            raise BadRequest("There is nothing to train on.", "Give --data FOLDER with prompts, or --corpus FILE.")
        for path in (*self.corpora, *([] if self.data is None else prompt_sets.files(self.data))):
            if not path.is_file():
                raise BadRequest(f"There is no file {path}.", "Check --data and --corpus.")

    @cached_property
    def target(self) -> Target:
        """The embedded default."""
        loaded = load_causal_lm(DEFAULT_TARGET, self.profile.dtype, self.device, self.report)
        return Target(loaded.model, loaded.tokenizer, loaded.name)

    @cached_property
    def examples(self) -> list[Example]:
        """The text to train on, in a random order that the seed decides."""
        found = read_corpus(self.corpora or [self.write_text()], self.target.vocab_size)
        questions = prompt_sets.user_words((example.prompt for example in found), self.target.tokenizer)
        kept, dropped = without_overlap(questions, self.measured)
        clean = set(kept)
        examples = [example for example, question in zip(found, questions, strict=True) if question in clean]
        self.report(f"{len(examples)} examples, {sum(len(e.response) for e in examples):,} tokens of responses; "
                    f"{dropped} dropped for sharing words with {len(self.measured)} measured prompts")  # fmt: skip
        random.Random(self.seed).shuffle(examples)
        return examples

    def write_text(self) -> Path:
        """Prompts, then the target's continuations of them; needs a data folder."""
        assert self.data is not None
        profile, rng = self.profile, random.Random(self.seed)
        published = prompt_sets.published_prompts(self.data, profile.examples // 4, rng)
        self.work.mkdir(parents=True, exist_ok=True)
        tokenizer = self.target.tokenizer
        own = self._own_questions(round(profile.examples * OWN))
        texts = {"published": published, "code": prompt_sets.function_prompts(), "own": own}
        first = self._continuations("text.jsonl", texts)
        answered = [example for example in read_corpus([first], self.target.vocab_size)
                    if example.source == "own" and len(example.response) > LONG]  # fmt: skip
        questions = prompt_sets.user_words((example.prompt for example in answered), tokenizer)
        answers = [tokenizer.decode(example.response, skip_special_tokens=True) for example in answered]
        pairs = list(zip(questions, answers, strict=True))
        rng.shuffle(pairs)
        share = profile.examples // 8
        second = self._continuations("tasks.jsonl", {
            "document": prompt_sets.document_prompts(pairs[: share + 1], rng),
            "translation": prompt_sets.translation_prompts([answer for _, answer in pairs], rng)[:share],
        })  # fmt: skip
        both = self.work / "corpus.jsonl"
        write_atomically(both, first.read_bytes() + second.read_bytes())
        return both

    def _own_questions(self, count: int) -> list[str]:
        start = prompt_sets.user_turn_start(self.target.tokenizer)
        path = self.work / "questions.jsonl"
        write_continuations(self.target, [Prompt("own", start, 1.0)] * count, path, 96, self.profile.rows, self.seed)
        return prompt_sets.own_questions(read_corpus([path], self.target.vocab_size), self.target.tokenizer)

    def _continuations(self, name: str, texts: dict[str, list[str]]) -> Path:
        prompts = []
        for source, group in texts.items():
            clean, _ = without_overlap(group, self.measured)
            for place, tokens in enumerate(prompt_sets.encoded(clean, self.target.tokenizer, MAX_PROMPT)):
                prompts.append(Prompt(source, tokens, WARMTH if place % WARM == 0 else 0.0))
        path = self.work / name
        profile = self.profile
        write_continuations(self.target, prompts, path, profile.max_new_tokens, profile.rows, self.seed)
        return path

    @cached_property
    def store(self) -> Features:
        """The features of the examples."""
        if self.profile.feature_tokens is None:
            return LiveFeatures(self.target, self.examples)
        taps = sorted({*self.profile.block.taps, 2, self.target.layers // 2, self.target.layers - 3})
        return make_features(self.target, self.examples, taps, self.work / "features", self.profile.feature_tokens)

    def teacher(self, vocabulary: int) -> Teacher:
        """The target's head over the `vocabulary` commonest tokens."""
        target = self.target
        common = common_tokens(self.examples, vocabulary, target.vocab_size, always=target.end_ids)
        self.report(f"{len(common)} common tokens are {common.coverage:.1%} of the text")
        return Teacher(target.model.get_output_embeddings().weight.detach(), common)

    def make(self, kind: str, out: Path, steps: int | None) -> dict[str, float]:
        """Trains a drafter of `kind` and writes its checkpoint to `out`; what was held out says how good it is."""
        torch.manual_seed(self.seed)  # what a recipe does not begin with the target's own weights
        trainer, options = self._recipe(kind)
        options = replace(options, seed=self.seed, **({"steps": steps} if steps else {}))
        curve, measured = train(trainer, self.examples, options, self.work / kind, kind, self.target.device)
        how = f"`python -m decoding train {kind}`, {options}"
        card = self._card(f"{kind} drafter of {self.target.name}", str(trainer.recipe), how, curve, measured)
        export_folder(out, trainer.published(), card.text())
        return measured

    def warm_matrix(self, out: Path) -> dict[str, float]:
        """Writes the warmed transition matrix to `out`; the part of the vocabulary that it has a row for."""
        successors = warmed_successors(self.target, self.examples, self.store)
        known = float((successors[:, 0] >= 0).float().mean())
        what = (
            f"The eight likeliest successors of a token, on the mean over the text; {known:.1%} of the tokens have any."
        )
        how = "`python -m decoding train matrix`"
        card = self._card(f"Transition matrix of {self.target.name}", what, how, [], {"known rows": known})
        export_folder(out, Checkpoint({"successors": successors}), card.text())
        return {"known": known}

    def _recipe(self, kind: str) -> tuple[Trainer, FitOptions]:
        profile = self.profile
        material = self.target, self.examples, self.store
        if kind == "block-diffusion":
            return BlockTrainer(*material, profile.block, self.teacher(profile.block.vocabulary)), profile.block_fit
        if kind == "eagle3":
            teacher = self.teacher(profile.eagle3.draft_vocab)
            return Eagle3Trainer(*material, profile.eagle3, teacher), profile.eagle3_fit
        teacher = self.teacher(profile.llama.vocabulary)
        return LlamaTrainer(*material, profile.llama, teacher, self.seed), profile.llama_fit

    def _card(self, title: str, what: str, how: str, curve: list[dict[str, float]], measured: dict[str, float]) -> Card:
        sources = ", ".join(sorted({example.source for example in self.examples}))
        responses = sum(len(example.response) for example in self.examples)
        on_gpu = self.target.device.type == "cuda"
        return Card(
            title=title,
            what=what,
            recipe=how,
            data=f"{len(self.examples)} prompts ({sources}), {responses:,} tokens that the target wrote after them. "
            f"None shares {SIZE} words in a row with the {len(self.measured)} given prompts of measuring sets.",
            seed=self.seed,
            commit=git_commit(),
            hardware=torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads",
            curve=curve,
            measured="On held-out text, teacher-forced: "
            + ", ".join(f"{name} {value:.3f}" for name, value in measured.items())
            + ". On the measuring sets: `python -m decoding bench drafters`, and the table in the project's README.",
        )
