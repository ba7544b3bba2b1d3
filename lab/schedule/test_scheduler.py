"""Tests of measure.py's scheduler, with stand-ins for programs, GPUs and TensorRT: python3 -m
unittest discover -s lab/schedule

Jobs are small Python programs that sleep, write files and tell on which processors they ran.
"""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from schedule import machine, process  # noqa: E402
from schedule.job import ALL, ALONE, SHARED, Job, checked  # noqa: E402
from schedule.ledger import Ledger  # noqa: E402
from schedule.scheduler import Scheduler  # noqa: E402
from case import LAB, Case  # noqa: E402

TOLD = "import os,time,pathlib,sys; "
PROCESSORS = sorted(os.sched_getaffinity(0))


def sleeps(seconds, then=""):
    return [sys.executable, "-c", f"{TOLD}time.sleep({seconds}); {then}"]


def writes(path, seconds=0.0):
    """Leaves its GPU and its processors in a file."""
    what = "os.environ['CUDA_VISIBLE_DEVICES'] + ' ' + ','.join(map(str, sorted(os.sched_getaffinity(0))))"
    return sleeps(seconds, f"pathlib.Path({str(path)!r}).write_text({what})")


class LabCase(Case):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.restore, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))

    def restore(self, *handlers):
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), handlers):
            signal.signal(number, handler)

    def lab(self, *jobs, gpus=("0", "1"), memory=100.0, **more):
        """Runs the jobs; how many are not done."""
        here = machine.shared_out(gpus, PROCESSORS, memory)
        self.ledger = Ledger(self.out)
        self.ledger.quiet = True
        with self.ledger.held():
            self.ledger.end_leftovers()
            return Scheduler(checked(jobs), here, self.ledger, poll=0.02, **more).run()

    def record(self, name):
        return self.ledger.record(name)

    def together(self, one, other):
        a, b = self.record(one), self.record(other)
        return a["begin"] < b["end"] and b["begin"] < a["end"]


