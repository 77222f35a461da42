"""Has the target write the text that its drafters learn from, in stages that go on where they were interrupted."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoding.files import write_atomically
from decoding.target import Target
from decoding.training import look_alikes, prompt_sets
from decoding.training.continuations import Prompt, write_continuations
from decoding.training.corpus import Example, read_corpus
from decoding.training.overlap import without_overlap

MAX_PROMPT = 900
"""Tokens; documents to summarise are the longest prompts."""
OWN = 0.6
"""Part of the general examples whose prompts the target makes up itself."""
WARM = 3
"""One answer in so many is sampled at `WARMTH`, the others are greedy."""
WARMTH = 0.8
MADE_UP = 1.0
"""Temperature of whole user turns that the target makes up."""
LONG = 60
"""Tokens from which on a response is worth a summary."""
ANSWERED = 5
"""Sorts of look-alikes that are answered."""
ANSWER = 112
"""Tokens of a response to a look-alike at most."""


@dataclass(frozen=True)
class Scribe:
    """The target with pen and paper."""

    target: Target
    folder: Path
    rows: int
    """Texts written at once."""
    max_new_tokens: int
    measured: tuple[str, ...]
    """Prompts of the measuring sets, which must not be written to."""
    seed: int

    @property
    def _tokenizer(self) -> Any:
        return self.target.tokenizer

    def corpus(self, data: Path, general: int, alike: int) -> Path:
        """About so many general examples and look-alikes, in one file; `data` holds the published prompts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self._joined("corpus.jsonl", [*self.general(data, general), *self.alike(alike)])

    def general(self, data: Path, count: int) -> list[Path]:
        """Continuations of published prompts, of the target's own questions, and of tasks made from the answers."""
        rng = random.Random(self.seed)
        published = prompt_sets.published_prompts(data, count // 4, rng)
        own = self._own_questions(round(count * OWN))
        texts = {"published": published, "code": prompt_sets.function_prompts(), "own": own}
        first = self._continuations("text.jsonl", texts, self.max_new_tokens)
        answered = [e for e in self._read(first) if e.source == "own" and len(e.response) > LONG]
        questions = prompt_sets.user_words((example.prompt for example in answered), self._tokenizer)
        pairs = list(zip(questions, self._said(answered), strict=True))
        rng.shuffle(pairs)
        share = count // 8
        tasks = {
            "document": prompt_sets.document_prompts(pairs[: share + 1], rng),
            "translation": prompt_sets.translation_prompts([answer for _, answer in pairs], rng)[:share],
        }
        return [first, self._continuations("tasks.jsonl", tasks, self.max_new_tokens)]

    def alike(self, count: int) -> list[Path]:
        """Texts outside a chat, and answers to look-alikes of every sort, `count` together at most."""
        self.folder.mkdir(parents=True, exist_ok=True)
        rng, share = random.Random(self.seed), count // (len(look_alikes.OPENINGS) + ANSWERED)
        bare = {kind: self._bare(kind, share, rng) for kind in look_alikes.OPENINGS}
        whole = {kind: self._whole(path) for kind, path in bare.items()}
        questions = self._questions(2 * share, rng)
        known, half = look_alikes.passages(whole["encyclopaedia"] + whole["news"]), len(questions) // 2
        texts = {
            "summary": look_alikes.summaries(whole["news"], rng),
            "translation": look_alikes.translations(share, rng),
            "retrieval": look_alikes.retrieved(known, questions[:half], rng),
            "trivia": questions[half:],
            "docstring": look_alikes.functions(whole["function"]),
        }
        return [*bare.values(), self._continuations("alike.jsonl", texts, ANSWER)]

    def _bare(self, kind: str, count: int, rng: random.Random) -> Path:
        """`count` texts of a kind, without any chat."""
        texts = look_alikes.beginnings(kind, count, rng)
        prompts = [Prompt(kind, self._tokens(text), WARMTH) for text in texts]
        return self._written(f"{kind.lower()}.jsonl", prompts, look_alikes.OPENINGS[kind].tokens)

    def _questions(self, count: int, rng: random.Random) -> list[str]:
        """At most `count` short questions: user turns of the target's own that begin with an interrogative."""
        start = prompt_sets.user_turn_start(self._tokenizer)
        words = [rng.choice(look_alikes.INTERROGATIVES) for _ in range(count)]
        prompts = [Prompt("question", (*start, *self._tokens(word)), WARMTH) for word in words]
        spoken = self._read(self._written("short-questions.jsonl", prompts, look_alikes.QUESTION_TOKENS))
        begun = prompt_sets.user_words((example.prompt for example in spoken), self._tokenizer)
        asked = (look_alikes.question(*both, rng) for both in zip(begun, self._said(spoken), strict=True))
        return [question for question in asked if question is not None]

    def _own_questions(self, count: int) -> list[str]:
        start = prompt_sets.user_turn_start(self._tokenizer)
        path = self._written("questions.jsonl", [Prompt("own", start, MADE_UP)] * count, 96)
        return prompt_sets.own_questions(self._read(path), self._tokenizer)

    def _continuations(self, name: str, texts: Mapping[str, list[str]], max_new_tokens: int) -> Path:
        """Answers to the user turns `texts` of every source, but for those that share words with measured ones."""
        prompts = []
        for source, group in texts.items():
            clean, _ = without_overlap(group, self.measured)
            for place, tokens in enumerate(prompt_sets.encoded(clean, self._tokenizer, MAX_PROMPT)):
                prompts.append(Prompt(source, tokens, WARMTH if place % WARM == 0 else 0.0))
        return self._written(name, prompts, max_new_tokens)

    def _written(self, name: str, prompts: Sequence[Prompt], max_new_tokens: int) -> Path:
        path = self.folder / name
        write_continuations(self.target, prompts, path, max_new_tokens, self.rows, self.seed)
        return path

    def _read(self, path: Path) -> list[Example]:
        return read_corpus([path], self.target.vocab_size)

    def _said(self, examples: Sequence[Example]) -> list[str]:
        return [self._tokenizer.decode(example.response, skip_special_tokens=True) for example in examples]

    def _whole(self, path: Path) -> list[str]:
        """The texts outside a chat, their openings included."""
        examples = self._read(path)
        openings = (self._tokenizer.decode(example.prompt) for example in examples)
        return [opening + more for opening, more in zip(openings, self._said(examples), strict=True)]

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _joined(self, name: str, paths: Sequence[Path]) -> Path:
        joined = self.folder / name
        write_atomically(joined, b"".join(path.read_bytes() for path in paths))
        return joined
