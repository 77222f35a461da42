"""Turns on the one device: first come, first served, with everybody's place known."""

import threading
import time
from collections.abc import Callable

from decoding.errors import CanopyError

LOOK_SECONDS = 0.25
"""How often who waits looks whether it is still wanted, where nobody tells."""


class Busy(CanopyError):
    """Too many wait already."""


class DeviceQueue:
    """A line whose first has the device."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self._line: list[object] = []
        self._changed = threading.Condition()

    @property
    def length(self) -> int:
        """How many there are, the one that has the device counted."""
        return len(self._line)

    def take(self, wanted: Callable[[], bool], told: Callable[[int], None], again: bool = False) -> bool:
        """Waits for the device; False, and out of the line, once it is no longer `wanted`.

        Who has to wait is `told` how many stand before, at first and whenever that changes, 0 at last. Raises Busy
        where the line is too long, but not for who has had the device before (`again`). Who got it calls `give`.
        """
        mine, last = object(), None
        with self._changed:
            if not again and len(self._line) > self.most_waiting:
                raise Busy(f"{self.most_waiting} runs wait for the device already.", "Try again in a few minutes.")
            self._line.append(mine)
        try:
            while True:
                with self._changed:
                    before = self._line.index(mine)
                    if before == last:
                        self._changed.wait(LOOK_SECONDS)
                        before = self._line.index(mine)
                    if not wanted():
                        self._leave(mine)
                        return False
                if before != last and (before or last is not None):
                    told(before)
                if before == 0:
                    return True
                last = before
        except BaseException:
            self._leave(mine)
            raise

    def take_at_once(self) -> bool:
        """Takes the device if nobody has it or waits for it."""
        with self._changed:
            if self._line:
                return False
            self._line.append(object())
            return True

    def give(self) -> None:
        """The one that has the device gives it to the next."""
        with self._changed:
            self._line.pop(0)
            self._changed.notify_all()

    def look(self) -> None:
        """Tells those who wait that one of them may no longer be wanted."""
        with self._changed:
            self._changed.notify_all()

    def _leave(self, who: object) -> None:
        with self._changed:
            self._line.remove(who)
            self._changed.notify_all()


class Turn:
    """One run's hold on the device, which it may give up and take again."""

    def __init__(self, queue: DeviceQueue, wanted: Callable[[], bool], told: Callable[[int], None]) -> None:
        self.held = False
        self._queue = queue
        self._wanted = wanted
        self._told = told
        self._since = 0.0
        self._before = 0.0

    def take(self) -> bool:
        """Waits for the device; False where the run is no longer wanted."""
        self.held = self._queue.take(self._wanted, self._told, again=self._since > 0)
        self._since = time.monotonic()
        return self.held

    def give(self) -> None:
        """Gives the device up, if it is held."""
        if self.held:
            self._before = self.seconds
            self.held = False
            self._queue.give()

    @property
    def seconds(self) -> float:
        """How long it has been held, all in all."""
        return self._before + (time.monotonic() - self._since if self.held else 0.0)