class Running(LabCase):
    def test_needs_come_first_and_a_failure_costs_its_dependants_alone(self):
        a, b = self.out / "a", self.out / "b"
        left = self.lab(
            Job("after",
                sleeps(0, f"pathlib.Path({str(b)!r}).write_text(open({str(a)!r}).read())"),
                needs=["before"],
                results=[b]),
            Job("before", writes(a, 0.3), results=[a]),
            Job("bad", sleeps(0, "print('the reason'); sys.exit(3)")),
            Job("lost", sleeps(0), needs=["bad"]),
            Job("lost_too", sleeps(0), needs=["lost"]),
            Job("empty", sleeps(0), results=[self.out / "never"]),
            Job("answer", sleeps(0, "sys.exit(1)"), codes=(0, 1)),
            Job("no_program", ["/nowhere/program"]),
        )
        self.assertEqual(left, 5)
        self.assertTrue(b.is_file())
        self.assertGreaterEqual(self.record("after")["begin"], self.record("before")["end"])
        self.assertEqual((self.record("bad")["state"], self.record("bad")["code"]), ("failed", 3))
        self.assertIsNone(self.record("lost"))
        self.assertIn("never", self.record("empty")["why"])
        self.assertEqual((self.record("answer")["state"], self.record("answer")["code"]), ("done", 1))
        self.assertIn("/nowhere/program", self.record("no_program")["why"])
        log = (self.out / "lab.log").read_text()
        self.assertIn("the reason", log)
        self.assertIn("not begun, needing those: lost, lost_too", log)

    def test_what_is_optional_is_waited_for_but_costs_nobody(self):
        seen = self.out / "seen"
        left = self.lab(
            Job("fails", sleeps(0.3, "sys.exit(3)"), optional=True),
            Job("lost", sleeps(0), needs=["required"], optional=True),
            Job("required", sleeps(0, "sys.exit(3)")),
            Job("too_long", sleeps(0), expect=1000, optional=True),
            Job("well", sleeps(0), optional=True),
            Job(
                "goes_on",
                [*writes(seen), "a,one,two,b"],
                needs=["fails", "lost", "too_long", "well"],
                results=[seen],
                expect=1,
                only_with={"fails": ",one", "well": ",two"},
            ),
            gpus=(),
            seconds=60,
        )
        self.assertEqual(left, 4)
        self.assertTrue(seen.exists())
        self.assertGreaterEqual(self.record("goes_on")["begin"], self.record("fails")["end"])
        self.assertIn(" a,two,b\n", self.ledger.log_path("goes_on").read_text().splitlines(keepends=True)[0])

    def test_a_measurement_has_its_gpu_to_itself(self):
        jobs = [Job(f"alone{k}", sleeps(0.3), gpu=ALONE, expect=0.3) for k in range(3)]
        jobs += [Job(f"shared{k}", sleeps(0.3), gpu=SHARED, expect=0.3, slots=4) for k in range(7)]
        jobs += [Job("every", sleeps(0.2), gpu=ALL, expect=0.2)]
        self.assertEqual(self.lab(*jobs), 0)
        beside = 0
        for one in jobs:
            for other in jobs:
                a, b = self.record(one.name), self.record(other.name)
                if one is not other and set(a["gpus"]) & set(b["gpus"]) and self.together(
                        one.name, other.name):
                    self.assertEqual((one.gpu, other.gpu), (SHARED, SHARED), (one.name, other.name))
                    beside += 1
        self.assertGreater(beside, 0, "builds share a GPU")
        self.assertEqual(self.record("every")["gpus"], ["0", "1"])
        # What ran on other GPUs at the same time is written down on both sides.
        pairs = [(x, y) for x in jobs for y in jobs if x is not y and self.together(x.name, y.name)]
        for x, y in pairs:
            self.assertIn(y.name, self.record(x.name)["beside"])

    def test_a_job_sees_its_gpu_and_stays_on_its_processors(self):
        places = [self.out / name for name in ("m0", "m1", "c")]
        self.lab(
            Job("m0", writes(places[0], 0.4), gpu=ALONE, results=[places[0]]),
            Job("m1", writes(places[1], 0.4), gpu=ALONE, results=[places[1]]),
            Job("c", writes(places[2], 0.4), results=[places[2]]),
        )
        here = machine.shared_out(("0", "1"), PROCESSORS, 1)
        found = [path.read_text().split(" ") for path in places]
        for gpu, processors in found[:2]:
            self.assertEqual(processors, ",".join(map(str, here.own[gpu])))
        self.assertEqual(sorted(gpu for gpu, _ in found), ["", "0", "1"])

    @unittest.skipIf(len(PROCESSORS) < 2, "SKIPPED: one processor cannot be shared out")
    def test_work_without_a_gpu_makes_room_for_a_measurement(self):
        # A thread of it, too: what began on all processors is moved when a measurement begins, and
        # back afterwards.
        told = self.out / "seen"
        watch = (
            "import threading; seen=[]; stop=time.time()+40\n"
            "def look():\n"
            "    while time.time()<stop and not (len(set(map(tuple, seen)))>1 and seen[-1]==seen[0]):\n"
            "        seen.append(sorted(os.sched_getaffinity(0))); time.sleep(0.05)\n"
            "t=threading.Thread(target=look); t.start(); t.join()\n"
            f"pathlib.Path({str(told)!r}).write_text(repr([seen[0], min(seen, key=len), seen[-1]]))"
        )
        self.lab(
            Job("aside", [sys.executable, "-c", f"{TOLD}\n{watch}"], results=[told], expect=2),
            Job("first", sleeps(1)),
            Job("measured", sleeps(0.8), gpu=ALONE, needs=["first"]),
            gpus=("0",),
        )
        here = machine.shared_out(("0",), PROCESSORS, 1)
        before, during, after = eval(told.read_text())  # its own lists of numbers
        self.assertEqual(before, PROCESSORS)
        self.assertEqual(during, sorted(here.aside))
        self.assertEqual(after, PROCESSORS)
        self.assertFalse(set(during) & set(self.record("measured")["processors"]))

    def test_limits_kill_with_all_children(self):
        child = "import subprocess; subprocess.Popen([sys.executable,'-c','import time; time.sleep(60)'], start_new_session=True)"
        child += "; time.sleep(60)"
        begin = time.monotonic()
        left = self.lab(Job("long", [sys.executable, "-c", TOLD + child], limit=0.5),
                        Job("next", sleeps(0), gpu=ALONE))
        self.assertEqual(left, 1)
        self.assertIn("longer than", self.record("long")["why"])
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(process.marked(self.ledger.mark("long")), [])

    def test_what_lingers_after_a_job_is_ended(self):
        child = "import subprocess; subprocess.Popen([sys.executable,'-c','import time; time.sleep(60)'], start_new_session=True)"
        self.assertEqual(self.lab(Job("leaves", [sys.executable, "-c", TOLD + child])), 0)
        self.assertEqual(process.marked(self.ledger.mark("leaves")), [])

    def test_nothing_begins_that_would_end_too_late(self):
        left = self.lab(Job("short", sleeps(0), expect=0.1), Job("late", sleeps(0), expect=50), seconds=5)
        self.assertEqual(left, 1)
        self.assertIsNone(self.record("late"))
        self.assertIn("left for later: late would take", (self.out / "lab.log").read_text())
        # One that takes longer than was thought is ended with the lab.
        self.assertEqual(self.lab(Job("slow", sleeps(30), expect=0.1), seconds=0.6), 1)
        self.assertEqual(self.record("slow")["why"], "the time was up")

    def test_memory_of_the_host_is_shared(self):
        jobs = [Job(f"j{k}", sleeps(0.2), gpu=SHARED, memory_gib=4) for k in range(4)]
        self.assertEqual(self.lab(*jobs, memory=9.0), 0)
        spans = [(self.record(job.name)["begin"], self.record(job.name)["end"]) for job in jobs]
        most = max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)
        self.assertEqual(most, 2)

    def test_jobs_that_need_tensorrt_wait_for_it(self):
        file = self.out / "ready"
        jobs = [
            Job("library", sleeps(0.5, f"pathlib.Path({str(file)!r}).write_text('x')")),
            Job("build", sleeps(0), gpu=SHARED, waits=True, priority=1),
            Job("learn", sleeps(0), gpu=SHARED),
        ]
        self.assertEqual(self.lab(*jobs, wait_for=file), 0)
        self.assertLess(self.record("learn")["begin"], self.record("library")["end"])
        self.assertGreaterEqual(self.record("build")["begin"], self.record("library")["begin"] + 0.4)
        # It never comes: the lab ends when nothing could end in time any more.
        self.assertEqual(
            self.lab(Job("never", sleeps(0), expect=0.5, waits=True), wait_for=self.out / "no", seconds=1),
            1)

    def test_urgent_work_is_not_kept_waiting_by_a_long_measurement(self):
        jobs = [
            Job("export", sleeps(0.4), expect=0.4, priority=1),
            Job("build", sleeps(0.1), gpu=SHARED, expect=0.1, needs=["export"], priority=1),
            Job("compile", sleeps(2), gpu=ALONE, expect=20, priority=9),
        ]
        self.assertEqual(self.lab(*jobs, gpus=("0",)), 0)
        self.assertLess(self.record("build")["end"], self.record("compile")["begin"])
        # With a second GPU it need not wait.
        for path in self.ledger.jobs.glob("*.json"):
            path.unlink()
        self.assertEqual(self.lab(*jobs), 0)
        self.assertLess(self.record("compile")["begin"], self.record("export")["end"])


