"""What the user typed, as the token ids that the target reads."""

from typing import Any

from decoding.errors import BadRequest


def require_prompt(prompt: str) -> None:
    """Raises BadRequest for an empty prompt."""
    if not prompt.strip():
        raise BadRequest("The prompt is empty.", "Type a question or the beginning of a text.")


def encode_prompt(tokenizer: Any, prompt: str, raw: bool = False) -> tuple[int, ...]:
    """Token ids of `prompt`, as a user turn in the model's chat template, or as plain text to go on from (`raw`).

    A model without a chat template is always given plain text. Thinking mode is off where a template knows it: the
    published block drafters were trained without it. Raises BadRequest for an empty prompt.
    """
    require_prompt(prompt)
    if raw or not getattr(tokenizer, "chat_template", None):
        ids = tokenizer(prompt)["input_ids"]
    else:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return tuple(ids)
