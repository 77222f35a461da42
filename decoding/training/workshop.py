"""From prompts to a shipped drafter: text, features, training, export; each stage goes on where it stopped."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from decoding.devices import dtype_name, pick_device
from decoding.errors import BadRequest
from decoding.models import load_causal_lm
from decoding.presets import DEFAULT_TARGET
from decoding.provenance import git_commit
from decoding.target import Target
from decoding.training import prompt_sets
from decoding.training.beginning import drafted_tokens, take_weights
from decoding.training.block_diffusion import BlockTrainer
from decoding.training.corpus import Example, read_corpus
from decoding.training.eagle3 import Eagle3Trainer
from decoding.training.eagle3_copying import copies
from decoding.training.export import Card, Checkpoint, export_folder
from decoding.training.features import Features, JoinedFeatures, LiveFeatures, digest, make_features
from decoding.training.fit_loop import FitOptions
from decoding.training.llama import LlamaTrainer
from decoding.training.matrix import warmed_successors
from decoding.training.overlap import SIZE, without_overlap
from decoding.training.precision import product_dtype
from decoding.training.profiles import Profile
from decoding.training.scribe import Scribe
from decoding.training.sequential_head import SequentialTrainer, export_beside
from decoding.training.teacher import Teacher
from decoding.training.trainer import Trainer, train
from decoding.training.vocabulary import common_tokens, these_tokens


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
        """The embedded default, in the dtype in which this device trains."""
        dtype = dtype_name(product_dtype(pick_device(self.device)))
        loaded = load_causal_lm(DEFAULT_TARGET, dtype, self.device, self.report)
        return Target(loaded.model, loaded.tokenizer, loaded.name)

    @cached_property
    def sources(self) -> list[list[Example]]:
        """The text to train on, file by file."""
        return [self._clean(path) for path in self.corpora or [self.write_text()]]

    def _clean(self, path: Path) -> list[Example]:
        """The examples of a file whose prompts share no words with measured ones."""
        found = read_corpus([path], self.target.vocab_size)
        questions = prompt_sets.user_words((example.prompt for example in found), self.target.tokenizer)
        kept, dropped = without_overlap(questions, self.measured)
        clean = set(kept)
        examples = [example for example, question in zip(found, questions, strict=True) if question in clean]
        self.report(
            f"{path.name}: {len(examples)} examples, {sum(len(e.response) for e in examples):,} tokens of responses; "
            f"{dropped} dropped for sharing words with {len(self.measured)} measured prompts"
        )
        return examples

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """For every example its source and its place there, in a random order. No seed changes it: what is held out of
        one training stays so in the next that begins with its drafter."""
        places = [(number, place) for number, source in enumerate(self.sources) for place in range(len(source))]
        random.Random(0).shuffle(places)
        return places

    @cached_property
    def examples(self) -> list[Example]:
        """The text to train on, in the order of `places`."""
        return [self.sources[number][place] for number, place in self.places]

    def write_text(self) -> Path:
        """The target's own text on prompts of every sort; needs a data folder."""
        assert self.data is not None
        profile = self.profile
        scribe = Scribe(self.target, self.work, profile.rows, profile.max_new_tokens, self.measured, self.seed)
        return scribe.corpus(self.data, profile.examples, profile.look_alikes)

    @cached_property
    def store(self) -> Features:
        """The features of the examples."""
        tokens_at_once = self.profile.feature_tokens
        if tokens_at_once is None:
            return LiveFeatures(self.target, self.examples)
        taps = sorted({*self.profile.block.taps, 2, self.target.layers // 2, self.target.layers - 3})
        stores = [
            make_features(self.target, source, taps, self.work / "features" / digest(source)[:16], tokens_at_once)
            for source in self.sources
        ]
        return JoinedFeatures(stores, self.places)

    def teacher(self, vocabulary: int, known: Tensor | None = None) -> Teacher:
        """The target's head over the `vocabulary` commonest tokens, or over the tokens `known` instead."""
        target = self.target
        if known is None:
            common = common_tokens(self.examples, vocabulary, target.vocab_size, always=target.end_ids)
        else:
            common = these_tokens(self.examples, known, target.vocab_size)
        self.report(f"{len(common)} common tokens are {common.coverage:.1%} of the text")
        return Teacher(target.model.get_output_embeddings().weight.detach(), common)

    def make(
        self, kind: str, out: Path, steps: int | None, rate: float | None = None, begin_with: Path | None = None
    ) -> dict[str, float]:
        """Trains a drafter of `kind` and writes its checkpoint to `out`; what was held out says how good it is.

        `steps` and the peak learning `rate` are the profile's where they are None. It begins with the weights in the
        folder `begin_with`, else with the target's; raises UnsupportedModel where that folder holds another drafter.
        """
        torch.manual_seed(self.seed)  # what a recipe does not begin with the target's own weights
        trainer, options = self._recipe(kind, begin_with)
        options = replace(options, seed=self.seed, steps=steps or options.steps, rate=rate or options.rate)
        begun = "" if begin_with is None else f", begun with {begin_with.name}"
        curve, measured = train(trainer, self.examples, options, self.work / kind, kind, self.target.device, begun)
        how = f"`python -m decoding train {kind}`{begun}, {options}"
        card = self._card(f"{kind} drafter of {self.target.name}", str(trainer.recipe), how, curve, measured)
        export_folder(out, trainer.published(), card.text())
        return measured

    def make_sequential_head(
        self, drafter: Path, out: Path, steps: int | None, rate: float | None = None
    ) -> dict[str, float]:
        """Trains a sequential head for the block drafter in the folder `drafter` and writes both to `out`."""
        torch.manual_seed(self.seed)
        block, _ = self._recipe("block-diffusion", drafter)
        assert isinstance(block, BlockTrainer)
        trainer, options = SequentialTrainer(block, self.profile.sequential), self.profile.sequential_fit
        options = replace(options, seed=self.seed, steps=steps or options.steps, rate=rate or options.rate)
        title, folder = "sequential head", self.work / "sequential-head"
        curve, measured = train(
            trainer, self.examples, options, folder, title, self.target.device, f", for {drafter.name}"
        )
        how = f"`python -m decoding train sequential-head --begin-with {drafter.name}`, {options}"
        card = self._card(f"Sequential head of {drafter.name}", str(trainer.recipe), how, curve, measured)
        export_beside(drafter, out, trainer.published(), card)
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

    def _recipe(self, kind: str, begin_with: Path | None) -> tuple[Trainer, FitOptions]:
        profile = self.profile
        material = self.target, self.examples, self.store
        known = None if begin_with is None else drafted_tokens(begin_with, kind, self.target.vocab_size)
        trainer: Trainer
        if kind == "block-diffusion":
            teacher = self.teacher(profile.block.vocabulary, known)
            trainer, options = BlockTrainer(*material, profile.block, teacher), profile.block_fit
        elif kind == "eagle3":
            teacher = self.teacher(profile.eagle3.draft_vocab, known)
            recipe = replace(profile.eagle3, draft_vocab=len(teacher.common))
            trainer, options = Eagle3Trainer(*material, recipe, teacher), profile.eagle3_fit
        else:
            teacher = self.teacher(profile.llama.vocabulary)
            trainer, options = LlamaTrainer(*material, profile.llama, teacher, self.seed), profile.llama_fit
        if begin_with is None:
            return trainer, options
        if isinstance(trainer, Eagle3Trainer) and not copies(begin_with):
            trainer = Eagle3Trainer(*material, replace(trainer.recipe, copying=False), teacher)
            take_weights(trainer, begin_with)
            trainer.give_copying_heads()
        else:
            take_weights(trainer, begin_with)
        return trainer, options

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
