"""The page: `python app.py [--host H] [--port P]`."""

import argparse

from workbench.page import build_page, launch_arguments
from workbench.services import Services


def arguments() -> argparse.Namespace:
    """What the command line takes."""
    parser = argparse.ArgumentParser(description="Canopy: a workbench for tree speculative decoding")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=None, help="port (default: the first free one from 7860)")
    return parser.parse_args()


def main() -> None:
    """Builds the services and the page, and serves it."""
    from workbench.engine import DecodingEngine

    args = arguments()
    page = build_page(Services(DecodingEngine()))
    print("Canopy is starting…", flush=True)
    page.launch(server_name=args.host, server_port=args.port, prevent_thread_lock=True, **launch_arguments())
    print(f"Canopy is at {page.local_url}", flush=True)
    page.block_thread()


if __name__ == "__main__":
    main()
