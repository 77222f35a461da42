"""What a one-pass drafter says at every place of a recorded text: one pass each for all that is measured."""

from decoding.drafters.base import Observation, OnePassDrafter
from decoding.kernels.sequel import Sequel
from decoding.replay import Recording, require_replayable
from decoding.types import Marginals


class PositionMarginals(OnePassDrafter):
    """Stands in for `drafter` in a replay of `recording`: its rounds begin at places that are known by then.

    The drafter gave marginals at every token of the output but the last, each after it had observed all tokens
    before that token and no later one, just as it would in a round that begins there.
    """

    def __init__(self, drafter: OnePassDrafter, recording: Recording, k: int) -> None:
        """Runs the drafter over the text; `k` is the most columns that will be asked for."""
        require_replayable(drafter)
        self.name = drafter.name
        self.vocab_size = drafter.vocab_size
        self.source = drafter.source
        self.positions = drafter.positions
        self._prompt, self._k = len(recording.prompt_ids), k
        self._place = 0
        self.rows: list[Marginals] = []
        """Entry i: the marginals after the root `output_ids[i]`."""
        self._sequels: list[Sequel] = []
        drafter.begin(self._prompt + len(recording.output_ids))
        try:
            drafter.observe(recording.observation(0, self._prompt, drafter))
            for place, token in enumerate(recording.output_ids[:-1]):
                self.rows.append(drafter.marginals(token, k))
                self._sequels.append(drafter.sequel())
                here = self._prompt + place
                drafter.observe(recording.observation(here, here + 1, drafter))
        finally:
            drafter.end()

    def begin(self, capacity: int) -> None:
        self._place = -self._prompt

    def observe(self, observation: Observation) -> None:
        self._place += len(observation.tokens)

    def marginals(self, root: int, k: int) -> Marginals:
        if k > self._k:
            raise ValueError(f"{k} columns were asked for, {self._k} were kept")
        kept = self.rows[self._place]
        return Marginals(kept.token[:, :k], kept.logprob[:, :k])

    def sequel(self) -> Sequel:
        return self._sequels[self._place]
