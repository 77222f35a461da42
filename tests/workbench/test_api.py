"""The named endpoints: what they give, and what they do with payloads that nobody should send."""

import json
import re
from pathlib import Path
from typing import Any

import gradio_client
import httpx
import pytest

from decoding.trace import parse_trace
from tests.workbench.browser import served
from tests.workbench.forged import GOOD, INSIDE, JUNK, called, forged_arguments, healthy, posted

README = Path(__file__).parents[2] / "README.md"
ENDPOINTS = ["/run", "/compare", "/list", "/offer", "/stop", "/status", "/trace"]


@pytest.fixture(scope="module")
def client(address: str) -> gradio_client.Client:
    return gradio_client.Client(address, verbose=False)


def test_the_endpoints_have_names_types_and_descriptions(client: gradio_client.Client) -> None:
    described = client.view_api(return_format="dict")["named_endpoints"]
    assert list(described) == ENDPOINTS
    for name, endpoint in described.items():
        assert len(endpoint["description"]) > 30, name
        for parameter in endpoint["parameters"]:
            assert parameter["python_type"]["type"] not in ("", "Any"), (name, parameter)
    types = {item["parameter_name"]: item["python_type"]["type"] for item in described["/run"]["parameters"]}
    assert types["prompt"] == types["ticket"] == "str"
    assert types["compare"] == "bool"


def test_a_run_streams_status_rounds_and_its_trace_can_be_fetched(client: gradio_client.Client) -> None:
    ticket = "0123456789abcdef"
    job = client.submit(prompt="Why?", drafter="mini", ticket=ticket, api_name="/run")
    assert job.result()["kind"] == "summary"
    events = job.outputs()
    assert events[0] == {"kind": "status", "text": "Accepted", "ticket": ticket}
    assert [event["kind"] for event in events[1:4]] == ["status", "header", "round"]
    text = client.predict(ticket=ticket, api_name="/trace")
    trace = parse_trace(line.encode() for line in text.splitlines(keepends=True))
    assert trace.header.prompt == "Why?"
    assert [round_.index for round_ in trace.rounds] == [e["index"] for e in events if e["kind"] == "round"]
    with pytest.raises(Exception, match="number already"):
        client.predict(prompt="Why?", ticket=ticket, api_name="/run")


def test_the_place_in_the_line_comes_over_the_api_and_a_waiting_run_is_stopped() -> None:
    with served(pause=0.3) as address:
        client = gradio_client.Client(address, verbose=False)
        first = client.submit(prompt="Why?", ticket="a" * 16, api_name="/run")
        while not any(event["kind"] == "header" for event in first.outputs()):
            assert not first.done()
        late = client.submit(prompt="Why?", ticket="b" * 16, api_name="/run")
        while not any(event.get("place") == 1 for event in late.outputs()):
            assert not late.done()
        assert client.predict(api_name="/status")["queue"]["length"] == 2
        assert client.predict(ticket="b" * 16, api_name="/stop") == {"stopped": True}
        late.result()
        assert {event["kind"] for event in late.outputs()} == {"status"}
        with pytest.raises(Exception, match="not ended"):
            client.predict(ticket="a" * 16, api_name="/trace")
        client.predict(ticket="a" * 16, api_name="/stop")
        assert first.result()["finish"] == "interrupted"


def test_lists_and_offers(client: gradio_client.Client) -> None:
    there = client.predict(api_name="/list")
    assert {"target": "small", "drafter": "mini", "strategies": ["tree", "chain"]} in there["fits"]
    (tree,) = (item for item in there["strategies"] if item["id"] == "tree")
    assert {key: tree["settings"][0][key] for key in ("name", "type", "low", "high", "default")} == {
        "name": "budget",
        "type": "int",
        "low": 1,
        "high": 256,
        "default": 32,
    }
    assert {item["name"] for item in there["text"]} >= {"max_new_tokens", "temperature", "seed"}
    offer = client.predict(target="small", drafter="alien", strategy="tree", api_name="/offer")
    assert "another target" in offer["misfit"]
    assert offer["drafter"] == "mini"
    fitting = client.predict(target="small", drafter="mini", strategy="tree", api_name="/offer")
    assert fitting["misfit"] is None
    assert client.predict(api_name="/status")["queue"] == {"length": 0, "stepping": 0}


