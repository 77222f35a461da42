"""The training loop: its rates, and that an interruption leaves no trace in the weights."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from decoding.errors import BadRequest
from decoding.training.fit_loop import FitOptions, fit, rate_factor
from tests.decoding.training.material import generator
from tests.decoding.training.test_continuations import Interrupted

OPTIONS = FitOptions(steps=20, rate=0.02, warmup=4, fall=0.3, log_every=5, save_every=4)


def model_of(seed: int = 0, width: int = 8) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3))


class Lesson:
    """The loss of a step, on data that the step's number decides; worn out at step `until`."""

    def __init__(self, model: nn.Module, until: int | None = None) -> None:
        self.model, self.until = model, until
        self.steps: list[int] = []

    def __call__(self, step: int) -> tuple[Tensor, dict[str, Tensor]]:
        if step == self.until:
            raise Interrupted
        self.steps.append(step)
        data = torch.randn(16, 4, generator=generator(step))
        loss = (self.model(data) - data[:, :3] / 4).square().mean()
        return loss, {"twice": loss.detach() * 2}


def weights(model: nn.Module) -> Tensor:
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


def test_the_worked_example_of_the_rate() -> None:
    options = FitOptions(steps=100, warmup=10, fall=0.2)
    wanted = {0: 0.1, 4: 0.5, 9: 1.0, 10: 1.0, 80: 1.0, 90: 0.5, 99: 0.05}
    assert {step: rate_factor(step, options) for step in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("changes", [{}, {"fall": 0.0}, {"warmup": 0}, {"steps": 1}, {"steps": 5, "warmup": 20}])
def test_the_rate_never_leaves_its_bounds_and_rises_flat_and_falls(changes: dict[str, float]) -> None:
    options = replace(OPTIONS, **changes)  # type: ignore[arg-type]
    factors = [rate_factor(step, options) for step in range(options.steps)]
    assert all(0 < factor <= 1 for factor in factors)
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)


def test_it_learns_and_tells_how(tmp_path: Path) -> None:
    model = model_of()
    curve = fit(model, Lesson(model), replace(OPTIONS, steps=60), tmp_path, "test")
    assert [point["step"] for point in curve] == [*range(0, 60, 5), 59]
    assert curve[-1]["loss"] < curve[0]["loss"] / 2
    assert all(point["twice"] == pytest.approx(2 * point["loss"], abs=2e-4) for point in curve)
    about = json.loads((tmp_path / "curve.json").read_text())
    assert about["curve"] == curve
    assert about["options"]["steps"] == 60
    assert about["seconds"] > 0


@pytest.mark.parametrize("until", [0, 3, 4, 5, 11, 18])
def test_an_interrupted_run_ends_with_the_same_weights(until: int, tmp_path: Path) -> None:
    whole, parts = model_of(), model_of()
    wanted = fit(whole, Lesson(whole), OPTIONS, tmp_path / "whole", "test", "recipe")
    with pytest.raises(Interrupted):
        fit(parts, Lesson(parts, until), OPTIONS, tmp_path / "parts", "test", "recipe")
    fresh = model_of(seed=1)  # what it began with is in the checkpoint, where there is one
    lesson = Lesson(fresh) if until >= OPTIONS.save_every else Lesson(fresh := model_of())
    curve = fit(fresh, lesson, OPTIONS, tmp_path / "parts", "test", "recipe")
    assert torch.equal(weights(fresh), weights(whole))
    assert curve == wanted
    assert lesson.steps == list(range(until // 4 * 4, 20))


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    model, again = model_of(), model_of(seed=1)
    wanted = fit(model, Lesson(model), OPTIONS, tmp_path, "test")
    lesson = Lesson(again)
    assert fit(again, lesson, OPTIONS, tmp_path, "test") == wanted
    assert lesson.steps == []
    assert torch.equal(weights(again), weights(model))


def stopped(folder: Path, at: int = 9) -> nn.Module:
    model = model_of()
    with pytest.raises(Interrupted):
        fit(model, Lesson(model, at), OPTIONS, folder, "test", "recipe A")
    return model


def test_steps_may_be_added_while_the_rate_has_not_begun_to_fall(tmp_path: Path) -> None:
    stopped(tmp_path / "parts")
    longer = replace(OPTIONS, steps=40)
    whole, parts = model_of(), model_of()
    fit(whole, Lesson(whole), longer, tmp_path / "whole", "test", "recipe A")
    fit(parts, Lesson(parts), longer, tmp_path / "parts", "test", "recipe A")
    assert torch.equal(weights(parts), weights(whole))


@pytest.mark.parametrize(
    ("change", "recipe", "words"),
    [
        ({}, "recipe B", "was made with recipe A, not with recipe B"),
        ({"rate": 0.01}, "recipe A", "has 8 steps with rate 0.02, not 0.01"),
        ({"seed": 1}, "recipe A", "has 8 steps with seed 0, not 1"),
        ({"warmup": 9}, "recipe A", "has 8 steps with warmup 4, not 9"),
        ({"steps": 6}, "recipe A", "has 8 steps with steps 20, not 6"),
        ({"steps": 9}, "recipe A", "has 8 steps with steps 20, not 9"),  # its rate would have fallen from step 6 on
    ],
)
def test_a_checkpoint_of_another_plan_is_refused_in_words(
    change: dict[str, float], recipe: str, words: str, tmp_path: Path
) -> None:
    stopped(tmp_path)
    model = model_of(seed=1)
    before = weights(model)
    with pytest.raises(BadRequest, match=rf"checkpoint\.pt {words}\. Give another --work folder"):
        fit(model, Lesson(model), replace(OPTIONS, **change), tmp_path, "test", recipe)  # type: ignore[arg-type]
    assert torch.equal(weights(model), before)


def test_a_checkpoint_of_other_shapes_is_refused_in_one_line(tmp_path: Path) -> None:
    stopped(tmp_path)
    model = model_of(width=9)
    with pytest.raises(BadRequest, match="size mismatch") as caught:
        fit(model, Lesson(model), OPTIONS, tmp_path, "test", "recipe A")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "missing"])
def test_a_damaged_checkpoint_is_named(damage: str, tmp_path: Path) -> None:
    stopped(tmp_path)
    path = tmp_path / "checkpoint.pt"
    if damage == "missing":
        torch.save({"step": 3}, path)
    else:
        content = path.read_bytes()
        path.write_bytes({"cut": content[: len(content) // 2], "text": b"no pickle", "empty": b""}[damage])
    model = model_of()
    with pytest.raises(BadRequest, match=r"checkpoint\.pt cannot be read .*remove the checkpoint to begin anew"):
        fit(model, Lesson(model), OPTIONS, tmp_path, "test", "recipe A")


def test_a_loss_that_is_not_finite_ends_the_run_and_is_not_kept(tmp_path: Path) -> None:
    model = model_of()
    lesson = Lesson(model)

    def breaking(step: int) -> tuple[Tensor, dict[str, Tensor]]:
        loss, numbers = lesson(step)
        return loss * (float("nan") if step == 6 else 1.0), numbers

    with pytest.raises(BadRequest, match=r"loss of test is nan at step 7\. Lower the learning rate"):
        fit(model, breaking, OPTIONS, tmp_path, "test")
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert kept["step"] == 4
    assert all(bool(weight.isfinite().all()) for weight in kept["model"].values())
