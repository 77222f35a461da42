"""Memory that ran out, told from other failures: each allocator says it in words of its own."""

from decoding.errors import OutOfMemory

SAID = (
    "out of memory",  # CUDA, also through libraries on it
    "can't allocate memory",  # torch on a CPU: the system refused
    "not enough memory",
    "cannot allocate memory",
    "bad_alloc",
    "cublas_status_alloc_failed",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a device or in main memory."""
    if isinstance(error, MemoryError | OutOfMemory):
        return True
    return isinstance(error, RuntimeError | OSError) and any(words in str(error).lower() for words in SAID)
