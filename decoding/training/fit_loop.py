"""The loop that all recipes share: AdamW, a trapezoid of learning rates, atomic checkpoints, resume.

The rate rises, stays, and falls linearly to zero over the last part (Hägele et al., arXiv 2405.18392): a run can be
stopped and gone on with while it stays, and only the fall has to be planned.
"""

import io
import json
import math
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from decoding.errors import BadRequest
from decoding.files import write_atomically

Numbers = Mapping[str, Tensor]
"""Single numbers, left on the device until they are looked at: a GPU need not wait for them in every step."""
StepLoss = Callable[[int], tuple[Tensor, Numbers]]
"""The loss of one step, a function of the step's number alone (and of the seed), with what is worth logging."""


@dataclass(frozen=True)
class FitOptions:
    """How long and how fast; what a recipe does not say itself."""

    steps: int
    rate: float = 1e-3
    """The peak."""
    weight_decay: float = 0.01
    warmup: int = 20
    fall: float = 0.35
    """Part of the steps over which the rate falls to zero."""
    clip: float = 1.0
    log_every: int = 10
    save_every: int = 50
    seed: int = 0


def rate_factor(step: int, options: FitOptions) -> float:
    """Part of the peak rate at `step`: up over `warmup`, flat, down to zero over the last `fall` of the steps.

    With 100 steps, warmup 10 and fall .2: .1 at step 0, 1 from step 9 to 80, .5 at step 90.
    """
    rise = min(1.0, (step + 1) / max(options.warmup, 1))
    falling = options.steps * options.fall
    return min(rise, (options.steps - step) / falling if falling else 1.0, 1.0)


def fit(
    model: nn.Module, loss_of: StepLoss, options: FitOptions, folder: Path, title: str, recipe: str = ""
) -> list[dict[str, float]]:
    """Trains in place and returns the curve; goes on from `folder`'s checkpoint where there is one.

    An interruption loses at most `save_every` steps. `recipe` says in words what `loss_of` depends on. Raises
    BadRequest where the loss is no longer finite, and for a checkpoint of another recipe or of other options; the
    number of steps may be another one while the rate has not begun to fall.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.rate, betas=(0.9, 0.95), weight_decay=options.weight_decay
    )
    checkpoint = _Checkpoint(folder / "checkpoint.pt", model, optimizer, recipe, options)
    done, seconds, curve = checkpoint.load()
    began = time.monotonic() - seconds
    bar = tqdm(range(done, options.steps), initial=done, total=options.steps, desc=title, unit="step")
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = options.rate * rate_factor(step, options)
        loss, numbers = loss_of(step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        logs, saves = (
            (step + at) % every == 0 or step + 1 == options.steps
            for at, every in ((0, options.log_every), (1, options.save_every))
        )
        # A loss that is not finite makes the weights so, and all later losses: it is seen before they are kept.
        if (logs or saves) and not math.isfinite(loss.item()):
            raise BadRequest(f"The loss of {title} is {loss.item()} at step {step}.", "Lower the learning rate.")
        if logs:
            shown = {"loss": loss.detach(), **numbers}
            curve.append({"step": step, **{name: round(float(value), 4) for name, value in shown.items()}})
            bar.set_postfix({name: curve[-1][name] for name in shown})
        if saves:
            seconds = time.monotonic() - began
            checkpoint.save(step + 1, seconds, curve)
            about = {"recipe": recipe, "options": asdict(options), "seconds": seconds, "curve": curve}
            write_atomically(folder / "curve.json", json.dumps(about))
    return curve


class _Checkpoint:
    """Model, optimizer, progress and plan in one file."""

    def __init__(
        self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: str, options: FitOptions
    ) -> None:
        self.path, self.model, self.optimizer = path, model, optimizer
        self.recipe, self.options = recipe, options

    def load(self) -> tuple[int, float, list[dict[str, float]]]:
        """Steps done, seconds they took, their curve."""
        if not self.path.exists():
            return 0, 0.0, []
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            done, options = int(state["step"]), FitOptions(**state["options"])
            if state["recipe"] != self.recipe:
                raise self._refused(f"was made with {state['recipe'] or 'no recipe'}, not with {self.recipe}")
            if not _same_so_far(options, self.options, done):
                ours = asdict(self.options)
                other = [
                    f"{name} {was}, not {ours[name]}" for name, was in asdict(options).items() if was != ours[name]
                ]
                raise self._refused(f"has {done} steps with {'; '.join(other)}")
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            return done, float(state["seconds"]), list(state["curve"])
        except (RuntimeError, ValueError, KeyError, TypeError, OSError, EOFError, pickle.UnpicklingError) as error:
            raise self._refused(f"cannot be read ({' '.join(str(error).split())[:200]})") from None

    def _refused(self, why: str) -> BadRequest:
        hint = "Give another --work folder, or remove the checkpoint to begin anew."
        return BadRequest(f"The checkpoint {self.path} {why}.", hint)

    def save(self, step: int, seconds: float, curve: list[dict[str, float]]) -> None:
        buffer = io.BytesIO()
        torch.save(
            {
                "recipe": self.recipe,
                "options": asdict(self.options),
                "step": step,
                "seconds": seconds,
                "curve": curve,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
            },
            buffer,
        )
        write_atomically(self.path, buffer.getvalue())


def _same_so_far(old: FitOptions, new: FitOptions, done: int) -> bool:
    """Whether `done` steps of both plans are the same."""
    fixed = all(getattr(old, name) == getattr(new, name) for name in ("rate", "weight_decay", "clip", "seed"))
    return fixed and done <= new.steps and all(rate_factor(s, old) == rate_factor(s, new) for s in range(done))
