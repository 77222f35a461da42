"""A disk that is full, a cache that cannot be written: told in a line, and what was there stays."""

import errno
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from transformers import LlamaForCausalLM

from decoding.__main__ import main
from decoding.errors import TraceError
from decoding.files import write_atomically
from decoding.trace import TraceWriter, read_trace
from tests.decoding.tiny import llama_config, save_model
from tests.hardening.short_run import short_lines
from tests.workbench.browser import free_port
from tests.workbench.fake_hub import fake_hub
from tests.workbench.forged import called

pytestmark = pytest.mark.hardening
ROOT = Path(__file__).parents[2]
FULL = Path("/dev/full")
NOWHERE = "/sys/canopy"
"""No folder can be made here, not even by root."""
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


def with_room(size: int, work: Callable[[], None]) -> int:
    """Runs `work` in a process whose files may have `size` bytes; gives the errno that it ended with, 0 for none."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            work()
            code = 0
        except OSError as error:
            code = error.errno or 254
        except TraceError as error:
            code = errno.EFBIG if "cannot be written: File too large" in str(error) else 253
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_full
def test_a_full_disk_ends_a_trace_with_the_way_out() -> None:
    with TraceWriter(FULL) as writer, pytest.raises(TraceError, match=r"No space left on device.*Choose another place"):
        writer.write({"kind": "header"})


@needs_full
def test_the_command_line_says_so_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = save_model(tmp_path, LlamaForCausalLM, llama_config())
    given = [
        "--prompt",
        "w5 w9",
        "--raw",
        "--target",
        str(target),
        "--strategy",
        "linear",
        "--drafter",
        "prompt-lookup",
    ]
    assert main(["generate", *given, "--max-new-tokens", "8", "--dtype", "float32", "--trace", str(FULL)]) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said.strip().splitlines()[-1]
    assert "Traceback" not in said


def test_rounds_written_before_the_disk_was_full_are_read_back(tmp_path: Path) -> None:
    path, lines = tmp_path / "run.jsonl", short_lines(rounds=40)

    def write() -> None:
        with TraceWriter(path) as writer:
            for line in lines:
                writer.write(line)

    assert with_room(30_000, write) == errno.EFBIG
    assert path.stat().st_size == 30_000
    trace = read_trace(path)
    assert trace.torn
    assert list(trace.lines) == lines[: len(trace.lines)]
    assert len(trace.rounds) == path.read_bytes().count(b"\n") - 1


def test_a_cache_file_that_finds_no_room_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    write_atomically(path, "old")
    assert with_room(10_000, lambda: write_atomically(path, b"n" * 50_000)) == errno.EFBIG
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path], "nothing half-written stays"


@pytest.mark.slow
def test_a_download_that_finds_no_room_says_so(tmp_path: Path) -> None:
    checkpoint = save_model(tmp_path / "made", LlamaForCausalLM, llama_config())
    script = (
        "import resource; from decoding.fetch import fetch_checkpoint\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try: fetch_checkpoint('owner/model', lambda _: None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    with fake_hub({"owner/model": checkpoint}) as address:
        environment = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "0",
                       "HF_HUB_DISABLE_XET": "1"}  # fmt: skip
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True,
                              timeout=120)  # fmt: skip
    assert done.stdout.startswith("ModelUnavailable The disk is full: owner/model does not fit."), done.stderr[-2000:]


@pytest.mark.slow
def test_the_page_is_served_where_nothing_can_be_written(tmp_path: Path) -> None:
    """No byte to any file and no cache folder: the recorded run shows, Run says what is wrong, the page goes on."""
    script = (
        "import resource, tempfile; tempfile.gettempdir()  # torch does not start without\n"
        "import torch.distributed.nn  # torch 2.8 writes a file for it\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "import app; app.main()"
    )
    port = free_port()
    places = ("HOME", "CANOPY_CACHE", "HF_HOME", "XDG_CACHE_HOME")
    environment = {**os.environ, **dict.fromkeys(places, NOWHERE), "PYTHONPATH": str(ROOT)}
    output = tmp_path / "said"
    with output.open("wb") as said, subprocess.Popen(
        [sys.executable, "-c", script, "--port", str(port)], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=said, text=True,
    ) as server:  # fmt: skip
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                wait_until_ready(http, server)
                assert http.get("/").status_code == 200
                assert http.get("/canopy/traces/welcome.jsonl").status_code == 200
                for _ in range(2):
                    answer = called(http, "/run", ["Why?", "", "", "", {}, {"max_new_tokens": 4}, False, "", ""])
                    assert "CANOPY_CACHE" in answer, answer[-500:]
                assert http.get("/readyz").status_code == 200
        finally:
            server.terminate()
    assert "Traceback" not in output.read_text()


def wait_until_ready(http: httpx.Client, server: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, "it ended"
        try:
            if http.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError("it did not come up")
