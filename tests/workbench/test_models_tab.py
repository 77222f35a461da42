"""The Models tab and what is behind it: what is loaded, a look at a pair before it is loaded, loading, unloading."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, MambaConfig, MambaForCausalLM

from decoding import survey as survey_module
from decoding.errors import BadRequest, CanopyError, Incompatible, OutOfMemory
from decoding.host_rotary import FIRST
from decoding.kv_cache import PreallocatedCache
from decoding.memory import tensor_bytes
from decoding.model_store import ModelStore
from decoding.presets import DEFAULT_TARGET
from decoding.settings import options_of
from decoding.survey import survey_pair
from decoding.weight_files import weight_files_of
from tests.decoding import tiny
from tests.workbench import browser as browser_tools
from tests.workbench.browser import Watch, chromium, served
from tests.workbench.fake_hub import fake_hub
from tests.workbench.replay_engine import ReplayEngine
from tests.workbench.test_queue import Visitor, request, until
from workbench.device_work import BATCH_SECONDS
from workbench.engine import DecodingEngine
from workbench.policy import LOCAL, PUBLIC, SPACE_PROXIES, ServerPolicy, chosen_policy
from workbench.run_request import TextSettings
from workbench.services import Services

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with a tokenizer."""
    return tiny.save_model(tmp_path_factory.mktemp("models") / "tiny-llama", LlamaForCausalLM, tiny.llama_config())


def refusal(target: object, drafter: object = "none", services: Services | None = None) -> CanopyError:
    with pytest.raises(CanopyError) as caught:
        (services or Services(DecodingEngine())).survey(target, drafter)
    assert caught.value.hint, "every refusal says a way out"
    return caught.value


# ---- memory and facts ---------------------------------------------------------------------------------------------


def test_the_bytes_of_tensors_are_counted_once_whoever_holds_them() -> None:
    layer = torch.nn.Linear(10, 20, bias=False)
    assert tensor_bytes(layer) == 800
    assert tensor_bytes(layer, [layer.weight[3:5]], {"view": layer.weight.detach().numpy()}) == 800
    more = torch.zeros(5, dtype=torch.int64)
    assert tensor_bytes([layer, lambda: more]) == 840
    assert tensor_bytes([layer, more], besides=(layer,)) == 40
    assert tensor_bytes(torch.zeros(100, device="meta")) == 0
    cache = PreallocatedCache(8, 2)
    cache.slabs(torch.zeros(1, 2, 0, 4))
    assert tensor_bytes(cache) == 2 * 2 * 2 * 8 * 4 * 4


def test_what_is_loaded_is_told_with_its_own_parameters_and_bytes(folder: Path) -> None:
    models = ModelStore()
    target = models.target(str(folder), "float32", "cpu", lambda _: None)
    models.drafter("self", target, lambda _: None)
    models.drafter("transition-matrix", target, lambda _: None)
    loaded = {item.id: item for item in models.loaded()}
    model = target.model
    weights = sum(p.numel() for p in model.parameters())
    facts = loaded[str(folder)]
    assert (facts.role, facts.parameters, facts.device, facts.dtype) == ("target", weights, "cpu", "float32")
    rotary = 2 * FIRST * model.config.head_dim * target.runs_on_kernels
    assert weights + rotary <= facts.bytes / 4 < weights * 1.2 + rotary
    assert facts.kernels is loaded["self"].kernels is target.runs_on_kernels
    assert (loaded["self"].bytes, loaded["self"].parameters) == (0, 0)
    assert loaded["transition-matrix"].role == "retrieval source"
    assert loaded["transition-matrix"].bytes >= 97 * 8 * 4
    assert facts.since.startswith("20")


def test_the_numbers_of_a_checkpoint_come_from_its_file_headers(folder: Path, tmp_path: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(folder)
    assert weight_files_of(str(folder)).parameters == sum(p.numel() for p in model.parameters())
    (tmp_path / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    assert "damaged" in str(refusal(str(tmp_path)))


# ---- looking first ------------------------------------------------------------------------------------------------


def test_a_look_says_what_a_pair_is_and_what_fits(folder: Path) -> None:
    found = survey_pair(str(folder), "prompt-lookup")
    said = " ".join(found.sentences())
    assert "tiny-llama: LlamaForCausalLM, 2 layers, 97 tokens" in said
    assert "Prompt lookup decoding" in found.works
    assert dict(found.refuses)["DDTree"].startswith("DDTree needs a one-pass drafter")
    assert "Prompt lookup" in found.other_drafters
    assert "SmolLM2 block diffusion" not in found.other_drafters
    assert found.needed_bytes == found.target.files.parameters * 4


def test_the_embedded_pair_fits() -> None:
    found = survey_pair(DEFAULT_TARGET, "smollm2-135m-dflash")
    assert "DDTree" in found.works
    assert found.drafter is not None
    assert 5e6 < found.drafter.files.parameters < 5e7


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nonsense", "no model named"),
        ("/nowhere/at/all", "not there"),
        ("", "no name"),
        ("a\nb", "unprintable"),
        ("x" * 600, "too long"),
        (3, "no name"),
        (["a"], "no name"),
        ("smollm2-135m-dflash", "no model named"),
    ],
)
def test_a_bad_name_is_refused_with_a_way_out(name: object, said: str) -> None:
    assert said in str(refusal(name))


