"""The cache of the embedded model is whole or absent, whatever happens while it is made."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from decoding import embedded, gguf_file, manifest, wheel
from decoding.errors import ModelUnavailable
from decoding.models import load_causal_lm
from tests.decoding import tiny

pytestmark = pytest.mark.usefixtures("cache")
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a tiny wheel given by hand that is held for genuine."""
    path = tiny.write_wheel(tmp_path / "genuine")
    monkeypatch.setattr(wheel, "SIZE", path.stat().st_size)
    monkeypatch.setattr(wheel, "SHA256", tiny.digest(path))
    monkeypatch.setattr(embedded, "BYTES_NEEDED", 1)
    monkeypatch.setenv("CANOPY_WHEEL", str(path))
    monkeypatch.setenv("CANOPY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def prepare(**keywords: bool) -> tuple[Path, list[str]]:
    said: list[str] = []
    return embedded.embedded_folder(said.append, **keywords), said


def leftovers() -> list[str]:
    root = embedded.cache_root()
    return [path.name for path in root.iterdir() if path.name != ".lock"] if root.is_dir() else []


def run_script(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs `script` in a process that holds the tiny wheel for genuine."""
    head = (
        "import hashlib, os, pathlib, sys\n"
        "from decoding import embedded, gguf_file, wheel\n"
        "path = pathlib.Path(os.environ['CANOPY_WHEEL'])\n"
        "wheel.SIZE, wheel.SHA256 = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()\n"
        "embedded.BYTES_NEEDED = 1\n"
        "say = lambda line: print(line, file=sys.stderr)\n"
    )
    return subprocess.run([sys.executable, "-c", head + script], cwd=REPOSITORY, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=120)  # fmt: skip


def test_it_becomes_a_checkpoint_that_transformers_reads_alike(tmp_path: Path) -> None:
    folder, said = prepare()
    assert leftovers() == [embedded.CACHE_VERSION]
    assert any("once" in line for line in said)
    model = AutoModelForCausalLM.from_pretrained(folder)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "genuine", gguf_file="model.gguf", dtype=torch.float32)
    mine = model.state_dict()
    assert mine.keys() == theirs.state_dict().keys()
    assert all(torch.equal(mine[name], weight) for name, weight in theirs.state_dict().items())
    assert (model.config.eos_token_id, model.generation_config.eos_token_id) == (2, 2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == tiny.TEMPLATE
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("ab  1")) == ["ab", "ĠĠ", "1"]


def test_the_second_start_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = prepare()
    monkeypatch.setenv("CANOPY_WHEEL", "/nowhere.whl")
    assert prepare() == (first, [])
    assert prepare(thorough=True) == (first, [])


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", manifest.NAME])
@pytest.mark.parametrize("fault", ["cut", "missing", "changed"])
def test_a_damaged_cache_is_made_again_with_a_notice(name: str, fault: str) -> None:
    folder, _ = prepare()
    whole = (folder / name).read_bytes()
    if fault == "missing":
        (folder / name).unlink()
    else:
        middle = len(whole) // 2
        (folder / name).write_bytes(whole[:middle] if fault == "cut" else whole[:middle] + b"!" + whole[middle + 1 :])
    _, said = prepare()
    if name == manifest.NAME and fault == "changed":
        return  # one byte of it may well say the same
    assert "damaged" in said[0]
    if name != manifest.NAME:
        assert (folder / name).read_bytes() == whole
    assert prepare() == (folder, [])
    assert leftovers() == [embedded.CACHE_VERSION]


def test_a_touched_but_whole_file_is_read_once_and_believed() -> None:
    folder, _ = prepare()
    os.utime(folder / "model.safetensors", (1, 1))
    before = (folder / manifest.NAME).read_text()
    assert prepare() == (folder, [])
    assert (folder / manifest.NAME).read_text() != before


def test_a_large_file_that_looks_untouched_is_caught_by_a_thorough_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "SMALL_BYTES", 100)
    folder, _ = prepare()
    weights = folder / "model.safetensors"
    status, content = weights.stat(), weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert manifest.problem(folder) is None
    assert manifest.problem(folder, thorough=True) == "model.safetensors has changed"


def test_weights_that_look_untouched_and_do_not_load_are_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "SMALL_BYTES", 100)
    folder, _ = prepare()
    weights = folder / "model.safetensors"
    status, content = weights.stat(), weights.read_bytes()
    weights.write_bytes(b"\xff" * 8 + content[8:])
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    said: list[str] = []
    loaded = load_causal_lm("smollm2-135m", "float32", "cpu", said.append)
    assert loaded.model.config.hidden_size == 64
    assert any("damaged" in line for line in said)
    assert weights.read_bytes() == content


def test_a_file_where_the_cache_folder_should_be(cache: Path) -> None:
    cache.write_text("in the way")
    with pytest.raises(ModelUnavailable, match="CANOPY_CACHE"):
        prepare()


def test_too_little_room_is_noticed_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "BYTES_NEEDED", 10**18)
    monkeypatch.setenv("CANOPY_WHEEL", "/nowhere.whl")
    with pytest.raises(ModelUnavailable, match="no room"):
        prepare()
    assert leftovers() == []


def test_a_disk_that_fills_up_while_writing_leaves_nothing() -> None:
    script = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: embedded.embedded_folder(say)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = run_script(script)
    assert done.stdout.startswith("ModelUnavailable There is no room"), done.stderr
    assert leftovers() == []
    assert prepare()[0].is_dir()


def test_a_process_killed_while_unpacking_leaves_nothing_that_counts() -> None:
    script = (
        "import signal\n"
        "real, calls = gguf_file.llama_tensor, []\n"
        "def tensor(*given):\n"
        "    calls.append(1)\n"
        "    if len(calls) == 9: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return real(*given)\n"
        "gguf_file.llama_tensor = tensor\n"
        "embedded.embedded_folder(say)\n"
    )
    assert run_script(script).returncode == -signal.SIGKILL
    assert [name.split("-")[0] for name in leftovers()] == ["preparing"]
    folder, _ = prepare()
    assert leftovers() == [folder.name]


def test_many_processes_and_threads_at_once_make_it_once() -> None:
    results: list[subprocess.CompletedProcess[str]] = []
    script = "print(embedded.embedded_folder(say))"
    threads = [threading.Thread(target=lambda: results.append(run_script(script))) for _ in range(3)]
    threads += [threading.Thread(target=prepare) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.returncode for result in results] == [0, 0, 0], results
    assert leftovers() == [embedded.CACHE_VERSION]
    assert manifest.problem(embedded.cache_root() / embedded.CACHE_VERSION, thorough=True) is None


def test_a_failed_fetch_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANOPY_WHEEL", "/nowhere.whl")
    with pytest.raises(ModelUnavailable, match="no such file"):
        prepare()
    assert leftovers() == []


def test_a_gguf_that_is_cut_or_not_one_is_named(tmp_path: Path) -> None:
    tiny.write_gguf(tmp_path / "model.gguf")
    data = (tmp_path / "model.gguf").read_bytes()
    for cut in (0, 10, 100, 3000):
        with pytest.raises(gguf_file.GgufError):
            gguf_file.parse(data[:cut])
    with pytest.raises(gguf_file.GgufError):
        gguf_file.parse(b"PK" + data)
    with pytest.raises(ValueError):
        gguf_file.save_as_hugging_face(gguf_file.parse(data[:-5000]), tmp_path)
