"""What nobody inside has caught becomes an answer that explains itself, and not a torn connection."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workbench.private_log import log, without_values

ANSWER = {"message": "This request could not be served.", "hint": "Load the page again."}


class LastResort:
    """Answers 500 with message and hint where an exception comes through before an answer has begun."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception as error:
            if begun or scope["type"] != "http":
                raise
            log.error("a request failed\n%s", without_values(error))
            await JSONResponse(ANSWER, status_code=500)(scope, receive, send)
