"""The page: `python app.py [--host H] [--port P] [--public]`."""

import argparse
import gc
import os
import sys
import threading

SWITCH_SECONDS = 0.0005
"""How long a thread that serves pages may keep those waiting that decode; Python's own 5 ms are a tenth of a round."""


def arguments() -> argparse.Namespace:
    """What the command line takes."""
    parser = argparse.ArgumentParser(description="Canopy: a workbench for tree speculative decoding")
    host = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1")
    parser.add_argument("--host", default=host, help=f"address to listen on (default: {host})")
    parser.add_argument("--port", type=int, default=None, help="port (default: the first free one from 7860)")
    parser.add_argument("--public", action="store_true", help="for strangers: only the models that ship, and limits")
    return parser.parse_args()


def main() -> None:
    """Builds the services and the page, and serves it."""
    args = arguments()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.disable()  # nothing that is imported is garbage: looking for some takes a sixth of the start
    from decoding.errors import CanopyError
    from workbench.page import build_page, launch_arguments
    from workbench.serving import build_services

    try:
        services = build_services(args.public, os.environ, lambda text: print(text, flush=True))
    except CanopyError as error:
        sys.exit(f"error: {error.message} {error.hint}")
    page = build_page(services)
    print("Canopy is starting…", flush=True)
    page.launch(server_name=args.host, server_port=args.port, prevent_thread_lock=True, **launch_arguments(services))
    gc.enable()
    gc.freeze()  # what is there now stays: later searches leave it out
    print(f"Canopy is at {page.local_url}", flush=True)
    threading.Thread(target=services.engine.warm_up, name="canopy-warm-up", daemon=True).start()
    page.block_thread()


if __name__ == "__main__":
    main()