def test_what_is_no_checkpoint_is_refused_before_anything_loads(folder: Path, tmp_path: Path) -> None:
    assert "no config.json" in str(refusal(str(tmp_path)))
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    assert "no weights in safetensors" in str(refusal(str(tmp_path)))
    remote = {"model_type": "mine", "architectures": ["Mine"], "auto_map": {"AutoModelForCausalLM": "mine.Mine"}}
    (tmp_path / "config.json").write_text(json.dumps(remote))
    assert "their own code are not run" in str(refusal(str(tmp_path)))
    (tmp_path / "config.json").write_text("[]")
    assert "not a JSON object" in str(refusal(str(tmp_path)))


def test_an_architecture_that_cannot_take_back_is_refused_by_its_config(tmp_path: Path) -> None:
    config = MambaConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, state_size=4)
    tiny.save_model(tmp_path / "mamba", MambaForCausalLM, config)
    assert "cannot drop rejected nodes" in str(refusal(str(tmp_path / "mamba")))


def test_a_drafter_as_target_and_a_misfit_are_refused(folder: Path) -> None:
    shipped = ROOT / "decoding" / "weights" / "smollm2-135m-dflash"
    assert "not a language model" in str(refusal(str(shipped)))
    error = refusal(str(folder), "smollm2-135m-dflash")
    assert isinstance(error, Incompatible)
    assert "97" in error.message


def test_what_does_not_fit_into_memory_is_refused_and_what_is_held_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "free_bytes", lambda _: 1000)
    assert isinstance(refusal(str(folder)), OutOfMemory)
    assert survey_pair(str(folder), None, held_bytes=10**9).free_bytes == 10**9 + 1000


@pytest.mark.slow
def test_no_network_is_told_at_once(tmp_path: Path) -> None:
    script = (
        "from workbench.engine import DecodingEngine\nfrom decoding.errors import CanopyError\n"
        "try: DecodingEngine().survey('owner/model', 'none')\n"
        "except CanopyError as error: print(error)"
    )
    environment = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=os.environ | environment, text=True,
                          capture_output=True, timeout=250)  # fmt: skip
    assert "the Hub was not reached" in done.stdout, done.stderr


# ---- loading ------------------------------------------------------------------------------------------------------


def loading(services: Services, target: object, drafter: object = "none", ticket: str = "c" * 16) -> list[dict]:
    return [json.loads(line) for _, lines in services.load(ticket, target, drafter) for line in lines]


def test_a_loaded_folder_is_offered_and_run(folder: Path) -> None:
    services = Services(DecodingEngine())
    *_, last = loading(services, str(folder), "prompt-lookup")
    assert last["kind"] == "loaded"
    assert ("tiny-llama", str(folder)) in services.targets()
    offer = services.offer(str(folder), "prompt-lookup", "pld")
    assert offer.strategy == "pld"
    assert [item["id"] for item in services.status()["loaded"]] == [str(folder), "prompt-lookup"]
    run = Visitor(services, "d" * 16)
    run.finish()
    assert run.events[-1]["kind"] == "error", "the replaying engine's names are not known here"
    build = request(target=str(folder), drafter="prompt-lookup", strategy="pld", prompt="w5 w9 w5")
    lines = [json.loads(line) for _, lines in services.stream("e" * 16, lambda: build) for line in lines]
    assert lines[-1]["kind"] == "summary", lines[-1]
    services.unload("prompt-lookup")
    assert [item["id"] for item in services.status()["loaded"]] == [str(folder)]
    services.unload(str(folder))
    assert services.status()["loaded"] == []
    with pytest.raises(BadRequest, match="not loaded"):
        services.unload(str(folder))


