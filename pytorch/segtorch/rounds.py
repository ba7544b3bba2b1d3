"""The protocol with the caller: one JSON line an event on stdout, everything else on stderr.

{"event":"ready","round":k,"tells":…}    models are built and warm; with --interactive `go [N]` is
awaited on stdin: N
                                         other runners have the GPU open and wait meanwhile; `tells`: of progress
{"event":"progress"}                     with --interactive, every second in which a frame was
finished, and behind `go`:
                                         who hears nothing for long knows that the runner hangs
{"event":"done","round":k,"folder":…,"fps":…}
{"event":"error","what":…,"advice":…}    the run is over: exit code 1, or 2 where the command line was wrong
`quit`, or the end of stdin, ends the run before its next round.
"""

import json
import os
import sys
import time

from . import RunError


class Events:
    """stdout, kept for events: whatever libraries print goes to stderr."""

    def __init__(self):
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def send(self, event, **members):
        """One line, at once."""
        self._out.write(json.dumps({"event": event, **members}) + "\n")
        self._out.flush()


class Pulse:
    """Tells the caller now and then that frames are being finished. Called between frames, outside
    their times."""

    PERIOD_S = 1.0

    def __init__(self, events):
        self._events, self._last = events, time.monotonic()

    def __call__(self):
        now = time.monotonic()
        if now - self._last >= self.PERIOD_S:
            self._last = now
            self._events.send("progress")


def say(text):
    """A line for people."""
    print(text, file=sys.stderr, flush=True)


def run_rounds(args, side, events, make_folder):
    """Measures `args.rounds` rounds; returns how many rows failed."""
    failed = 0
    if args.interactive:
        side.runner.frame_done = Pulse(events)
    for number in range(args.rounds):
        events.send("ready", round=number, tells=bool(args.interactive))
        if args.interactive:
            side.idle_processes = _told_to_go()
            if side.idle_processes is None:
                return failed
            events.send("progress")
        path = _folder_of(args, number)
        folder = make_folder(path)
        side.measure(folder)
        folder.close()
        failed += folder.failed()
        fps = folder.fps()
        events.send("done", round=number, folder=str(path), fps=fps, failed=folder.failed())
    return failed


def refuse_own_teacher(args):
    """A run sets aside the logits that it finds in its folder, so that they cannot be its teacher's."""
    if args.teacher is None:
        return
    for number in range(args.rounds):
        path = _folder_of(args, number)
        if path.resolve() == args.teacher.resolve():
            what = f"--teacher {args.teacher}: this run would be written into the same folder and move its logits aside"
            raise RunError(what, "choose another --out-dir", usage=True)


def _folder_of(args, number):
    alone = args.rounds == 1 and not args.interactive
    return args.out_dir if alone else args.out_dir / f"round_{number}"


def _told_to_go():
    """Waits for `go`; how many other runners wait meanwhile, None for `quit` or the end of stdin."""
    for line in sys.stdin:
        word = line.strip()
        order, _, waiting = word.partition(" ")
        if order == "go" and (waiting.isdecimal() or not waiting):
            return int(waiting or 0)
        if word == "quit":
            return None
        if word:
            say(f"{word!r} is not understood: go, go N or quit")
    return None
