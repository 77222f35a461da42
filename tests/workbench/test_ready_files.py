"""Static files out of memory: what is on the disk, packed and asked for again; nothing but what lies in the folders."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.workbench.browser import served
from workbench.ready_files import ALWAYS_ASK, Folder, ReadyFiles
from workbench.views.components import STATIC

SCRIPT = "export const answer = 42;\n" * 50
BEHIND = "the app behind"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    folder = tmp_path / "static"
    (folder / "deep").mkdir(parents=True)
    (folder / "page.js").write_text(SCRIPT)
    (folder / "deep" / "tree.png").write_bytes(b"\x89PNG")
    (tmp_path / "secret.js").write_text("secret")

    async def behind(_: Any) -> Response:
        return PlainTextResponse(BEHIND)

    files = Middleware(ReadyFiles, folders={"/canopy/": Folder(folder, ALWAYS_ASK)})
    return TestClient(Starlette(routes=[Route("/{path:path}", behind, methods=["GET", "POST"])], middleware=[files]))


def test_a_file_comes_packed_or_plain(client: TestClient) -> None:
    packed = client.get("/canopy/page.js")
    plain = client.get("/canopy/page.js", headers={"accept-encoding": "identity"})
    assert packed.text == plain.text == SCRIPT
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(SCRIPT) / 4
    assert packed.headers["content-type"] == "text/javascript; charset=utf-8"
    picture = client.get("/canopy/deep/tree.png")
    assert (picture.content, picture.headers["content-type"]) == (b"\x89PNG", "image/png")
    assert "content-encoding" not in picture.headers


def test_who_has_it_gets_no_second_copy_until_it_changes(client: TestClient, tmp_path: Path) -> None:
    tag = client.get("/canopy/page.js").headers["etag"]
    again = client.get("/canopy/page.js", headers={"if-none-match": f"W/{tag}"})
    assert (again.status_code, again.content) == (304, b"")
    (tmp_path / "static" / "page.js").write_text("changed")
    assert client.get("/canopy/page.js", headers={"if-none-match": tag}).text == "changed"


def test_all_else_is_for_the_app(client: TestClient, tmp_path: Path) -> None:
    for path in ("/canopy/none.js", "/canopy/%2e%2e/secret.js", "/canopy//page.js", "/canopy/deep", "/page.js"):
        assert client.get(path).text == BEHIND, path
    assert client.post("/canopy/page.js").text == BEHIND
    (tmp_path / "static" / "page.js").unlink()
    assert client.get("/canopy/page.js").text == BEHIND


def test_the_server_uses_it_for_its_own_files_and_gradio_s() -> None:
    with served() as address, httpx.Client(base_url=address) as http:
        own = http.get("canopy/explore.js")
        script = http.get("").text.partition('src="./assets/')[2].partition('"')[0]
        theirs = http.get(f"assets/{script}")
    assert own.content == (STATIC / "explore.js").read_bytes()
    assert own.headers["cache-control"] == ALWAYS_ASK
    assert script.endswith(".js")
    assert "immutable" in theirs.headers["cache-control"]
    assert theirs.headers["x-content-type-options"] == "nosniff"
