"""The page: `python app.py [--host H] [--port P] [--public]`."""

import argparse
import gc
import os


def arguments() -> argparse.Namespace:
    """What the command line takes."""
    parser = argparse.ArgumentParser(description="Canopy: a workbench for tree speculative decoding")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=None, help="port (default: the first free one from 7860)")
    parser.add_argument("--public", action="store_true", help="for strangers: only the models that ship, and limits")
    return parser.parse_args()


def main() -> None:
    """Builds the services and the page, and serves it."""
    args = arguments()
    gc.disable()  # nothing that is imported is garbage: looking for some takes a sixth of the start
    from workbench.engine import DecodingEngine
    from workbench.page import build_page, launch_arguments
    from workbench.policy import chosen_policy
    from workbench.services import Services

    services = Services(DecodingEngine(), chosen_policy(args.public, os.environ))
    page = build_page(services)
    print("Canopy is starting…", flush=True)
    page.launch(server_name=args.host, server_port=args.port, prevent_thread_lock=True, **launch_arguments(services))
    gc.enable()
    gc.freeze()  # what is there now stays: later searches leave it out
    print(f"Canopy is at {page.local_url}", flush=True)
    page.block_thread()


if __name__ == "__main__":
    main()
