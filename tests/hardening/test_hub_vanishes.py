"""The Hub vanishes in the middle of a file: said plainly, nothing half is taken for whole, a second try gets there."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaForCausalLM

from tests.decoding import tiny
from tests.hardening_counts import Tally
from tests.workbench.fake_hub import Outage, fake_hub

pytestmark = pytest.mark.hardening
ROOT = Path(__file__).parents[2]
HEARD = 40_000
"""Bytes that arrive before it vanishes."""
FETCH = """
import json, huggingface_hub.constants
huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE = 16_384  # the default is larger than these files
from decoding.fetch import fetch_checkpoint
from decoding.weight_files import cached_snapshot
while input():
    try:
        fetch_checkpoint("owner/model", lambda _: None)
        said = None
    except Exception as error:
        said = [type(error).__name__, str(error), getattr(error, "hint", None)]
    print(json.dumps([said, str(cached_snapshot("owner/model") or "")]), flush=True)
"""
LOAD = """
import json
from workbench.engine import DecodingEngine
from workbench.services import Services
services = Services(DecodingEngine())
while ticket := input():
    events = [json.loads(line) for _, lines in services.load(ticket, "owner/model", "none") for line in lines]
    print(json.dumps([events[-1], services.status()["queue"]["length"]]), flush=True)
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint with what lies beside one on the Hub and is not fetched."""
    folder = tiny.save_model(tmp_path_factory.mktemp("hub") / "made", LlamaForCausalLM, tiny.llama_config())
    (folder / "README.md").write_text("A model card.")
    (folder / "pytorch_model.bin").write_bytes(b"not read")
    return folder


class Asked:
    """A process that does a thing once for each line that it is given, and says what came of it."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def again(self, line: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def hub_environment(address: str, home: Path) -> Mapping[str, str]:
    own = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    return {**os.environ, **own}


@contextmanager
def asked(script: str, environment: Mapping[str, str]) -> Iterator[Asked]:
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield Asked(process)
        finally:
            process.kill()


def sums(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("name", "reset"),
    [
        ("model.safetensors", True),
        ("tokenizer.json", True),  # the weights are whole by then
        pytest.param("model.safetensors", False, marks=pytest.mark.slow),  # is tried again five times, by the second
    ],
)
def test_what_is_not_whole_is_not_taken_for_whole(
    name: str, reset: bool, checkpoint: Path, tmp_path: Path, tally: Tally
) -> None:
    outage = Outage(name, min(HEARD, (checkpoint / name).stat().st_size // 2), for_good=True, reset=reset)
    with fake_hub({"owner/model": checkpoint}, outage) as address, asked(
        FETCH, hub_environment(address, tmp_path)
    ) as process:  # fmt: skip
        for _ in range(2):
            (kind, message, hint), there = process.again("fetch")
            assert kind == "ModelUnavailable"
            assert "owner/model" in message
            assert hint.startswith("Try again")
            assert not there
            assert not [file for file in tmp_path.rglob("*.incomplete") if file.is_file()]
            assert name not in {file.name for file in tmp_path.rglob("*")}
        assert outage.cuts == 1
        outage.over()
        said, there = process.again("fetch")
    assert said is None
    fetched, whole = sums(Path(there)), sums(checkpoint)
    assert fetched == {file: whole[file] for file in whole if file not in ("README.md", "pytorch_model.bin")}
    how = "reset" if reset else "closed"
    tally(f"the Hub {how} a connection in the middle of {name}: said so, nothing half kept, whole at the next try")


def test_one_broken_connection_goes_on_where_it_broke(checkpoint: Path, tmp_path: Path) -> None:
    outage = Outage("model.safetensors", HEARD, for_good=False)
    with fake_hub({"owner/model": checkpoint}, outage) as address, asked(
        FETCH, hub_environment(address, tmp_path)
    ) as process:  # fmt: skip
        said, there = process.again("fetch")
        assert said is None
    assert outage.cuts == 1
    assert outage.ranges == [f"bytes={HEARD // 16_384 * 16_384}-"]
    assert sums(Path(there))["model.safetensors"] == sums(checkpoint)["model.safetensors"]


def test_a_model_that_was_fetched_needs_no_hub(checkpoint: Path, tmp_path: Path) -> None:
    """Its model card and its pickled weights, which are not fetched, are not missed either."""
    with fake_hub({"owner/model": checkpoint}) as address, asked(
        FETCH, hub_environment(address, tmp_path)
    ) as process:  # fmt: skip
        assert process.again("fetch")[0] is None
    with asked(FETCH, hub_environment("http://127.0.0.1:9", tmp_path)) as process:
        said, there = process.again("fetch")
    assert said is None
    assert (Path(there) / "model.safetensors").is_file()


@pytest.mark.slow
def test_page_and_command_line_say_so_and_the_next_try_loads(checkpoint: Path, tmp_path: Path) -> None:
    outage = Outage("model.safetensors", HEARD, for_good=True, reset=True)
    with fake_hub({"owner/model": checkpoint}, outage) as address:
        environment = hub_environment(address, tmp_path)
        command = ["generate", "--target", "owner/model", "--prompt", "w5", "--strategy", "pld"]
        done = subprocess.run([sys.executable, "-m", "decoding", *command], cwd=ROOT, env=environment, text=True,
                              capture_output=True, timeout=200)  # fmt: skip
        assert done.returncode == 1
        assert "error: The connection to the Hub broke off: not all of owner/model has come. Try again" in done.stderr
        assert "Traceback" not in done.stderr
        outage.name, outage.away = "model.safetensors", False
        with asked(LOAD, environment) as page:
            last, waiting = page.again("a" * 16)
            assert last["kind"] == "error"
            assert "The connection to the Hub broke off" in last["message"]
            assert last["hint"].startswith("Try again")
            assert waiting == 0
            assert outage.cuts == 2
            outage.over()
            last, _ = page.again("b" * 16)
            assert (last["kind"], last.get("target")) == ("loaded", "owner/model"), last
