"""The seconds that a run asks of ZeroGPU, and what is said where they were too few or the GPU did not come."""

import time

from decoding.errors import CanopyError
from workbench.run_request import CompareRequest, RunRequest
from workbench.run_store import Event

START_SECONDS = 12.0
"""For the worker's start, in which everything placed is copied to the GPU, and for the prompt."""
ROUND_SECONDS = 0.12
"""Of a round of the slowest target with a large tree: on the safe side, and not measured on ZeroGPU."""
WARM_UP_ROUNDS = 12
LEAST_SECONDS = 15
NEARLY = 0.9
"""A worker that ends so far into its time has run out of it: when exactly it is ended is not known here."""
SMALLER = 0.8
STEP = 8


def seconds_for(request: RunRequest | CompareRequest, most: float) -> int:
    """Whole seconds that are enough even if no drafted token is ever accepted, `most` at most.

    128 new tokens: 12 + 128 * 0.12 = 28; compared with plain decoding, with warm-ups: 12 + 2 * 140 * 0.12 = 46.
    """
    if isinstance(request, RunRequest):
        ways, tokens = (2 if request.compare else 1), request.text.max_new_tokens
    else:
        ways, tokens = 1 + len(request.ways), request.ways[0].text.max_new_tokens
    rounds = ways * (tokens + (WARM_UP_ROUNDS if ways > 1 else 0))
    return int(min(most, max(LEAST_SECONDS, START_SECONDS + rounds * ROUND_SECONDS)))


class LentTime:
    """What one run was lent and how far it came, so that its end can be explained."""

    def __init__(self, request: RunRequest | CompareRequest, seconds: int) -> None:
        self.seconds = seconds
        self._asked = time.monotonic()
        self._begun: float | None = None
        self._several = isinstance(request, CompareRequest) or request.compare
        self._tokens: dict[int, int] = {}

    def begin(self) -> None:
        """The GPU is there."""
        self._begun = time.monotonic()

    def count(self, event: Event) -> None:
        """Takes note of an event of the run."""
        lane = event.get("lane", 0)
        if event["kind"] == "round":
            self._tokens[lane] = self._tokens.get(lane, 0) + len(event["emitted"])

    def explain(self, said: str) -> CanopyError:
        """The error for what ZeroGPU said of a run that it ended, or never began."""
        if self._begun is None:
            return CanopyError(
                f"ZeroGPU gave no GPU: {said.strip().rstrip('.')}.",
                "Ask for fewer new tokens (less time is then asked for), sign in to Hugging Face, or try again later; "
                "recorded runs need no GPU.",
            )
        written = sum(self._tokens.values())
        if not self._used_up(self._begun):
            return CanopyError(
                f"The GPU's worker ended in the middle of the run, after {written} new tokens ({said.strip('. ')}).",
                "Run it again: another worker is started. If it stays, take a smaller budget or a shorter text.",
            )
        return CanopyError(
            f"The {self.seconds} seconds for which the GPU was lent are over, after {written} new tokens.",
            self._smaller(),
        )

    def _used_up(self, begun: float) -> bool:
        """Its time began after it was asked for, and at most START_SECONDS before the worker could say a word."""
        now, nearly = time.monotonic(), NEARLY * self.seconds
        return now - self._asked >= nearly and now - begun >= nearly - START_SECONDS

    def _smaller(self) -> str:
        fewest = min(self._tokens.values(), default=0)
        enough = int(fewest * SMALLER) // STEP * STEP
        if self._several:
            return f"Compare fewer ways, or ask for {max(enough, STEP)} new tokens."
        if enough < STEP:
            return "Take a shorter prompt, a smaller budget or a smaller target."
        return f"Ask for {enough} new tokens or fewer."
