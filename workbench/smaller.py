"""What to ask for instead where the memory did not suffice."""

from workbench.run_request import Asked, RunRequest

LEAST_NODES = 4
LEAST_TOKENS = 32
LEAST_PROMPT = 400
"""Below these, less brings nothing."""


def smaller(request: Asked, nodes: int) -> str:
    """A sentence with half of what was asked for, where half is worth trying: `nodes` is the most that a tree has."""
    way = request if isinstance(request, RunRequest) else request.ways[0]
    tries = []
    if nodes >= LEAST_NODES:
        tries.append(f"a budget of {nodes // 2} nodes")
    if way.text.max_new_tokens >= LEAST_TOKENS:
        tries.append(f"{way.text.max_new_tokens // 2} new tokens")
    if len(way.prompt) >= LEAST_PROMPT:
        tries.append("half the prompt")
    return f"Try {', '.join([*tries, 'or a smaller model' if tries else 'a smaller model'])}."
