"""What can be run here, what fits together, and whether a request keeps to it."""

from dataclasses import dataclass, replace

from decoding.errors import BadRequest, CanopyError, OutOfMemory, UnknownName
from decoding.settings import Option, options_of
from workbench.engine import Choice, Engine
from workbench.policy import ServerPolicy
from workbench.run_request import Asked, CompareRequest, RunRequest, TextSettings

NO_DRAFTER: Choice = ("None", "none")


@dataclass(frozen=True)
class Offer:
    """What can be chosen together, and why the rest cannot."""

    drafters: list[Choice]
    drafter: str
    strategies: list[Choice]
    strategy: str
    reasons: list[tuple[str, str]]
    """Title and reason of each target, drafter and strategy that is not offered."""


class Menu:
    """The engine's models and strategies within a server's limits."""

    def __init__(self, engine: Engine, policy: ServerPolicy) -> None:
        self.engine = engine
        self.policy = policy

    def targets(self) -> list[Choice]:
        """The targets that this server runs: those allowed for which the device has room."""
        return [item for item in self._allowed_targets() if not self.engine.no_room(item[1])]

    def _allowed_targets(self) -> list[Choice]:
        return [item for item in self.engine.targets() if self.policy.allows(item[1])]

    def drafters(self) -> list[Choice]:
        """The drafters that this server runs, without `none`."""
        return [item for item in self.engine.drafters() if self.policy.allows(item[1])]

    def options(self, strategy: str) -> dict[str, Option]:
        """The settings of a strategy, within this server's limits."""
        return self.policy.narrowed(self.engine.options(strategy))

    def text_options(self) -> dict[str, Option]:
        """The settings of the text, within this server's limits."""
        return self.policy.narrowed(options_of(TextSettings))

    def offer(self, target: str, drafter: str, strategy: str) -> Offer:
        """What fits the target; the drafter and the strategy asked for are kept where they can be."""
        self.require_known(target, drafter, strategy)
        engine = self.engine
        strategies = engine.strategies()
        drafters = [*self.drafters(), NO_DRAFTER]

        def fits(one: str, way: str) -> bool:
            return engine.misfit(target, one, way) is None

        usable = [item for item in drafters if any(fits(item[1], name) for _, name in strategies)]
        if not usable:
            raise BadRequest(f"Nothing can be run with {target}.", "Choose another target.")
        kept = drafter if drafter in _ids(usable) else usable[0][1]
        offered = [item for item in strategies if fits(kept, item[1])]
        chosen = strategy if strategy in _ids(offered) else offered[0][1]
        reasons = [(title, why) for title, name in self._allowed_targets() if (why := engine.no_room(name))]
        reasons += [(title, self._why_never(target, one)) for title, one in drafters if one not in _ids(usable)]
        reasons += [(t, engine.misfit(target, kept, way) or "") for t, way in strategies if way not in _ids(offered)]
        return Offer(usable, kept, offered, chosen, reasons)

    def misfit(self, target: str, drafter: str, strategy: str) -> str | None:
        """Why these do not go together, None where they do."""
        self.require_known(target, drafter, strategy)
        return self.engine.misfit(target, drafter, strategy)

    def _why_never(self, target: str, drafter: str) -> str:
        """Why a drafter fits no strategy; a reason that speaks of the target says more than one about the strategy."""
        reasons = [self.engine.misfit(target, drafter, way) or "" for way in _ids(self.engine.strategies())]
        title = next(title for title, name in self.engine.targets() if name == target)
        return next((reason for reason in reasons if title in reason), reasons[-1])

    def require_known(self, target: str, drafter: str | None, strategy: str) -> None:
        """Only what stands in the catalogue is served: a visitor cannot make the server load a path or a Hub id.

        Raises UnknownName, or OutOfMemory for a target that the device has no room for.
        """
        for kind, name, known in (
            ("target", target, self._allowed_targets()),
            ("drafter", "none" if drafter is None else drafter, [*self.drafters(), NO_DRAFTER]),
            ("strategy", strategy, self.engine.strategies()),
        ):
            if name not in _ids(known):
                raise UnknownName(kind, str(name)[:80], _ids(known))
        if reason := self.engine.no_room(target):
            raise OutOfMemory(reason, "Choose a smaller target, or run Canopy where there is more memory.")

    def nodes(self, request: Asked) -> int:
        """The most nodes that a tree of the request can have."""
        ways = (request,) if isinstance(request, RunRequest) else request.ways
        return max(self._nodes(way) or 0 for way in ways)

    def _nodes(self, way: RunRequest) -> int | None:
        """None where its settings are wrong."""
        try:
            return self.engine.max_nodes(way.strategy, way.settings)
        except CanopyError:
            return None

    def _checked(self, request: RunRequest) -> RunRequest:
        self.require_known(request.target, request.drafter, request.strategy)
        own, narrow = self.engine.options(request.strategy), self.options(request.strategy)
        defaults = {name: narrow[name].default for name in own if narrow[name] != own[name]}
        settled = replace(request, settings=defaults | dict(request.settings))
        nodes = self.engine.max_nodes(settled.strategy, settled.settings)
        self.policy.require_run(settled.prompt, settled.text.max_new_tokens, nodes)
        return settled

    def settled(self, request: Asked) -> Asked:
        """The request with this server's defaults; raises BadRequest where it asks for what is not served."""
        if isinstance(request, RunRequest):
            return self._checked(request)
        return CompareRequest(tuple(map(self._checked_way, request.ways)))

    def _checked_way(self, way: RunRequest) -> RunRequest:
        """As `_checked`; a way whose settings are wrong stays as it is: its own lane will say so."""
        self.require_known(way.target, way.drafter, way.strategy)
        if self._nodes(way) is not None:
            return self._checked(way)
        self.policy.require_run(way.prompt, way.text.max_new_tokens, 0)  # plain decoding runs with these in any case
        return way


def _ids(choices: list[Choice]) -> list[str]:
    return [name for _, name in choices]
