"""What a server offers, by what it runs on: memory, a Space's own GPU, ZeroGPU."""

import sys
import types
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from decoding import devices, presets
from decoding.errors import CanopyError, Incompatible, ModelUnavailable, OutOfMemory, UnknownName
from decoding.presets import DEFAULT_TARGET, PRESETS, Preset
from tests.decoding import tiny
from tests.workbench.lent_gpu import LentGpu
from workbench.device import LentDevice, OwnDevice
from workbench.engine import DecodingEngine
from workbench.policy import PUBLIC
from workbench.run_request import RunRequest
from workbench.services import Services
from workbench.serving import MENU, build_services
from workbench.zero_gpu import zero_gpu

SPACE = {"SPACE_ID": "owner/canopy"}
ZERO = {**SPACE, "SPACES_ZERO_GPU": "true"}


def names(choices: list[tuple[str, str]]) -> list[str]:
    return [name for _, name in choices]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The free bytes that the device says, to be changed."""
    free = [10**12]
    monkeypatch.setattr(devices, "free_bytes", lambda _: free[0])
    return free


@pytest.mark.parametrize(
    ("free", "fit"),
    [
        (2, ["smollm2-135m"]),
        (15, ["smollm2-135m", "qwen3-4b", "pythia-2.8b"]),
        (24, ["smollm2-135m", "qwen3-4b", "qwen3-8b", "pythia-2.8b"]),
        (80, [preset.id for preset in PRESETS]),
    ],
)
def test_only_what_fits_is_offered_and_the_rest_says_why(free: int, fit: list[str], memory: list[int]) -> None:
    memory[0] = free * 10**9
    services = Services(DecodingEngine())
    assert names(services.targets()) == fit
    offer = services.offer(DEFAULT_TARGET, "smollm2-135m-dflash", "ddtree")
    reasons = dict(offer.reasons)
    for preset in PRESETS:
        reason = reasons.get(preset.title, "")
        assert (preset.id in fit) == (not reason)
        assert not reason or (f"{free:.1f} GB can be had" in reason and "takes" in reason)
    for preset in PRESETS:
        if preset.id not in fit:
            with pytest.raises(OutOfMemory, match="takes"):
                services.offer(preset.id, "prompt-lookup", "pld")


@pytest.mark.usefixtures("memory")
def test_every_pair_of_the_menu_is_offered_on_a_large_card() -> None:
    services = Services(DecodingEngine())
    for target, drafter, strategy in (
        ("qwen3-4b", "z-lab/Qwen3-4B-DFlash-b16", "ddtree"),
        ("qwen3-8b", "z-lab/Qwen3-8B-DFlash-b16", "ddtree"),
        ("qwen3-8b", "RedHatAI/Qwen3-8B-speculator.eagle3", "eagle"),
        ("qwen3-coder-30b-a3b", "z-lab/Qwen3-Coder-30B-A3B-DFlash", "ddtree"),
        ("pythia-2.8b", "EleutherAI/pythia-70m", "eagle"),
    ):
        offer = services.offer(target, drafter, strategy)
        assert (offer.drafter, offer.strategy) == (drafter, strategy)


@pytest.mark.usefixtures("memory")
def test_a_gpu_space_offers_its_menu_and_a_cpu_space_what_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(build_services(False, SPACE, print).targets()) == [DEFAULT_TARGET]
    monkeypatch.setattr(devices, "pick_device", lambda _: torch.device("cuda"))
    services = build_services(False, SPACE, print)
    assert isinstance(services.device, OwnDevice)
    assert names(services.targets()) == [preset.id for preset in PRESETS]
    assert "z-lab/Qwen3-8B-DFlash-b16" in names(services.drafters())
    chosen = build_services(False, {**SPACE, MENU: "qwen3-4b, pythia-2.8b"}, print)
    assert names(chosen.targets()) == [DEFAULT_TARGET, "qwen3-4b", "pythia-2.8b"]
    assert chosen.policy.public
    assert not chosen.policy.allow_loading
    with pytest.raises(UnknownName, match="qwen3-9b"):
        build_services(False, {**SPACE, MENU: "qwen3-9b"}, print)


def test_the_decorator_is_found_on_zero_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace(GPU=len))
    assert zero_gpu({}) is None
    assert zero_gpu(SPACE) is None
    assert zero_gpu(ZERO) is len


# ---- ZeroGPU ------------------------------------------------------------------------------------------------------


@pytest.fixture
def menu(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the default three presets: two that are tiny checkpoints, one whose folder is damaged."""
    found = []
    for name in ("one", "two", "broken"):
        folder = tmp_path_factory.mktemp(name)
        tiny.save_model(folder, LlamaForCausalLM, tiny.llama_config(initializer_range=0.4, eos_token_id=None))
        if name == "broken":
            (folder / "model.safetensors").write_bytes(b"")
        found.append(Preset(name, name.title(), str(folder), 1.0, "none", "tiny"))
    table = (PRESETS[0], *found)
    for module in (presets, sys.modules["decoding.menu"], sys.modules["decoding.catalogue"]):
        monkeypatch.setattr(module, "PRESETS", table)


