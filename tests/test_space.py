"""The repository can be pushed to a Hugging Face Space as it is."""

import re
import subprocess
from pathlib import Path
from typing import Any

import gradio
import pytest
import yaml
from huggingface_hub import SpaceHardware
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from decoding.menu import PLACED, menu, placed_together, preloaded
from decoding.presets import DEFAULT_TARGET, PRESETS
from workbench.lent_time import ROUND_SECONDS, START_SECONDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README.partition("## Put it on a Space\n")[2].partition("\n## ")[0]
COLORS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
STRINGS = {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version", "app_file", "license",
           "short_description", "suggested_hardware", "suggested_storage", "startup_duration_timeout", "header",
           "base_path", "thumbnail", "app_build_command"}  # fmt: skip
FLAGS = {"pinned", "fullWidth", "disable_embedding", "hf_oauth"}
LISTS = {"models", "datasets", "tags", "preload_from_hub"}
ZERO_GPU_TORCH = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")
ZERO_GPU_CARD = 74_316_054_528
"""Bytes that ZeroGPU says are free on a whole slice."""
FREE_DISK = 50_000_000_000


@pytest.fixture(scope="module")
def card() -> dict[str, Any]:
    assert README.startswith("---\n")
    content = yaml.safe_load(README.split("---\n", 2)[1])
    assert isinstance(content, dict)
    return content


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone of the repository")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_spaces_know_every_field_and_its_kind(card: dict[str, Any]) -> None:
    for name, value in card.items():
        kinds = [kind for kind, names in ((str, STRINGS), (bool, FLAGS), (list, LISTS)) if name in names]
        assert kinds, f"Spaces do not know {name}"
        assert isinstance(value, kinds[0]), f"{name} is {value!r}"
    for name in LISTS & card.keys():
        assert all(isinstance(item, str) for item in card[name])
        assert len(set(card[name])) == len(card[name])
    assert {"title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "app_file", "license"} <= card.keys()
    assert {card["colorFrom"], card["colorTo"]} <= COLORS
    assert not card["emoji"].isascii()
    assert len(card["short_description"]) <= 60
    assert card["suggested_hardware"] in {item.value for item in SpaceHardware}
    assert re.fullmatch(r"\d+[smh]", card["startup_duration_timeout"])


def test_the_fields_say_what_is_here(card: dict[str, Any]) -> None:
    assert card["sdk"] == "gradio"
    assert (ROOT / card["app_file"]).is_file()
    assert card["python_version"] == "3.12", "ZeroGPU has 3.12 and 3.10"
    assert SpecifierSet(requirement("gradio").specifier).contains(card["sdk_version"])
    assert card["sdk_version"].rpartition(".")[0] == gradio.__version__.rpartition(".")[0], "tested with this one"
    assert "apache-2.0" in card["license"]
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_the_default_menu_of_a_gpu_is_preloaded_and_fits(card: dict[str, Any]) -> None:
    assert tuple(card["preload_from_hub"]) == preloaded(PLACED)
    assert set(card["models"]) == {"HuggingFaceTB/SmolLM2-135M-Instruct", *preloaded(PLACED)}
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", name) for name in card["models"])
    assert PLACED[0] == DEFAULT_TARGET
    fit, reasons = placed_together(PLACED, ZERO_GPU_CARD)
    assert (fit, reasons) == (PLACED, {})
    sizes = {item.id: item.needed_bytes for item in menu(None)}
    assert 2 * sum(sizes[name] for name in PLACED) < FREE_DISK, "as files, and once more as ZeroGPU packs them"


def requirement(name: str) -> Requirement:
    lines = (ROOT / "requirements.txt").read_text().split()
    return next(item for item in map(Requirement, lines) if item.name == name)


def test_requirements_are_bounded_and_take_what_zero_gpu_has() -> None:
    for line in (ROOT / "requirements.txt").read_text().split():
        bounds = {bound.operator for bound in Requirement(line).specifier}
        assert ">=" in bounds, f"{line} has no lower bound"
        assert bounds & {"<", "<="}, f"{line} has no upper bound"
    assert all(requirement("torch").specifier.contains(version) for version in ZERO_GPU_TORCH)
    assert not (ROOT / "packages.txt").exists(), "no package of the system is needed"


def test_no_file_needs_large_file_storage() -> None:
    files = tracked()
    assert len(files) > 100
    too_large = {str(path): size for path in files if path.exists() and (size := path.stat().st_size) > 10_000_000}
    assert too_large == {}


def test_the_section_names_the_figures_that_hold() -> None:
    for hardware in re.findall(r"`((?:cpu|zero|l4|a10g|a100)[\w-]*)`", SECTION):
        assert hardware in {item.value for item in SpaceHardware}, hardware
    sizes = {item.id: f"{item.needed_bytes / 1e9:.0f} GB" for item in menu(None)}
    for name, title in (("pythia-2.8b", "70M"), ("qwen3-4b", "Qwen3-4B with DFlash"), ("qwen3-8b", "or EAGLE-3"),
                        ("qwen3-coder-30b-a3b", "A3B with DFlash")):  # fmt: skip
        assert f"{title} {sizes[name]}" in " ".join(SECTION.split()), name
    assert f"asks for {START_SECONDS:.0f} seconds and {ROUND_SECONDS:g}".replace("0.", ".") in SECTION
    assert "CANOPY_MENU" in SECTION
    for target in re.findall(r"example `([\w.,-]+)`", SECTION)[0].split(","):
        assert target in {preset.id for preset in PRESETS}