def test_status_tells_no_run_s_number(client: gradio_client.Client) -> None:
    client.predict(prompt="Why?", ticket="feedfeedfeedfeed", api_name="/run")
    assert "feedfeed" not in json.dumps(client.predict(api_name="/status"))


def test_the_readme_s_example_runs(address: str, capsys: Any) -> None:
    section = README.read_text(encoding="utf-8").partition("## From a program")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert "http://127.0.0.1:7860" in code
    exec(compile(code.replace("http://127.0.0.1:7860", address), "README", "exec"), {})
    said = capsys.readouterr().out
    assert "rounds" in said
    assert "trace" in said


# ---- what nobody should send --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENDPOINTS)
def test_forged_payloads_to_an_endpoint_get_readable_errors(address: str, name: str) -> None:
    answers: set[str] = set()
    with httpx.Client(base_url=address, timeout=60) as http:
        for data in forged_arguments(len(GOOD[name]), GOOD[name]):
            answer = called(http, name, data)
            shown = "" if "event: complete" in answer else answer
            assert not INSIDE.search(shown), (data, shown[:500])
            if len(data) == len(GOOD[name]) and "path" not in str(data):  # Gradio itself sees to files and to numbers
                assert '"error": null' not in shown, (data, shown[:500])
            answers.add(shown[:300])
        for body in (None, 3, "x", [], {"data": 3}, {"data": {"a": 1}}, {"dta": []}):
            answer = posted(http, f"gradio_api/call{name}", body)
            assert answer.status_code < 500 or not INSIDE.search(answer.text)
        healthy(http)
    print(name, len(answers), sorted(answers)[:40])


def test_forged_payloads_to_every_function_that_the_page_serves(address: str) -> None:
    asked = 0
    with httpx.Client(base_url=address, timeout=60) as http:
        components = http.get("config").json()["components"]
        served_by = [
            (component["id"], name) for component in components for name in component["props"].get("server_fns") or ()
        ]
        assert {name for _, name in served_by} >= {"step", "proceed", "state", "unload"}
        for number, name in served_by:
            for junk in (*JUNK, ["0" * 16, -1], ["0" * 16, True], ["0" * 16, 1e9], ["0" * 16], ["../..", 0]):
                answer = posted(
                    http,
                    "gradio_api/component_server",
                    {"data": junk, "component_id": number, "fn_name": name, "session_hash": "forged"},
                )
                asked += 1
                assert not INSIDE.search(answer.text), (name, junk, answer.text[:500])
                assert answer.status_code == 200, (name, junk, answer.text[:500])
            for wrong in ("__init__", "postprocess", "../x"):
                answer = posted(
                    http,
                    "gradio_api/component_server",
                    {"data": 1, "component_id": number, "fn_name": wrong, "session_hash": "forged"},
                )
                assert answer.status_code == 404
        healthy(http)
    assert asked > 100


def test_forged_events_to_every_listener_of_the_page(address: str) -> None:
    """Buttons and choosers too: their endpoints are private, which hides them and no more."""
    with httpx.Client(base_url=address, timeout=60) as http:
        listeners = [
            (item["id"], len(item["inputs"]))
            for item in http.get("config").json()["dependencies"]
            if item["backend_fn"]
        ]
        assert len(listeners) > 8
        for number, width in listeners:
            for place, junk in enumerate(JUNK):
                session = f"forged{number}x{place}"
                body = {"data": [junk] * width, "fn_index": number, "session_hash": session}
                answer = posted(http, "gradio_api/queue/join", body)
                assert not INSIDE.search(answer.text), (number, junk, answer.text[:500])
                if answer.status_code != 200:
                    continue
                with http.stream("GET", "gradio_api/queue/data", params={"session_hash": session}) as stream:
                    for line in stream.iter_lines():
                        message = json.loads(line[5:]) if line.startswith("data:") else {}
                        error = (message.get("output") or {}).get("error") if isinstance(message, dict) else None
                        assert not INSIDE.search(str(error)), (number, junk, error)
                        if message.get("msg") in ("process_completed", "close_stream", "unexpected_error"):
                            break
        healthy(http)