@pytest.fixture
def lend(monkeypatch: pytest.MonkeyPatch) -> LentGpu:
    lend = LentGpu()
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace(GPU=lend))
    return lend


def written(services: Services, target: str, ticket: str) -> Any:
    def build() -> RunRequest:
        text = RunRequest.text_settings({"max_new_tokens": 12})
        return RunRequest("w5 w9 w5", target, None, "recycle", text=text)

    return list(services.events(build(), ticket))[-1]["output_ids"]


@pytest.mark.usefixtures("menu", "memory")
def test_on_zero_gpu_a_menu_is_placed_for_good_and_runs_in_workers(lend: LentGpu) -> None:
    said: list[str] = []
    services = build_services(False, {**ZERO, MENU: "one,two,broken"}, said.append, DecodingEngine())
    assert isinstance(services.device, LentDevice)
    assert names(services.targets()) == ["one", "two"]
    assert names(services.drafters()) == ["transition-matrix", "prompt-lookup", "sam", "self"]
    assert services.engine.default_target == "one"
    assert any("broken" in text for text in said)
    assert [item["id"] for item in services.status()["loaded"]] == ["one", "two"]
    texts = [written(services, name, letter * 16) for name, letter in (("one", "a"), ("two", "b"), ("one", "c"))]
    assert texts[0] == texts[2]
    assert len(lend.workers) == 3
    assert [item["id"] for item in services.status()["loaded"]] == ["one", "two"], "nothing went for another target"
    reasons = dict(services.offer("one", "none", "ar").reasons)
    assert "Broken" not in reasons, "it is not even named where it may not be run"


@pytest.mark.usefixtures("menu")
def test_on_zero_gpu_only_as_much_is_placed_as_lies_side_by_side(lend: LentGpu, memory: list[int]) -> None:
    memory[0] = 4_000_000_000
    services = build_services(False, {**ZERO, MENU: "two,one"}, lambda _: None, DecodingEngine())
    assert names(services.targets()) == ["two"]
    assert services.engine.default_target == "two"
    assert "beside two" in services.engine.no_room("one")
    assert lend.workers == []


@pytest.mark.usefixtures("menu", "memory", "lend")
def test_a_menu_of_which_nothing_loads_is_an_error_with_the_reason() -> None:
    with pytest.raises(CanopyError, match="None of the models") as caught:
        build_services(False, {**ZERO, MENU: "broken"}, lambda _: None, DecodingEngine())
    assert "damaged" in caught.value.hint


def test_a_public_policy_that_serves_a_menu_keeps_its_limits() -> None:
    only = PUBLIC.serving({"one"}, only=True)
    assert only.allowed == {"one", "transition-matrix", "prompt-lookup", "sam", "self"}
    assert only.max_new_tokens == PUBLIC.max_new_tokens
    assert PUBLIC.serving({"one"}).allows(DEFAULT_TARGET)


# ---- fetching -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
def test_what_a_run_lacks_is_fetched_with_words_and_nothing_for_what_misfits(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    def fetch(name: str, report: Any) -> None:
        fetched.append(name)
        if name == "qwen3-4b":
            report("Fetching Qwen/Qwen3-4B: 1 of 8,000 MB.")
            raise ModelUnavailable("Qwen/Qwen3-4B could not be fetched: the Hub was not reached.", "Check the network.")

    monkeypatch.setattr("decoding.fetch.fetch_checkpoint", fetch)
    services, said = Services(DecodingEngine()), []
    fits = RunRequest("Why?", "qwen3-4b", "AngelSlim/Qwen3-4B_eagle3", "eagle")
    with pytest.raises(ModelUnavailable, match="not reached"):
        list(services.engine.run(fits, lambda: False, said.append))
    assert fetched == ["AngelSlim/Qwen3-4B_eagle3", "qwen3-4b"]
    assert said == ["Fetching Qwen/Qwen3-4B: 1 of 8,000 MB."]
    misfits = RunRequest("Why?", "qwen3-4b", "z-lab/Qwen3-8B-DFlash-b16", "ddtree")
    with pytest.raises(Incompatible, match="was made for"):
        list(services.engine.run(misfits, lambda: False, said.append))
    assert len(fetched) == 2
