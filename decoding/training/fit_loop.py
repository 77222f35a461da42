"""The loop that all recipes share: AdamW, a trapezoid of learning rates, atomic checkpoints, resume.

The rate rises, stays, and falls linearly to zero over the last part (Hägele et al., arXiv 2405.18392): a run can be
stopped and gone on with while it stays, and only the fall has to be planned.
"""

import io
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from decoding.errors import BadRequest
from decoding.files import write_atomically

Numbers = Mapping[str, float]
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


def fit(model: nn.Module, loss_of: StepLoss, options: FitOptions, folder: Path, title: str) -> list[dict[str, float]]:
    """Trains in place and returns the curve; goes on from `folder`'s checkpoint where there is one of this plan.

    An interruption loses at most `save_every` steps. Raises BadRequest where the loss is no longer finite.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.rate, betas=(0.9, 0.95), weight_decay=options.weight_decay
    )
    checkpoint = _Checkpoint(folder / "checkpoint.pt", model, optimizer)
    done, curve = checkpoint.load()
    began = time.monotonic()
    bar = tqdm(range(done, options.steps), initial=done, total=options.steps, desc=title, unit="step")
    for step in bar:
        for group in optimizer.param_groups:
            group["lr"] = options.rate * rate_factor(step, options)
        loss, numbers = loss_of(step)
        if not math.isfinite(loss.item()):
            raise BadRequest(f"The loss of {title} is {loss.item()} at step {step}.", "Lower the learning rates.")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % options.log_every == 0 or step + 1 == options.steps:
            curve.append({"step": step, "loss": round(loss.item(), 4), **{k: round(v, 4) for k, v in numbers.items()}})
            bar.set_postfix({k: v for k, v in curve[-1].items() if k != "step"})
        if (step + 1) % options.save_every == 0 or step + 1 == options.steps:
            checkpoint.save(step + 1, curve)
            write_atomically(
                folder / "curve.json",
                json.dumps({"options": asdict(options), "seconds": time.monotonic() - began, "curve": curve}),
            )
    return curve


class _Checkpoint:
    """Model, optimizer, step and curve in one file."""

    def __init__(self, path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.path, self.model, self.optimizer = path, model, optimizer

    def load(self) -> tuple[int, list[dict[str, float]]]:
        if not self.path.exists():
            return 0, []
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError, KeyError, OSError, EOFError) as error:
            raise BadRequest(
                f"{self.path} does not go with this recipe: {str(error).splitlines()[0]}.",
                "Give another --work folder, or remove the checkpoint to begin anew.",
            ) from None
        return int(state["step"]), list(state["curve"])

    def save(self, step: int, curve: list[dict[str, float]]) -> None:
        buffer = io.BytesIO()
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": step,
                "curve": curve,
            },
            buffer,
        )
        write_atomically(self.path, buffer.getvalue())
