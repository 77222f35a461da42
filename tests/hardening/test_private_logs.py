"""No prompt and no token stands in a log, whatever happens: a server is run and shaken, and all it said is read."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from transformers import LlamaForCausalLM

from tests.decoding import tiny
from tests.hardening.short_run import short_lines, write_short
from tests.workbench.browser import free_port
from tests.workbench.forged import JUNK, called, posted
from workbench.engine import DecodingEngine
from workbench.run_request import RunRequest
from workbench.services import Services

pytestmark = pytest.mark.hardening
ROOT = Path(__file__).parents[2]
SECRET = "my-private-prompt"
SERVER = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
from tests.workbench.replay_engine import ReplayEngine
from workbench.page import build_page, launch_arguments
from workbench.services import Services

class Quoting(ReplayEngine):
    def run(self, request, should_stop, report):
        if "fails" in request.prompt:
            raise RuntimeError(f"cannot decode {request.prompt!r}")
        yield from super().run(request, should_stop, report)

from pathlib import Path
services = Services(Quoting(Path(sys.argv[2])))
page = build_page(services)
page.launch(server_port=int(sys.argv[1]), prevent_thread_lock=True, **launch_arguments(services))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_server_says_nothing_of_what_it_was_sent(tmp_path: Path) -> None:
    port, trace, output = free_port(), tmp_path / "run.jsonl", tmp_path / "said"
    token = "private-token"
    lines = short_lines()
    for line in lines[1:-1]:
        line["emitted_text"] = [token] * len(line["emitted"])
        line["pieces"] = dict.fromkeys(line["pieces"], token)
    write_short(trace)
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with output.open("wb") as said, subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port), str(trace)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=said, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        printed = [server.stdout.readline()]
        assert printed == ["up\n"]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            shake(http)
        assert server.stdin is not None
        server.stdin.close()
        printed.append(server.stdout.read())
    logged = output.read_text() + "".join(printed)
    assert "unexpected failure" in logged, "the failures were logged"
    assert "RuntimeError" in logged
    assert SECRET not in logged
    assert token not in logged


def shake(http: httpx.Client) -> None:
    good = [SECRET, "small", "mini", "tree", {}, {"max_new_tokens": 4}, False, "", "0" * 32]
    assert "event: complete" in called(http, "/run", good)
    assert "private-token" in called(http, "/trace", ["0" * 32])
    for data in (
        [SECRET + " fails", *good[1:8], "1" * 32],
        [SECRET],
        [*good, SECRET, SECRET],
        [SECRET] * 9,
        [{"x": SECRET}, *good[1:]],
        [SECRET, SECRET, *good[2:]],
        *([SECRET, "small", junk, junk, junk, junk, junk, junk, junk] for junk in JUNK),
    ):
        for name in ("/run", "/compare", "/offer", "/trace"):
            called(http, name, data)
    config = http.get("config").json()
    for listener in config["dependencies"]:
        for data in ([SECRET] * len(listener["inputs"]), [SECRET], [[SECRET]] * len(listener["inputs"])):
            posted(http, "gradio_api/queue/join", {"data": data, "fn_index": listener["id"], "session_hash": "x"})
            posted(http, "gradio_api/run/predict", {"data": data, "fn_index": listener["id"], "session_hash": "y"})
    for part in config["components"]:
        for name in part["props"].get("server_fns") or ():
            for data in (SECRET, [SECRET, SECRET], {"x": SECRET}):
                body = {"data": data, "component_id": part["id"], "fn_name": name, "session_hash": "z"}
                posted(http, "gradio_api/component_server", body)
    posted(http, "gradio_api/component_server", {"data": SECRET, "component_id": SECRET, "fn_name": SECRET})
    http.post("canopy/runs", content=SECRET * 100, headers={"x-canopy-visitor": "a" * 32})


def test_the_core_says_nothing_of_a_prompt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """A real decoding engine, with its loading, a run and a run that fails inside."""
    caplog.set_level(logging.DEBUG)
    folder = str(tiny.save_model(tmp_path / "target", LlamaForCausalLM, tiny.llama_config(initializer_range=0.4)))
    services = Services(DecodingEngine())
    list(services.load("1" * 16, folder, "none"))
    text = RunRequest.text_settings({"max_new_tokens": 12})
    request = RunRequest("w77 w88 w77", folder, "prompt-lookup", "pld", {}, text)
    (*_, (_, last)) = services.stream("2" * 16, lambda: request)
    assert json.loads(last[-1])["kind"] == "summary"

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError(f"cannot score {request.prompt}")

    with monkeypatch.context() as patch:
        patch.setattr("decoding.target.Target.forward", fail)
        list(services.stream("3" * 16, lambda: request))
    said = capfd.readouterr()
    assert "ValueError" in caplog.text
    assert "w77" not in caplog.text + said.out + said.err