class Resuming(LabCase):
    def test_done_jobs_are_left_alone_and_half_results_go(self):
        good, half, flag = self.out / "good", self.out / "half", self.out / "flag"
        fails_once = f"p=pathlib.Path({str(half)!r}); p.mkdir(); (p/'x').write_text('1'); "
        fails_once += f"sys.exit(0 if os.path.exists({str(flag)!r}) else 4)"
        jobs = [Job("good", writes(good), results=[good]), Job("half", sleeps(0, fails_once), results=[half])]
        self.assertEqual(self.lab(*jobs), 1)
        first = good.stat().st_mtime_ns
        flag.touch()
        self.assertEqual(self.lab(*jobs), 0)  # mkdir fails where the half result was left
        self.assertEqual(good.stat().st_mtime_ns, first)
        # A result that was taken away is made again.
        good.unlink()
        self.assertEqual(self.lab(*jobs), 0)
        self.assertTrue(good.is_file())

    def test_after_kill_9_the_next_lab_ends_what_was_left_and_goes_on(self):
        program = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "from schedule.job import *; from schedule.ledger import Ledger; from schedule.scheduler "
            "import Scheduler; from schedule import machine\n"
            "jobs = [Job('quick', ['true']), Job('stays', ['sleep', '60'], gpu='alone', needs=['quick'])]\n"
            "ledger = Ledger(sys.argv[2])\n"
            "with ledger.held():\n"
            "    Scheduler(checked(jobs), machine.shared_out(('0',), range(1), 8), ledger).run()\n"
        )
        lab = subprocess.Popen([sys.executable, "-c", program, LAB, self.out], stdout=subprocess.DEVNULL)
        mark = f"{self.out.absolute()}/stays"
        deadline = time.monotonic() + 20
        while not process.marked(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        with self.assertRaises(SystemExit):  # one lab at a time
            self.lab(Job("quick", ["true"]))
        lab.kill()
        lab.wait()
        self.assertEqual(len(process.marked(mark)), 1, "it outlives the lab")
        self.assertEqual(self.lab(Job("quick", ["false"]), Job("stays", ["true"], needs=["quick"])), 0)
        self.assertEqual(process.marked(mark), [])
        self.assertIn("left over: stays (1 processes ended)", (self.out / "lab.log").read_text())
        self.assertEqual(self.record("stays")["state"], "done")

    def test_told_to_stop_it_ends_its_jobs(self):
        ender = f"import signal; time.sleep(0.3); os.kill({os.getpid()}, signal.SIGTERM); time.sleep(60)"
        self.assertEqual(self.lab(Job("ender", [sys.executable, "-c", TOLD + ender])), 1)
        self.assertEqual(self.record("ender")["why"], "the lab was told to stop")
        self.assertEqual(process.marked(self.ledger.mark("ender")), [])

    def test_told_to_stop_twice_it_ends_its_jobs_all_the_same(self):
        deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        twice = f"time.sleep(0.5); os.kill({os.getpid()}, signal.SIGTERM); " * 2
        left = self.lab(Job("ender", [sys.executable, "-c", f"{TOLD}{deaf}{twice}time.sleep(60)"]),
                        Job("other", sleeps(60)))
        self.assertEqual(left, 2)
        for name in ("ender", "other"):
            self.assertEqual(self.record(name)["why"], "the lab was told to stop")
            self.assertEqual(process.marked(self.ledger.mark(name)), [])

    def test_a_copy_that_a_killed_lab_left_half_done_does_not_stop_the_next_one(self):
        source, place = self.out / "kept.d", self.out / "timing.d"
        for folder in (source, self.out / "timing.d.part"):
            folder.mkdir()
        (source / "a.timing").write_text("x")
        self.assertEqual(self.lab(Job("build", ["true"], copies=[(source, place)])), 0)
        self.assertEqual([path.name for path in place.iterdir()], ["a.timing"])


if __name__ == "__main__":
    unittest.main()
