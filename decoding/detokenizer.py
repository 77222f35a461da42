"""Token ids to text, one token at a time."""

from typing import Any


class Detokenizer:
    """What each new token adds to the text. Bytes of an unfinished character wait for the token that completes it.

    Decodes only from the last clean boundary, so that a long text does not make each step slower.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pending: list[int] = []
        self._context: list[int] = []

    def feed(self, token: int) -> str:
        """The text that `token` adds."""
        if self._tokenizer is None:
            return f"[{token}]"
        self._pending.append(token)
        before = self._decode(self._context)
        after = self._decode(self._context + self._pending)
        if after.endswith("\ufffd") and len(self._pending) < 8:
            return ""
        # Some tokenizers drop the space of a first token: settled tokens in front keep it.
        self._context = self._pending
        self._pending = []
        return after[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def token_piece(tokenizer: Any, token: int) -> str:
    """How one token is shown alone: special tokens by name, bytes of a part of a character as \\xNN."""
    if tokenizer is None:
        return f"[{token}]"
    text: str = tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    if "\ufffd" in text or not text:
        raw = tokenizer.convert_ids_to_tokens(token)
        return raw if raw is not None else f"[{token}]"
    return text