@pytest.mark.slow
def test_a_pair_is_fetched_from_the_hub_with_progress(folder: Path, tmp_path: Path) -> None:
    script = (
        "import json, sys\nfrom workbench.engine import DecodingEngine\nfrom workbench.services import Services\n"
        "services = Services(DecodingEngine())\n"
        "for name in ('owner/tiny', 'owner/absent'):\n"
        "    print(json.dumps([json.loads(l) for _, ls in services.load(name[-4:].encode().hex() * 2, name, 'none') "
        "for l in ls]))\n"
        "print(json.dumps(services.targets()))"
    )
    with fake_hub({"owner/tiny": folder}) as address:
        environment = {
            "HF_ENDPOINT": address,
            "HF_HOME": str(tmp_path),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
        }
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=os.environ | environment, text=True,
                              capture_output=True, timeout=280)  # fmt: skip
    assert done.returncode == 0, done.stderr
    there, absent, targets = map(json.loads, done.stdout.splitlines())
    said = [event.get("text", "") for event in there]
    assert there[-1]["kind"] == "loaded", there
    assert any("Fetching owner/tiny from the Hub" in text for text in said)
    assert ["owner/tiny", "owner/tiny"] in targets
    assert absent[-1]["kind"] == "error"
    assert "no model owner/absent" in absent[-1]["message"]


def test_loading_is_refused_to_who_leaves_and_stops_while_it_fetches() -> None:
    engine = ReplayEngine(pause=0.1)
    services = Services(engine)
    stream = services.load("c" * 16, "another", "none")
    next(stream)
    until(lambda: services.status()["queue"]["length"] == 1)
    services.stop("c" * 16)
    lines = [json.loads(line) for _, lines in stream for line in lines]
    assert "stopped" in lines[-1]["message"]
    assert services.status()["loaded"] == []
    assert services.status()["queue"]["length"] == 0


def test_unloading_is_refused_while_a_run_uses_the_model() -> None:
    services = Services(ReplayEngine(pause=0.05))
    run = Visitor(services, "a" * 16)
    until(lambda: services.status()["loaded"])
    with pytest.raises(BadRequest, match="using the device"):
        services.unload("small")
    services.step("a" * 16)
    until(lambda: services.status()["queue"]["stepping"] == 1)
    with pytest.raises(BadRequest, match="next step"):
        services.unload("small")
    services.stop("a" * 16)
    run.finish()
    until(lambda: services.status()["queue"] == {"length": 0, "stepping": 0})
    services.unload("small")
    assert services.status()["loaded"] == []


# ---- public pages -------------------------------------------------------------------------------------------------


def test_the_policy_is_chosen_by_flag_or_space() -> None:
    assert chosen_policy(False, {}) is LOCAL
    assert chosen_policy(True, {}) is PUBLIC
    assert chosen_policy(False, {"SPACE_ID": "owner/canopy"}) == replace(PUBLIC, proxies=SPACE_PROXIES)


def test_a_public_page_runs_what_ships_and_nothing_else(folder: Path) -> None:
    services = Services(DecodingEngine(), PUBLIC)
    assert [name for _, name in services.targets()] == [DEFAULT_TARGET]
    assert PUBLIC.allowed is not None
    assert PUBLIC.allowed == {DEFAULT_TARGET, *(name for _, name in services.drafters())}
    for name in (str(folder), "Qwen/Qwen3-4B", DEFAULT_TARGET):
        assert "public page" in str(refusal(name, services=services))
        assert "public page" in loading(services, name, ticket=os.urandom(8).hex())[-1]["message"]
    with pytest.raises(BadRequest, match="public page"):
        services.unload(DEFAULT_TARGET)
    for given in ({"target": "qwen3-4b"}, {"drafter": "z-lab/Qwen3-4B-DFlash-b16"}, {"target": str(folder)}):
        build = request(**({"target": DEFAULT_TARGET, "drafter": "prompt-lookup", "strategy": "pld"} | given))
        (line,) = [line for _, lines in services.stream(os.urandom(8).hex(), lambda b=build: b) for line in lines]
        assert "There is no" in json.loads(line)["message"]


def test_an_allow_list_may_be_loaded_from_but_folders_never(folder: Path) -> None:
    policy = ServerPolicy(public=True, allowed=frozenset({"small", str(folder)}))
    services = Services(ReplayEngine(), policy)
    assert loading(services, "small")[-1]["kind"] == "loaded"
    assert "not among" in loading(services, "another", ticket="d" * 16)[-1]["message"]
    assert "no folders" in loading(services, str(folder), ticket="e" * 16)[-1]["message"]


def test_a_public_page_bounds_prompt_tokens_and_nodes() -> None:
    services = Services(ReplayEngine(), ServerPolicy(public=True, max_prompt=50, max_new_tokens=64, max_nodes=20))
    assert services.options("tree")["budget"].high == 20
    assert services.options("tree")["budget"].default == 20
    assert services.text_options()["max_new_tokens"].high == 64
    assert options_of(TextSettings)["max_new_tokens"].high == 1024

    def last(**given: Any) -> dict[str, Any]:
        text = TextSettings(max_new_tokens=given.pop("tokens", 64))
        build = request(text=text, **given)
        lines = [line for _, lines in services.stream(os.urandom(8).hex(), lambda: build) for line in lines]
        return json.loads(lines[-1])

    assert last()["kind"] == "summary", "the defaults are within the limits"
    assert "characters of prompt" in last(prompt="x" * 51)["message"]
    assert "new tokens" in last(tokens=65)["message"]
    assert "nodes in a tree" in last(settings={"budget": 21})["message"]


