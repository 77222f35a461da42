"""A Hub on localhost that holds folders: what huggingface_hub asks for, and nothing else."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.decoding.tiny import serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def fake_hub(repositories: Mapping[str, Path]) -> Iterator[str]:
    """Serves each folder as the repository of that name; gives the address for HF_ENDPOINT."""

    class Hub(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(with_body=False)

        def do_GET(self) -> None:
            self.answer(with_body=True)

        def answer(self, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            for name, folder in repositories.items():
                if path.startswith(f"/api/models/{name}"):
                    files = [{"rfilename": f.name, "size": f.stat().st_size} for f in sorted(folder.iterdir())]
                    tree = [{"type": "file", "path": f["rfilename"], "size": f["size"], "oid": COMMIT} for f in files]
                    said = tree if "/tree/" in path else {"id": name, "sha": COMMIT, "siblings": files}
                    return self.send(json.dumps(said).encode(), {"Content-Type": "application/json"}, with_body)
                file = folder / path.rpartition("/")[2]
                if path.startswith(f"/{name}/resolve/") and file.is_file():
                    body = file.read_bytes()
                    etag = hashlib.sha256(body).hexdigest()
                    return self.send(body, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}, with_body)
                if path.startswith(f"/{name}/resolve/"):
                    return self.refuse("EntryNotFound")
            return self.refuse("RepoNotFound")

        def send(self, body: bytes, headers: dict[str, str], with_body: bool) -> None:
            self.send_response(200)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def refuse(self, code: str) -> None:
            self.send_response(404)
            self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with serving(Hub) as address:
        yield address
