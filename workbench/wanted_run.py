"""Which run is still wanted, in memory that worker processes share when they are forked later."""

import mmap


class WantedRun:
    """The number of the one run that has the device; a worker looks before each round whether it is still its own.

    An event of `threading` would be copied by a fork and never set in the copy. An anonymous mapping stays common.
    """

    def __init__(self) -> None:
        self._cell = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self._last = 0

    def begin(self) -> int:
        """A new number, which is wanted from now on; the one before is not any more."""
        self._last += 1
        self._cell[0] = self._last
        return self._last

    def end(self) -> None:
        """No run is wanted."""
        self._cell[0] = 0

    def is_wanted(self, number: int) -> bool:
        """Asked by the worker."""
        return bool(self._cell[0] == number)
