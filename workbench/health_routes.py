"""Whether this server lives and can serve its page: plain addresses for whatever watches over it.

    GET /healthz    it answers at all
    GET /readyz     the page can be opened: its files are there, and the engine has models to offer

Neither loads a model or says anything of a run.
"""

from pathlib import Path

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from workbench.boundary import explain
from workbench.services import Services

SHOWN_FIRST = ("page.js", "traces/welcome.jsonl")
"""What the first look needs of `static`."""
FRESH = {"Cache-Control": "no-store"}


def health_routes(services: Services, static: Path) -> list[Route]:
    """The routes over the services."""

    async def alive(_: Request) -> Response:
        return JSONResponse({"alive": True}, headers=FRESH)

    async def ready(_: Request) -> Response:
        missing = await run_sync(_missing, services, static)
        return JSONResponse(
            {"ready": not missing, "missing": missing}, status_code=503 if missing else 200, headers=FRESH
        )

    return [Route("/healthz", alive), Route("/readyz", ready)]


def _missing(services: Services, static: Path) -> list[str]:
    missing = [name for name in SHOWN_FIRST if not (static / name).is_file()]
    try:
        if not services.targets():
            missing.append("a target to run")
    except Exception as error:
        missing.append(explain(error).message)
    return missing
