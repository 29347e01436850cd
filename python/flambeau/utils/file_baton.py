"""A lock between processes that is a file: who makes the file holds it, who deletes it lets go."""

from __future__ import annotations

import os
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class FileBaton:
    """Lets one process at a time do what several want done, such as building a file they share."""

    def __init__(
        self,
        lock_file_path: Any,
        wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.fd: int | None = None
        self.warn_after_seconds = warn_after_seconds

    def try_acquire(self) -> bool:
        """Takes the baton if nobody has it; says whether that was so."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Waits until nobody has the baton, without taking it."""
        began, warned = time.monotonic(), self.warn_after_seconds is None
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if not warned and time.monotonic() - began > (self.warn_after_seconds or 0):
                warnings.warn(
                    f"FileBaton: still waiting for '{self.lock_file_path}' to be let go after "
                    f"{self.warn_after_seconds} seconds. If its process has ended, delete the file",
                    stacklevel=2,
                )
                warned = True

    def release(self) -> None:
        """Lets go of the baton."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
