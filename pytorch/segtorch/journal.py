"""rows.jsonl: the settings in its first line, then an object's result in each, on disk before the
next object begins.

While a run is at work it holds a lock on the file, as `segtrt bench` does. Else a run whose caller
has died, but which still measures, would write its rows, masks and tables in between those of the
run that begins in its folder.
"""

import fcntl
import json
import os

from . import RunError, set_aside


class Journal:
    """A new journal in `folder`; `say` hears of what an earlier run left there, which is set aside."""

    def __init__(self, folder, head, say):
        self._path = folder / set_aside.JOURNAL
        # What is there belongs to whoever holds it, and is moved only when nobody does.
        self._file = self._open()
        moved = set_aside.earlier_run(folder)
        if moved:
            say(set_aside.told(folder, moved))
        if any(old == self._path.name for old, _ in moved):
            # The file that is open has the other name now.
            self._file.close()
            self._file = self._open()
        self.append(head)

    def _open(self):
        try:
            file = open(self._path, "a", encoding="utf-8")
        except OSError as error:
            raise RunError(f"{self._path} cannot be opened: {error}",
                           "choose a writable --out-dir") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            what = f"{self._path} is being written by another run"
            raise RunError(what, "wait for it, end it, or choose another --out-dir") from error
        except OSError:
            pass  # a file system without locks
        return file

    def append(self, value):
        """Writes a line and waits until it is on disk."""
        self._file.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self):
        """Another run may begin in the folder. A process that was forked meanwhile holds the file, but not the lock."""
        if self._file.closed:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError:
            pass
        self._file.close()
