"""What goes wrong when a checkpoint is read from the Hub or from a folder, told in one line with the way out."""

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from decoding.errors import BadRequest, CanopyError, ModelUnavailable, OutOfMemory, UnsupportedModel
from decoding.exhaustion import is_out_of_memory

READABLE = (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError, AttributeError, MemoryError)
"""What transformers and huggingface_hub raise for a checkpoint that is missing, damaged or of an unknown kind."""
NETWORK = ("httpx", "httpcore", "requests")
"""What the names of the modules begin with whose exceptions tell of the network; huggingface_hub lets some through."""
BROKEN_OFF = frozenset({"RemoteProtocolError", "ReadError", "ReadTimeout", "ChunkedEncodingError"})
"""Of these, those for a connection that was there."""
FILES = "files"
"""What is being fetched, where it is not read yet."""
SAFETENSORS_HINT = "Use a checkpoint in safetensors, or convert it with save_pretrained: pickled weights are not read."
OFFLINE_HINT = "Check the network and HF_ENDPOINT, use a model that is in the cache, or the embedded smollm2-135m."
AGAIN_HINT = "Try again: files that have come whole are kept, and the rest is fetched."


@contextmanager
def told_plainly(model_id: str, part: str = "weights") -> Iterator[None]:
    """Turns the many exceptions of loading a `part` of `model_id` into one CanopyError with a hint."""
    from safetensors import SafetensorError

    try:
        yield
    except CanopyError:
        raise
    except SafetensorError as error:
        raise ModelUnavailable(
            f"The weights of {model_id} are damaged: {_first_line(error)}.", "Fetch the checkpoint again."
        ) from error
    except Exception as error:
        if not isinstance(error, READABLE) and not _of_network(error):
            raise
        raise explain(error, model_id, part) from error


def explain(error: BaseException, model_id: str, part: str = "weights") -> CanopyError:
    """The CanopyError for what huggingface_hub or transformers raised about `model_id`."""
    from huggingface_hub import errors as hub

    chain = list(_chain(error))
    text = " ".join(str(link) for link in chain)
    if any(map(is_out_of_memory, chain)):
        return out_of_memory(model_id)
    if _any(chain, hub.GatedRepoError):
        return ModelUnavailable(
            f"{model_id} is gated: its owner asks for an account.",
            "Accept its terms on its Hub page, then run `hf auth login` or set HF_TOKEN.",
        )
    if _any(chain, hub.RepositoryNotFoundError, hub.RevisionNotFoundError):
        return ModelUnavailable(
            f"There is no model {model_id} on the Hub, or it is private.", "Check the spelling (owner/name) or log in."
        )
    if _any(chain, hub.HFValidationError):
        return BadRequest(f"{model_id!r} is not the name of a model.", "Give a Hub id (owner/name) or a folder.")
    if any(getattr(link, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) for link in chain):
        return ModelUnavailable(f"The disk is full: {model_id} does not fit.", "Free some space or set HF_HOME.")
    if any(_of_network(link) and type(link).__name__ in BROKEN_OFF for link in chain):
        return ModelUnavailable(f"The connection to the Hub broke off: not all of {model_id} has come.", AGAIN_HINT)
    if any(map(_of_network, chain)) or _any(chain, hub.OfflineModeIsEnabled, hub.LocalEntryNotFoundError):
        return ModelUnavailable(f"{model_id} could not be fetched: the Hub was not reached.", OFFLINE_HINT)
    if "safetensors" in text and ("no file named" in text or "does not appear to have" in text):
        return UnsupportedModel(f"{model_id} has no weights in safetensors.", SAFETENSORS_HINT)
    if isinstance(error, ImportError):
        return UnsupportedModel(f"{model_id} needs a package that is not here: {_first_line(error)}.", "Install it.")
    if part == FILES:
        return ModelUnavailable(f"{model_id} could not be fetched: {_first_line(error)}.", AGAIN_HINT)
    return ModelUnavailable(
        f"The {part} of {model_id} could not be loaded: {_first_line(error)}.",
        "Check its files, or choose another model.",
    )


def require_reachable(model_id: str) -> None:
    """Raises at once where nobody answers at the Hub's address; transformers would go on trying for half a minute."""
    from huggingface_hub import constants

    address = urlsplit(constants.ENDPOINT)
    offline = constants.HF_HUB_OFFLINE
    if not offline and not getproxies():  # behind a proxy nothing can be said without asking
        try:
            port = address.port or (443 if address.scheme == "https" else 80)
            socket.create_connection((address.hostname or "", port), timeout=5).close()
        except OSError:
            offline = True
    if offline:
        raise ModelUnavailable(f"{model_id} could not be fetched: the Hub was not reached.", OFFLINE_HINT)


def out_of_memory(model_id: str, detail: str = "") -> OutOfMemory:
    return OutOfMemory(
        f"There is not enough memory for {model_id}{detail}.",
        "Choose a smaller model, --dtype bfloat16, or free memory used by other programs.",
    )


def check_folder(folder: Path, model_id: str) -> None:
    """Raises where a local folder cannot be a safetensors checkpoint."""
    if not (folder / "config.json").is_file():
        raise BadRequest(f"{model_id} has no config.json.", "Give the folder of a Hugging Face checkpoint.")
    if not any(folder.glob("*.safetensors")):
        raise UnsupportedModel(f"{model_id} has no weights in safetensors.", SAFETENSORS_HINT)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _of_network(error: BaseException) -> bool:
    return type(error).__module__.startswith(NETWORK)


def _any(chain: list[BaseException], *kinds: type[BaseException]) -> bool:
    return any(isinstance(link, kinds) for link in chain)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300].rstrip(".:")
