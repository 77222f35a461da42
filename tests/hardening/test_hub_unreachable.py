"""The Hub does not answer: said within seconds, and everything that lies here goes on."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaForCausalLM

from tests.decoding import tiny
from tests.workbench.browser import free_port
from workbench.engine import DecodingEngine
from workbench.run_request import RunRequest
from workbench.services import Services

pytestmark = pytest.mark.hardening


def events(stream: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for _, lines in stream for line in lines]


def test_loading_fails_quickly_and_runs_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    services = Services(DecodingEngine())
    folder = str(tiny.save_model(tmp_path / "target", LlamaForCausalLM, tiny.llama_config()))
    began = time.monotonic()
    for number, name in enumerate(("owner/model", "qwen3-4b")):
        said = events(services.load(f"{number:016x}", name, "none"))
        assert "the Hub was not reached" in said[-1]["message"], said[-1]
        assert "embedded" in said[-1]["hint"]
    assert time.monotonic() - began < 30, "nobody waits for retries"
    assert services.status()["queue"]["length"] == 0
    assert events(services.load("c" * 16, folder, "none"))[-1]["kind"] == "loaded"
    text = RunRequest.text_settings({"max_new_tokens": 8})
    request = RunRequest("w5 w9", folder, "prompt-lookup", "pld", {}, text)
    assert events(services.stream("d" * 16, lambda: request))[-1]["kind"] == "summary"
