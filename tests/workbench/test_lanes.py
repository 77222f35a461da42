"""Several ways on one prompt, as the server runs them: over replayed runs, and once over the real model."""

import json
from typing import Any

import pytest

from tests.workbench.replay_engine import ReplayEngine
from workbench.run_request import CompareRequest
from workbench.services import Services

TREE = {"drafter": "mini", "strategy": "tree"}
CHAIN = {"drafter": "mini", "strategy": "chain"}
FAILING = TREE | {"settings": {"budget": 13}}


def events(ways: list[dict[str, Any]], prompt: str = "Why?", stop_at: str = "", **text: object) -> list[dict[str, Any]]:
    services, ticket = Services(ReplayEngine(pause=0.01 if stop_at else 0.0)), "a" * 16
    found: list[dict[str, Any]] = []
    for _, lines in services.stream(ticket, lambda: CompareRequest.parse(prompt, "small", ways, text)):
        found += [json.loads(line) for line in lines]
        if stop_at and any(event["kind"] == stop_at for event in found):
            services.stop(ticket)
    return found


def test_every_event_names_its_lane_and_plain_decoding_runs_first():
    found = [event for event in events([TREE, CHAIN]) if event["kind"] != "status"]
    assert [lane["name"] for lane in found[0]["lanes"]] == ["Plain decoding", "DDTree", "Linear"]
    assert [event["lane"] for event in found[1:]] == sorted(event["lane"] for event in found[1:])
    kinds = [[event["kind"] for event in found[1:] if event["lane"] == lane] for lane in range(3)]
    assert [run[0] for run in kinds] == ["header"] * 3
    assert [run[-1] for run in kinds] == ["summary", "comparison", "comparison"]


def test_an_error_of_one_way_does_not_end_the_others():
    found = events([FAILING, TREE])
    assert [event["lane"] for event in found if event["kind"] == "error"] == [1]
    assert [event["lane"] for event in found if event["kind"] == "summary"] == [0, 2]


def test_a_stop_ends_the_lane_in_hand_and_begins_no_other():
    found = events([TREE, CHAIN], stop_at="round")
    assert [(event["lane"], event["finish"]) for event in found if event["kind"] == "summary"] == [(0, "interrupted")]


@pytest.mark.parametrize(
    ("ways", "said"),
    [
        ([], "cannot be compared"),
        ([TREE] * 5, "cannot be compared"),
        ("tree", "list one mapping"),
        ([TREE, 3], "list one mapping"),
        ([TREE | {"target": "/etc/passwd"}], "no 'target'"),
        ([{"drafter": "mini"}], "must be text"),
        ([TREE | {"settings": [1]}], "mapping"),
        ([TREE | {"drafter": "/etc/passwd"}], "no drafter named"),
        ([TREE | {"strategy": "someone/else"}], "no strategy named"),
    ],
)
def test_bad_ways_are_refused_with_a_message(ways, said):
    (error,) = events(ways)
    assert error["kind"] == "error"
    assert said in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("text", [{"max_new_tokens": 10**9}, {"temperature": "hot"}, {"nothing": 1}])
def test_bad_text_settings_are_refused(text):
    (error,) = events([TREE], **text)
    assert error["kind"] == "error"


@pytest.mark.slow
@pytest.mark.embedded
def test_two_ways_of_the_embedded_model_give_the_text_of_plain_decoding():
    from workbench.engine import DecodingEngine

    services = Services(DecodingEngine())
    ways = [
        {"strategy": "ddtree", "drafter": "smollm2-135m-dflash", "settings": {"budget": 16}},
        {"strategy": "recycle"},
        {"strategy": "ddtree", "drafter": "smollm2-135m-dflash", "settings": {"budget": -1}},
    ]
    request = CompareRequest.parse("Why is the sky blue?", "smollm2-135m", ways, {"max_new_tokens": 24})
    found = list(services.events(request, "a" * 16))
    summaries = {event["lane"]: event for event in found if event["kind"] == "summary"}
    assert list(summaries) == [0, 1, 2]
    assert {tuple(event["output_ids"]) for event in summaries.values()} == {tuple(summaries[0]["output_ids"])}
    assert len(summaries[0]["output_ids"]) == 24
    same = {"identical": True, "first_divergence": None, "margin": None}
    comparisons = [event for event in found if event["kind"] == "comparison"]
    assert [(event["lane"], event["lossless"]) for event in comparisons] == [(1, same), (2, same)]
    for event in comparisons:
        own, plain = (summaries[lane]["metrics"]["tokens_per_second"] for lane in (event["lane"], 0))
        assert event["speedup"] == pytest.approx(own / plain)
    (error,) = (event for event in found if event["kind"] == "error")
    assert error["lane"] == 3
    assert "budget" in error["message"]
