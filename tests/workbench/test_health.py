"""Plain addresses for whatever watches over the server."""

import shutil
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from tests.workbench.replay_engine import ReplayEngine
from workbench.engine import Choice
from workbench.health_routes import health_routes
from workbench.services import Services
from workbench.views.components import STATIC


class Bare(ReplayEngine):
    def targets(self) -> list[Choice]:
        return []


class Broken(ReplayEngine):
    def targets(self) -> list[Choice]:
        raise RuntimeError("secret inside")


def ask(path: str, engine: ReplayEngine, static: Path = STATIC) -> tuple[int, dict[str, object]]:
    answer = TestClient(Starlette(routes=health_routes(Services(engine), static))).get(path)
    assert answer.headers["cache-control"] == "no-store"
    return answer.status_code, answer.json()


def test_alive_and_ready_with_no_model_loaded() -> None:
    engine = ReplayEngine()
    assert ask("/healthz", engine) == (200, {"alive": True})
    assert ask("/readyz", engine) == (200, {"ready": True, "missing": []})
    assert engine.loaded() == []


@pytest.mark.parametrize("engine", [Bare(), Broken()])
def test_not_ready_without_targets(engine: ReplayEngine) -> None:
    status, said = ask("/readyz", engine)
    assert status == 503
    assert said["missing"]
    assert "secret" not in str(said)
    assert ask("/healthz", engine)[0] == 200


def test_not_ready_where_the_recorded_run_is_missing(tmp_path: Path) -> None:
    shutil.copy(STATIC / "page.js", tmp_path)
    assert ask("/readyz", ReplayEngine(), tmp_path) == (503, {"ready": False, "missing": ["traces/welcome.jsonl"]})
