"""Stands in for `spaces.GPU` where there is no ZeroGPU: forks, pickles all that crosses, ends a worker in time.

It does what that package's generator wrapper does, to what is called through it: a worker runs ahead of whoever reads;
once the reader is closed it ends at its next yield, and the reader waits for that; a worker that dies or is ended says
nothing, and the reader then raises the package's own error; of an exception only the name of its class arrives.
"""

import inspect
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from queue import Queue
from typing import Any

import gradio as gr

FORK = multiprocessing.get_context("fork")


class LentGpu:
    """A decorator with a memory: what was asked for, and by whom it was done."""

    def __init__(self) -> None:
        self.seconds: list[int] = []
        self.workers: list[Any] = []

    def __call__(self, duration: Callable[..., int]) -> Callable[[Callable[..., Any]], Callable[..., Iterator[Any]]]:
        def decorate(task: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
            assert inspect.isgeneratorfunction(task), "the package treats anything else as a plain function"

            def lent(*arguments: Any) -> Iterator[Any]:
                return self._lent(task, duration(*arguments), pickle.dumps(arguments))

            return lent

        return decorate

    def _lent(self, task: Callable[..., Any], seconds: int, arguments: bytes) -> Iterator[Any]:
        self.seconds.append(seconds)
        ours, theirs = FORK.Pipe(duplex=False)
        stop = FORK.Event()
        worker = FORK.Process(target=_work, args=(task, arguments, theirs, stop), daemon=True)
        worker.start()
        self.workers.append(worker)
        theirs.close()
        came: Queue[tuple[str, Any]] = Queue()
        reader = threading.Thread(target=_read, args=(ours, came))
        reader.start()
        limit = threading.Timer(seconds, worker.kill)
        limit.start()
        try:
            while (said := came.get())[0] != "end":
                if said[0] == "error":
                    raise gr.Error(said[1], title="ZeroGPU worker error", print_exception=False)
                try:
                    yield said[1]
                except GeneratorExit:
                    stop.set()
                    raise
        finally:
            reader.join()
            worker.join()
            limit.cancel()


def _read(pipe: Connection, came: "Queue[tuple[str, Any]]") -> None:
    """Takes all that the worker sends, whether or not anybody wants it yet."""
    try:
        while True:
            came.put(pickle.loads(pipe.recv_bytes()))
    except EOFError:
        came.put(("error", "GPU task aborted"))
    finally:
        pipe.close()


def _work(task: Callable[..., Any], arguments: bytes, pipe: Connection, stop: Event) -> None:
    try:
        stream = task(*pickle.loads(arguments))
        for item in stream:
            if stop.is_set():
                stream.close()
                break
            pipe.send_bytes(pickle.dumps(("ok", item)))
        pipe.send_bytes(pickle.dumps(("end", None)))
    except Exception as error:
        pipe.send_bytes(pickle.dumps(("error", type(error).__name__)))
    finally:
        pipe.close()
        os._exit(0)
