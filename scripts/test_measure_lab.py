"""Tests of scripts/measure-lab.py, with stand-ins for programs, GPUs and TensorRT: python3 -m unittest scripts/test_measure_lab.py

Jobs are small Python programs that sleep, write files and tell on which processors they ran.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

if sys.platform != "linux":
    raise unittest.SkipTest("SKIPPED: processes are pinned and found by what Linux offers")

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS))

from lab import engines, flags, machine, process  # noqa: E402
from lab.foresight import Foresight  # noqa: E402
from lab.harvest import harvest  # noqa: E402
from lab.job import ALL, ALONE, SHARED, Job, PlanError, checked, chosen  # noqa: E402
from lab.ledger import Ledger  # noqa: E402
from lab.plan import plan  # noqa: E402
from lab.scheduler import Scheduler  # noqa: E402
from lab.settings import TAGS, Settings  # noqa: E402

TOLD = "import os,time,pathlib,sys; "
PROCESSORS = sorted(os.sched_getaffinity(0))


def sleeps(seconds, then=""):
    return [sys.executable, "-c", f"{TOLD}time.sleep({seconds}); {then}"]


def writes(path, seconds=0.0):
    """Leaves its GPU and its processors in a file."""
    what = "os.environ['CUDA_VISIBLE_DEVICES'] + ' ' + ','.join(map(str, sorted(os.sched_getaffinity(0))))"
    return sleeps(seconds, f"pathlib.Path({str(path)!r}).write_text({what})")


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
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


class Running(Case):
    def test_needs_come_first_and_a_failure_costs_its_dependants_alone(self):
        a, b = self.out / "a", self.out / "b"
        left = self.lab(
            Job("after", sleeps(0, f"pathlib.Path({str(b)!r}).write_text(open({str(a)!r}).read())"), needs=["before"], results=[b]),
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

    def test_a_measurement_has_its_gpu_to_itself(self):
        jobs = [Job(f"alone{k}", sleeps(0.3), gpu=ALONE, expect=0.3) for k in range(3)]
        jobs += [Job(f"shared{k}", sleeps(0.3), gpu=SHARED, expect=0.3, slots=4) for k in range(7)]
        jobs += [Job("every", sleeps(0.2), gpu=ALL, expect=0.2)]
        self.assertEqual(self.lab(*jobs), 0)
        beside = 0
        for one in jobs:
            for other in jobs:
                a, b = self.record(one.name), self.record(other.name)
                if one is not other and set(a["gpus"]) & set(b["gpus"]) and self.together(one.name, other.name):
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
        # A thread of it, too: what began on all processors is moved when a measurement begins, and back afterwards.
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
        child = f"import subprocess; subprocess.Popen([sys.executable,'-c','import time; time.sleep(60)'], start_new_session=True); time.sleep(60)"
        begin = time.monotonic()
        left = self.lab(Job("long", [sys.executable, "-c", TOLD + child], limit=0.5), Job("next", sleeps(0), gpu=ALONE))
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
        most = max(sum(self.record(j.name)["begin"] <= self.record(k.name)["begin"] < self.record(j.name)["end"] for j in jobs) for k in jobs)
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
        self.assertEqual(self.lab(Job("never", sleeps(0), expect=0.5, waits=True), wait_for=self.out / "no", seconds=1), 1)

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


class Resuming(Case):
    def test_done_jobs_are_left_alone_and_half_results_go(self):
        good, half, flag = self.out / "good", self.out / "half", self.out / "flag"
        fails_once = f"p=pathlib.Path({str(half)!r}); p.mkdir(); (p/'x').write_text('1'); sys.exit(0 if os.path.exists({str(flag)!r}) else 4)"
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
            "from lab.job import *; from lab.ledger import Ledger; from lab.scheduler import Scheduler; from lab import machine\n"
            "jobs = [Job('quick', ['true']), Job('stays', ['sleep', '60'], gpu='alone', needs=['quick'])]\n"
            "ledger = Ledger(sys.argv[2])\n"
            "with ledger.held():\n"
            "    Scheduler(checked(jobs), machine.shared_out(('0',), range(1), 8), ledger).run()\n"
        )
        lab = subprocess.Popen([sys.executable, "-c", program, SCRIPTS, self.out], stdout=subprocess.DEVNULL)
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


class Harvesting(Case):
    def make(self, path, data=b"x"):
        path = self.out / "lab" / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def names(self, archive):
        with tarfile.open(archive) as packed:
            return set(packed.getnames())

    def test_what_is_small_and_new_is_packed_once(self):
        runs = "compare/runs/edgetam_points"
        wanted = ["lab.log", "jobs/a.json", "compare/comparison.md", "timing/a.timing", f"{runs}/eager/from_round_1/round_0/masks/m.json"]
        wanted += [f"{runs}/tensorrt-mixed/round_1/masks/m.json", f"{runs}/tensorrt-mixed/round_2/rows.jsonl", "masks_a/masks/m.json"]
        others = ["bed/a.safetensors", "engines/e/h200/m/encoder.plan", "bundles/b/manifest.toml", "inductor/x.json", "a/t.onnx"]
        others += [f"{runs}/tensorrt-mixed/round_2/masks/m.json", f"{runs}/eager/from_round_1/round_1/masks/m.json"]
        others += [f"{runs}/eager/teacher_forced/round_0/masks/m.json", "pieces/p/h200/m/engine.json"]
        for path in wanted + others:
            self.make(path)
        lab, archive = self.out / "lab", self.out / "1.tar.xz"
        self.assertEqual(harvest(lab, archive, 14)[:2], (len(wanted), 0))
        self.assertEqual(self.names(archive), set(wanted))
        self.make("lab.log", b"longer")
        self.make("new.csv")
        harvest(lab, archive, 14)
        self.assertEqual(self.names(archive), {"lab.log", "new.csv"})
        self.assertEqual(harvest(lab, archive, 14, again=True)[0], len(wanted) + 1)

    def test_an_archive_is_never_larger_than_its_limit_and_the_rest_comes_next(self):
        self.make("lab.log")
        for k in range(12):
            self.make(f"timing/{k:02}.timing", os.urandom(100_000))
            self.make(f"run{k}/rows.csv", b"a,b\n" * 30_000)
        lab, seen, archive = self.out / "lab", set(), self.out / "part.tar.xz"
        for turn in range(9):
            packed, left, size = harvest(lab, archive, 0.4)
            self.assertLessEqual(archive.stat().st_size, 400_000)
            self.assertEqual(size, archive.stat().st_size)
            names = self.names(archive)
            self.assertFalse(names & seen)
            if turn == 0:
                self.assertIn("lab.log", names)
                self.assertEqual(sum("rows" in name for name in names), 12, "rows are worth more than caches")
            seen |= names
            if not left:
                break
        self.assertEqual(len(seen), 25)


class Merging(Case):
    def piece(self, name, roles, **more):
        folder = self.out / name / "h200" / "m_1024_fp16"
        folder.mkdir(parents=True)
        plans = [{"role": role, "file": f"{role}.plan", "from": name} for role in roles]
        for plan_ in plans:
            (folder / plan_["file"]).write_text(name)
        base = {"format": 1, "platform": "h200", "precision": "fp16", "bundle": {"x": 1}}
        (folder / "engine.json").write_text(json.dumps(base | {"plans": plans} | more))
        return self.out / name

    def test_plans_and_records_go_together_and_later_pieces_win(self):
        pieces = [self.piece("a", ["encoder", "memory"]), self.piece("b", ["prompt"]), self.piece("c", ["memory"])]
        (folder,) = engines.merge(pieces, self.out / "whole")
        plans = {plan_["role"]: plan_["from"] for plan_ in json.loads((folder / "engine.json").read_text())["plans"]}
        self.assertEqual(plans, {"encoder": "a", "memory": "c", "prompt": "b"})
        self.assertEqual((folder / "memory.plan").read_text(), "c")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["encoder.plan", "engine.json", "memory.plan", "prompt.plan"])

    def test_pieces_of_another_bundle_are_refused(self):
        pieces = [self.piece("a", ["encoder"]), self.piece("b", ["memory"], bundle={"x": 2})]
        with self.assertRaisesRegex(engines.MergeError, "bundle"):
            engines.merge(pieces, self.out / "whole")
        with self.assertRaisesRegex(engines.MergeError, "holds no"):
            engines.merge([self.out / "nothing"], self.out / "whole")

    def test_the_check_tells_what_it_built_and_fails_with_build_engines(self):
        def run(rows, code):
            build = [sys.executable, "-c", f"import sys; print({json.dumps(rows)!r}); sys.exit({code})"]
            command = [sys.executable, engines.MERGE, "--into", self.out / "w", "--rows", self.out / "rows.json", "--piece", piece, "--", *build]
            return subprocess.run(command, capture_output=True, text=True)

        piece = self.piece("a", ["encoder"])
        done = run([{"role": "encoder", "status": "up_to_date"}, {"role": "prompt", "status": "built"}], 0)
        self.assertEqual((done.returncode, done.stdout), (0, "1 of 2 plans up to date; not as they were merged: prompt built\n"))
        failed = run([{"role": "encoder", "status": "failed"}], 1)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("encoder failed", failed.stderr)
        self.assertEqual(run([], 0).returncode, 1)


class Planning(Case):
    def settings(self, **more):
        given = dict(segtrt=Path("/p/segtrt"), split=Path("/p/split"), overlay=Path("/p/tiny.safetensors"), out=self.out, python=sys.executable)
        return Settings(**(given | {"models": list(TAGS), "gpus": 2} | more))

    def test_the_whole_plan_holds_together(self):
        for more in ({}, {"ort_gpu": Path("/p/ort.so"), "nsys": "/p/nsys", "sanitizer": "/p/sanitizer"}, {"models": ["sam2.1_large"], "gpus": 1}):
            settings = self.settings(timing={"fp16": Path("/p/a"), "fp32": Path("/p/b")}, **more)
            jobs = checked(plan(settings, ("main", "bisect")))
            parents = {path: set(Path(path).parents) for job in jobs.values() for path in job.results}
            for job in jobs.values():
                self.assertTrue(job.results or job.name.startswith("warm_"), f"{job.name} leaves nothing")
                # A job's own results are removed before it: they may hold nothing that others left.
                own = {Path(path) for path in job.results}
                others = {parent for other in jobs.values() if other is not job for path in other.results for parent in parents[path]}
                self.assertFalse(own & others, f"{job.name} would remove what others left")

    def test_what_wants_tensorrt_is_held_back_and_what_does_not_is_not(self):
        jobs = checked(plan(self.settings(), ("main", "bisect")))
        for job in jobs.values():
            program = " ".join(job.command)
            engines_wanted = "build-engines" in program or "--engines" in program or "tensorrt" in program
            self.assertEqual(job.waits, engines_wanted or job.name == "test_run", job.name)

    def test_flags_that_a_program_does_not_know_are_found_before_anything_runs(self):
        program = self.out / "segtrt"
        program.write_text("#!/bin/sh\necho '  --csv FILE --engines DIR'\n")
        program.chmod(0o755)
        jobs = [
            Job("old", [program, "selftest", "--csv", "x", "--teacher-forced"]),
            Job("deep", [program, "profile", "--csv", "--", "bench", "--frames", "3"]),
        ]
        told = flags.unknown(jobs, program)
        self.assertEqual(len(told), 2)
        self.assertIn("selftest knows no --teacher-forced, which old gives it", told[1])
        self.assertIn("bench knows no --frames, which deep gives it", told[0])

    def test_bad_plans_are_refused(self):
        one = Job("a", ["true"])
        for jobs, told in (
            ([one, Job("a", ["true"])], "two jobs"),
            ([Job("a", ["true"], needs=["b"])], "not in the plan"),
            ([Job("a", [], needs=["b"]), Job("b", [], needs=["a"])], "circle"),
            ([Job("a", [], results=["x"]), Job("b", [], results=["x"])], "both leave"),
        ):
            with self.assertRaisesRegex(PlanError, told):
                checked(jobs)
        with self.assertRaisesRegex(PlanError, "matches no job"):
            chosen([one], ["b*"])
        jobs = [one, Job("b", [], needs=["a"]), Job("c", [])]
        self.assertEqual([job.name for job in chosen(jobs, ["b*"])], ["a", "b"])

    def test_processors_are_shared_out(self):
        here = machine.shared_out(("0", "1"), range(32), 1)
        self.assertEqual((len(here.own["0"]), len(here.own["1"]), here.aside), (12, 12, (12, 13, 14, 15, 28, 29, 30, 31)))
        for gpus, count in ((("0",), 1), (("0", "1"), 2), (("0", "1", "2", "3"), 3), ((), 4), (("0",), 64)):
            here = machine.shared_out(gpus, range(count), 1)
            self.assertTrue(here.aside and all(here.own[gpu] for gpu in gpus), (gpus, count))

    def test_foreseen_measurements_are_alone_and_all_jobs_end(self):
        jobs = checked(plan(self.settings()))
        for gpus in (("0",), ("0", "1"), ("0", "1", "2", "3")):
            jobs = {name: job for name, job in jobs.items() if job.gpu != ALL}
            foresight = Foresight(jobs, machine.shared_out(gpus, range(16 * len(gpus)), 128 * len(gpus)), lambda job: False, bring=120)
            self.assertEqual(foresight.run(), 0, foresight.lines[-3:])


if __name__ == "__main__":
    unittest.main()