def test_every_default_is_within_the_limits_of_a_public_page() -> None:
    services = Services(DecodingEngine(), PUBLIC)
    for _, name in services.engine.strategies():
        defaults = {option: item.default for option, item in services.options(name).items()}
        assert services.engine.max_nodes(name, defaults) <= PUBLIC.max_nodes, name


# ---- in the browser -----------------------------------------------------------------------------------------------


def opened(browser: Any, address: str, **options: Any) -> tuple[Any, Watch]:
    page, watch = browser_tools.opened(browser, address, timeout=120_000, **options)
    page.evaluate("async () => { await canopy.showTab('models'); }")
    page.wait_for_function("() => canopy.models.part.queue.textContent", timeout=60_000)
    return page, watch


def type_target(page: Any, name: str) -> None:
    field = page.locator("#cy-models-setup").get_by_label("Target")
    field.fill(name)
    field.press("Enter")


HOSTILE = "<img src=x onerror=window.pwned=1>${window.pwned=1}\u202e/x"


@pytest.mark.browser
@pytest.mark.slow
def test_load_look_and_unload_in_the_browser() -> None:
    with chromium() as browser, served(pause=2 * BATCH_SECONDS) as address:
        page, watch = opened(browser, address)
        assert "Nothing is loaded" in page.inner_text(".cy-models .cy-empty")
        type_target(page, "absent")
        page.locator("#cy-models-look").click()
        page.locator(".cy-models .cy-notice").wait_for(state="visible", timeout=60_000)
        assert "Check the spelling" in page.inner_text(".cy-models .cy-notice")
        type_target(page, "another/model")
        page.locator("#cy-models-look").click()
        page.wait_for_function("() => canopy.models.part.said.children.length", timeout=60_000)
        assert not page.locator(".cy-models .cy-notice").is_visible()
        page.locator("#cy-models-load").click()
        page.wait_for_function("() => canopy.models.part.progress.value > 0", timeout=60_000)
        assert page.locator("#cy-models-load").is_disabled()
        page.wait_for_function("() => !canopy.models.part.use.hidden", timeout=60_000)
        page.wait_for_function("() => canopy.models.part.rows.children.length === 2", timeout=60_000)
        assert "540 MB" in page.inner_text(".cy-loaded")
        page.get_by_role("button", name="Use in Explore").click()
        page.wait_for_function(
            "() => document.querySelector('#cy-setup input[aria-label=Target]').value === 'another/model'",
            timeout=60_000,
        )
        page.evaluate("async () => { await canopy.showTab('models'); }")
        page.get_by_role("button", name="Unload mini").click()
        page.wait_for_function("() => canopy.models.part.rows.children.length === 1", timeout=60_000)
        page.get_by_role("button", name="Unload all").click()
        page.wait_for_function("() => !canopy.models.part.rows.children.length", timeout=60_000)
        late, _ = opened(browser, address)
        late.evaluate("async () => { await canopy.showTab('explore'); }")
        late.get_by_label("Target").first.click()
        late.locator("ul[role=listbox]").get_by_text("another/model").first.wait_for()
        watch.check(address)


@pytest.mark.browser
@pytest.mark.slow
def test_a_hostile_name_runs_nothing_and_nothing_scrolls_sideways() -> None:
    with chromium() as browser, served() as address:
        page, watch = opened(browser, address, viewport={"width": 390, "height": 844}, color_scheme="dark")
        message = {"state": Services(ReplayEngine()).status()}
        part = ReplayEngine()._part(HOSTILE, "target") | {"note": HOSTILE, "dtype": HOSTILE}
        message["state"] |= {"loaded": [part], "said": [HOSTILE], "versions": {HOSTILE: HOSTILE}}
        found = {"survey": {"said": [HOSTILE * 20], "refuses": [[HOSTILE, HOSTILE]]}}
        for given in (message, found, {"survey": {"error": HOSTILE, "hint": HOSTILE}}):
            page.evaluate("(text) => canopy.models.receive(text)", json.dumps(given))
        page.wait_for_timeout(300)
        assert page.evaluate("() => window.pwned") is None
        assert page.locator(".cy-models img").count() == 0
        assert "⟨RLO⟩" in page.inner_text(".cy-loaded")
        for width in (390, 1440, 2560):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        watch.check(address)
