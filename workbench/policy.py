"""What a server lets its visitors do: everything on one's own machine, little on a public page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from decoding.errors import BadRequest
from decoding.presets import DEFAULT_TARGET
from decoding.settings import Option
from decoding.shipped import MATRIX, SHIPPED

ON_YOUR_OWN = "Canopy on your own machine has no such limit: see the README."
NODE_OPTIONS = ("budget", "most")
"""Settings that say how many nodes a tree may have."""
SPACE_PROXIES = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "::1", "fc00::/7")
"""Where the proxies of a Space stand, between it and its visitors: in networks that are nobody's on the internet."""


@dataclass(frozen=True)
class ServerPolicy:
    """Limits of one server. Services hold to them, whatever the page shows."""

    public: bool = False
    allow_loading: bool = True
    """Whether visitors may load and unload models; never by a local folder where `public`."""
    allowed: frozenset[str] | None = None
    """Ids of the targets and drafters that may be run; None for everything that has a name here."""
    max_prompt: int = 20_000
    """Characters."""
    max_new_tokens: int = 1024
    max_nodes: int = 1024
    """Drafted nodes of a tree."""
    max_seconds: float = 3600.0
    """Of one run on the device."""
    max_waiting: int = 64
    """Runs that wait for the device."""
    page_runs: int | None = None
    """Runs of one page or program that wait or run at one time; None for as many as it likes."""
    address_runs: int | None = None
    """Likewise of one network address, however many pages are open there; see `visitor.Visitor`."""
    proxies: tuple[str, ...] = ()
    """Networks of the proxies before this server, which are believed when they say whose request they pass on."""
    max_stepped: int = 3
    """Runs that wait for a step; the one that has waited longest ends where another comes."""
    step_seconds: float = 300.0
    """How long a run waits for a step."""

    def allows(self, name: str) -> bool:
        """Whether this target or drafter may be run."""
        return self.allowed is None or name in self.allowed

    def narrowed(self, options: Mapping[str, Option]) -> dict[str, Option]:
        """The options as this server offers them, in the page's controls and as defaults."""
        limits = dict.fromkeys(NODE_OPTIONS, self.max_nodes) | {"max_new_tokens": self.max_new_tokens}
        return {name: _at_most(option, limits.get(name)) for name, option in options.items()}

    def require_loading(self, *names: str) -> None:
        """Raises BadRequest where visitors may not load and unload models, or not these."""
        if not self.allow_loading:
            raise BadRequest("This public page loads and unloads no models for its visitors.", ON_YOUR_OWN)
        for name in names:
            if name != "none" and not self.allows(name):
                raise BadRequest(f"{name[:80]} is not among the models of this page.", ON_YOUR_OWN)
            if self.public and Path(name).expanduser().exists():
                raise BadRequest("A public page reads no folders.", ON_YOUR_OWN)

    def require_run(self, prompt: str, new_tokens: int, nodes: int) -> None:
        """Raises BadRequest for a run that is larger than this server serves."""
        for what, asked, most in (
            ("characters of prompt", len(prompt), self.max_prompt),
            ("new tokens", new_tokens, self.max_new_tokens),
            ("nodes in a tree", nodes, self.max_nodes),
        ):
            if asked > most:
                raise BadRequest(f"{asked:,} {what} are asked for; this server takes {most:,} at most.", ON_YOUR_OWN)

    def serving(self, names: Iterable[str], only: bool = False) -> "ServerPolicy":
        """This policy with more targets and drafters that may be run; with `only`, no others that need a model."""
        if self.allowed is None:
            return self
        kept = self.allowed & NEED_NO_MODEL if only else self.allowed
        return replace(self, allowed=kept | frozenset(names))

    def sentences(self) -> list[str]:
        """The limits, for a person to read; nothing where there is nothing to say."""
        if not self.public:
            return []
        return [
            "This is a public page: it runs the models that it offers and no others.",
            f"A prompt has {self.max_prompt:,} characters at most, a text {self.max_new_tokens} new tokens, a tree "
            f"{self.max_nodes} nodes, and a run takes {self.max_seconds:.0f} seconds. Of your runs {self.page_runs} "
            "may wait or run at one time.",
            "On your own machine Canopy loads any model of the Hub or of a folder.",
        ]


NEED_NO_MODEL = frozenset({"transition-matrix", "prompt-lookup", "sam", "self"})
"""Drafters without a model of their own."""
LOCAL = ServerPolicy()
PUBLIC = ServerPolicy(
    public=True,
    allow_loading=False,
    allowed=frozenset(
        {
            DEFAULT_TARGET,
            *(item.id for item in SHIPPED if item.kind != MATRIX),
            *NEED_NO_MODEL,
        }
    ),
    max_prompt=4_000,
    max_new_tokens=256,
    max_nodes=256,
    max_seconds=120.0,
    page_runs=2,
    address_runs=8,
    step_seconds=60.0,
)


def chosen_policy(public: bool, environment: Mapping[str, str]) -> ServerPolicy:
    """PUBLIC where it was asked for (`python app.py --public`) and on a Hugging Face Space (SPACE_ID), else LOCAL."""
    if environment.get("SPACE_ID"):
        return replace(PUBLIC, proxies=SPACE_PROXIES)
    return PUBLIC if public else LOCAL


def _at_most(option: Option, limit: int | None) -> Option:
    if limit is None or option.high is None or option.high <= limit:
        return option
    default = option.default
    return replace(option, high=limit, default=min(default, limit) if isinstance(default, int) else default)
