"""What a public server bounds, on every way in."""

import json
from typing import Any

import pytest

from decoding.errors import BadRequest
from tests.workbench.replay_engine import ReplayEngine
from workbench.policy import ServerPolicy
from workbench.run_request import CompareRequest, RunRequest
from workbench.services import Services
from workbench.smaller import smaller

NARROW = ServerPolicy(max_prompt=20, max_new_tokens=64, max_nodes=16)


def way(prompt: str = "Why?", tokens: int = 8, **settings: object) -> RunRequest:
    text = RunRequest.text_settings({"max_new_tokens": tokens})
    return RunRequest(prompt, "small", "mini", "tree", settings, text)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (way("x" * 21), "characters of prompt"),
        (way(tokens=65), "new tokens"),
        (way(budget=17), "nodes in a tree"),
    ],
)
def test_what_is_too_large_is_refused_before_it_waits_for_the_device(asked: RunRequest, said: str) -> None:
    services = Services(ReplayEngine(), NARROW)
    with pytest.raises(BadRequest, match=said):
        list(services.events(asked, "a" * 16))
    (*_, (_, lines)) = services.stream("b" * 16, lambda: asked)
    assert said in json.loads(lines[-1])["message"]
    with pytest.raises(BadRequest, match=said):
        list(services.events(CompareRequest((asked,)), "c" * 16))


@pytest.mark.parametrize("asked", [way("x" * 21, budget="wrong"), way(tokens=65, budget="wrong")])
def test_wrong_settings_open_no_way_around_the_limits(asked: RunRequest) -> None:
    """The lane of wrong settings says so and ends; plain decoding beside it runs in any case."""
    with pytest.raises(BadRequest, match="this server takes"):
        list(Services(ReplayEngine(), NARROW).events(CompareRequest((asked,)), "a" * 16))


@pytest.mark.parametrize("given", [{"prompt": "\ud800"}, {"budget": "\udc00"}, {"\ud800": 1}])
def test_text_that_cannot_be_written_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="no text that can be written"):
        way(**given)


@pytest.mark.parametrize(
    ("asked", "nodes", "said"),
    [
        (way("x" * 500, 128), 64, "Try a budget of 32 nodes, 64 new tokens, half the prompt, or a smaller model."),
        (way("Why?", 128), 0, "Try 64 new tokens, or a smaller model."),
        (CompareRequest((way("Why?", 8), way("Why?", 8, budget=4))), 0, "Try a smaller model."),
    ],
)
def test_something_smaller_is_named(asked: RunRequest | CompareRequest, nodes: int, said: str) -> None:
    assert smaller(asked, nodes) == said
