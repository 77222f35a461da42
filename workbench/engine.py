"""The seam to the core: what can be chosen, what fits, and a run as a stream of trace events."""

from collections.abc import Callable, Iterator
from typing import Protocol

from decoding.settings import Option
from workbench.run_request import RunRequest
from workbench.run_store import Event

Choice = tuple[str, str]
"""Title and id, the order in which Gradio wants them."""


class Engine(Protocol):
    """What the page needs of the core."""

    default_target: str
    default_strategy: str

    def targets(self) -> list[Choice]: ...

    def drafters(self) -> list[Choice]:
        """Without `none`, which stands for no drafter at all."""
        ...

    def strategies(self) -> list[Choice]: ...

    def options(self, strategy: str) -> dict[str, Option]:
        """The settings of a strategy."""
        ...

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        """Why these do not go together, None where they do. `drafter` may be `none`."""
        ...

    def usual_drafter(self, target: str, strategy: str) -> str:
        """The drafter that a strategy is usually run with, or `none`."""
        ...

    def run(
        self, request: RunRequest, should_stop: Callable[[], bool], report: Callable[[str], None]
    ) -> Iterator[Event]:
        """The events of a run."""
        ...


class DecodingEngine:
    """The core of this project. Imported at birth and not before: it brings torch along."""

    def __init__(self) -> None:
        from decoding import catalogue, fit, run
        from decoding.model_store import ModelStore
        from decoding.strategies import STRATEGIES

        self._catalogue, self._fit, self._run = catalogue, fit, run
        self._strategies = STRATEGIES
        self._models = ModelStore()
        self._targets = {item.id: item for item in catalogue.targets()}
        self._drafters = {item.id: item for item in catalogue.drafters()}
        self.default_target = run.RunSettings.target
        self.default_strategy = catalogue.usual_strategy(self.default_target)

    def targets(self) -> list[Choice]:
        return [(item.title, item.id) for item in self._targets.values()]

    def drafters(self) -> list[Choice]:
        return [(item.title, item.id) for item in self._drafters.values()]

    def strategies(self) -> list[Choice]:
        return [(item.title, name) for name, item in self._strategies.items()]

    def options(self, strategy: str) -> dict[str, Option]:
        from decoding.settings import options_of

        return options_of(self._strategies[strategy].settings_class)

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        info = None if drafter == "none" else self._drafters[drafter]
        return self._fit.misfit(self._targets[target], info, self._strategies[strategy])

    def usual_drafter(self, target: str, strategy: str) -> str:
        return self._catalogue.usual_drafter(target, self._strategies[strategy]) or "none"

    def run(
        self, request: RunRequest, should_stop: Callable[[], bool], report: Callable[[str], None]
    ) -> Iterator[Event]:
        settings = self._run.RunSettings(
            prompt=request.prompt,
            target=request.target,
            drafter=request.drafter,
            strategy=request.strategy,
            settings=dict(request.settings),
            **request.text.as_dict(),
        )
        stream = self._run.compare if request.compare else self._run.run
        yield from stream(settings, self._models, should_stop, report)
