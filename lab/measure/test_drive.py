"""Tests of the driver, with sleeps in place of jobs: python3 -m unittest discover -s lab/measure"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

if sys.platform != "linux":
    raise unittest.SkipTest("SKIPPED: processes are pinned and found by what Linux offers")

import drive
import processes
from job import COMPARE, GPU, QUIET, SANITIZER, TRAIN, Job

HERE = Path(__file__).resolve().parent
SCALE = 0.02  # a second of a job takes 20 ms
COMPARING = 'touch "$SEGTRT_LAB_READY"; until [ -e "$SEGTRT_LAB_GO" ]; do sleep 0.01; done; '


def job(name, kind="cpu", seconds=5, **more):
    command = f"sleep {seconds * SCALE}"
    command = f"{command}; {COMPARING}{command}" if kind == COMPARE else command
    return Job(name, **{"command": command, "kind": kind, "expect": seconds} | more)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def driver(self, *listed, deadline=400, processors=8):
        return drive.Driver(listed, self.folder, deadline, range(processors), SCALE)

    def run_jobs(self, *listed, again=(), **more):
        driver = self.driver(*listed, **more)
        driver.resume(again)
        driver.run()
        return driver

    def log(self, *kinds):
        """(event, job) of the log's lines; "no time for" is the event "no"."""
        path = self.folder / "out/lab.log"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        named = [(words[2], words[5] if words[2] == "no" else words[3]) for words in lines if len(words) > 3]
        return [line for line in named if not kinds or line[0] in kinds]

    def states(self, driver):
        return {name: entry.state for name, entry in driver.record.jobs.items()}

    def most_at_once(self, *names):
        now, most = 0, 0
        for event, name in self.log("begin", "end"):
            if name in names:
                now += 1 if event == "begin" else -1
                most = max(most, now)
        return most

    def until(self, condition, seconds=10):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it did not come about in time")
            time.sleep(0.01)


class Order(Case):
    def test_measurements_run_alone_in_the_lists_order_after_all_that_prepares(self):
        listed = [
            job("slow", GPU, 15),
            job("first", QUIET),
            job("compared", COMPARE),
            job("last", QUIET, needs=("first",)),
            job("made", needs=("slow",))
        ]
        driver = self.run_jobs(*listed)
        self.assertEqual(set(self.states(driver).values()), {"done"})
        self.assertEqual(self.log("idle", "go"), [("idle", "compared"), ("go", "compared")])
        told = self.log("begin", "end", "go")
        at = told.index(("begin", "first"))
        self.assertLess(told.index(("end", "made")), at)
        self.assertEqual(told[at - 2:], [("go", "compared"), ("end", "compared"), ("begin", "first"),
                                         ("end", "first"), ("begin", "last"), ("end", "last")])

    def test_nothing_is_measured_while_the_pytorch_of_a_comparison_waits(self):
        listed = [
            job("other", QUIET),
            job("tuned", QUIET),
            job("one", COMPARE, quiet_needs=("tuned",)),
            job("two", COMPARE),
            job("three", COMPARE, after=("other",)),
        ]
        self.assertEqual(set(self.states(self.run_jobs(*listed)).values()), {"done"})
        told = self.log("begin", "go", "end")
        order = [("begin", "one"), ("begin", "tuned"), ("end", "tuned"), ("go", "one"), ("end", "one"),
                 ("begin", "two"), ("go", "two"), ("end", "two"), ("begin", "other"), ("end", "other"),
                 ("begin", "three"), ("go", "three"), ("end", "three")]
        self.assertEqual(told, order)

    def test_few_trainings_and_sanitizers_run_at_once(self):
        names = [f"{kind}_{number}" for number in range(5) for kind in (TRAIN, SANITIZER)]
        self.run_jobs(*(job(name, name.split("_")[0], **{"until": 300} if SANITIZER in name else {})
                        for name in names), processors=16)
        self.assertEqual(self.most_at_once(*(name for name in names if TRAIN in name)), 3)
        self.assertEqual(self.most_at_once(*(name for name in names if SANITIZER in name)), 2)

    def test_a_job_with_few_neighbours_waits_for_others_and_keeps_more_from_beginning(self):
        listed = [job("one", GPU, 30), job("two", GPU, 50), job("few", GPU, 60, beside=1, needs=("made",))]
        listed += [job("three", GPU, 4, needs=("made",)), job("free", needs=("made",)), job("made", seconds=1)]
        self.run_jobs(*listed)
        told = self.log("begin", "end")
        self.assertLess(told.index(("end", "one")), told.index(("begin", "few")))
        self.assertLess(told.index(("begin", "few")), told.index(("begin", "three")))
        self.assertLess(told.index(("end", "two")), told.index(("begin", "three")))
        self.assertLess(told.index(("begin", "three")), told.index(("end", "few")))
        self.assertLess(told.index(("begin", "free")), told.index(("begin", "few")), "it needs no GPU")

    def test_half_of_the_processors_are_kept_for_compilers_as_long_as_there_are_some(self):
        listed = [job("compiler", COMPARE, 10, processors=8, high=True, needs=("made",)), job("made", seconds=3)]
        listed += [job(f"worker_{number}", seconds=4, processors=2) for number in range(6)]
        driver = self.driver(*listed, processors=8)
        for _ in range(200):
            driver.step()
            held = {one.name: driver.entry(one.name).processors for one in driver.of("running")}
            if "compiler" in held:
                self.assertEqual(held.pop("compiler"), [4, 5, 6, 7])
            if driver.entry("compiler").state in ("waiting", "running"):
                self.assertTrue(all(max(mine) < 4 for mine in held.values()), held)
            time.sleep(0.005)
        self.assertEqual(driver.entry("compiler").state, "done")

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "SKIPPED: there is one processor")
    def test_a_comparison_gets_all_processors_for_its_rounds(self):
        tell = f"grep Cpus_allowed_list /proc/self/status >> {self.folder}/allowed; "
        both = sorted(os.sched_getaffinity(0))[:2]
        listed = [job("compared", COMPARE, command=tell + COMPARING + tell, processors=1)]
        drive.Driver(listed, self.folder, 400, both, SCALE).run()
        allowed = [line.split()[1] for line in (self.folder / "allowed").read_text().splitlines()]
        self.assertEqual(allowed[0], str(both[0]))
        self.assertIn(allowed[1], (f"{both[0]}-{both[1]}", f"{both[0]},{both[1]}"))

    def test_the_time_in_which_a_comparison_waits_does_not_count(self):
        driver = self.run_jobs(job("compared", COMPARE, 10, limit=25), job("slow", seconds=60))
        self.assertEqual(set(self.states(driver).values()), {"done"})

    def test_what_comes_after_others_does_not_need_their_success(self):
        driver = self.run_jobs(job("bad", command="exit 4"), job("behind", after=("bad",)))
        self.assertEqual(self.states(driver), {"bad": "failed", "behind": "done"})
        self.assertLess(self.log().index(("end", "bad")), self.log().index(("begin", "behind")))


class Ending(Case):
    def test_what_needs_a_failed_job_is_lost_and_said_once(self):
        listed = [job("bad", command="exit 3"), job("needs_it", needs=("bad",)), job("fine", QUIET, codes=(0, 1))]
        listed += [
            job("far", QUIET, needs=("needs_it",)),
            job("compared", COMPARE, quiet_needs=("far",)),
            job("no_file", QUIET, needs=("ready/never",))
        ]
        driver = self.run_jobs(*listed)
        self.assertEqual(self.states(driver), {"bad": "failed", "needs_it": "lost", "fine": "done", "far": "lost",
                                               "compared": "lost", "no_file": "lost"})
        self.assertEqual(driver.entry("bad").code, 3)
        self.assertEqual([name for _, name in self.log("lost")], ["needs_it", "far", "compared", "no_file"])

    def test_no_job_begins_that_would_end_behind_the_deadline(self):
        listed = [job("long", QUIET, expect=500), job("short", QUIET), job("training", TRAIN, expect=500)]
        listed += [job("compared", COMPARE, expect=300, compile=200)]
        driver = self.run_jobs(*listed)
        self.assertEqual(self.states(driver), {"long": "late", "short": "done", "training": "late",
                                               "compared": "late"})
        self.assertIn(("no", "long"), self.log())

    def test_a_job_at_its_limit_has_failed_with_all_that_it_began(self):
        mark = self.folder / "mark"
        command = f"setsid bash -c 'sleep 0.6; touch {mark}' & sleep 60"
        driver = self.run_jobs(job("endless", command=command, limit=10))
        self.assertEqual((self.states(driver)["endless"], driver.entry("endless").code), ("failed", None))
        self.assertIn("end endless rc none", (self.folder / "out/lab.log").read_text())
        time.sleep(0.8)
        self.assertFalse(mark.exists())

    def test_a_sanitizer_that_did_not_end_in_time_runs_again_at_the_end(self):
        first = self.folder / "first"
        command = f"[ -e {first} ] && exit 0; touch {first}; sleep 60"
        listed = [job("slow", SANITIZER, command=command, until=80), job("measured", QUIET)]
        listed += [job("unbegun", SANITIZER, until=drive.LEAST_SANITIZING - 1)]
        driver = self.run_jobs(*listed)
        self.assertEqual(set(self.states(driver).values()), {"done"})
        told = self.log("begin", "end")
        self.assertEqual(told[:4], [("begin", "slow"), ("end", "slow"), ("begin", "measured"), ("end", "measured")])
        self.assertEqual(self.log("later"), [("later", "unbegun")])
        self.assertEqual(told.count(("begin", "unbegun")), 1, "its fixed time is over, and does not count")
        self.assertTrue((self.folder / "logs/slow.before.log").exists())

    def test_a_comparison_that_ends_before_its_rounds_has_failed(self):
        driver = self.run_jobs(job("compared", COMPARE, command="exit 1", codes=(0, 1)))
        self.assertEqual(self.states(driver), {"compared": "failed"})


class GoingOn(Case):
    def begin_elsewhere(self, listed):
        """A driver in a process of its own, which can be killed."""
        program = "import sys, drive, pathlib, test_drive; from job import Job\n" \
                  f"listed = {listed!r}\n" \
                  "d = drive.Driver(listed, pathlib.Path(sys.argv[1]), 400, range(8), test_drive.SCALE)\n" \
                  "d.resume()\nd.run()\n"
        other = subprocess.Popen([sys.executable, "-c", program, str(self.folder)], cwd=HERE)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        return other

    def entries(self):
        try:
            return json.loads((self.folder / "state.json").read_text())["jobs"]
        except FileNotFoundError:
            return {}

    def kill_when(self, other, condition):
        self.until(lambda: self.entries() and condition(self.entries()))
        other.send_signal(signal.SIGKILL)
        other.wait()

    def test_running_jobs_are_adopted_with_their_exit_codes(self):
        listed = [
            job("good", command="sleep 0.6"),
            job("bad", command="sleep 0.6; exit 5"),
            job("short", seconds=1),
            job("limited", command="sleep 60", limit=60),
            job("measured", QUIET, needs=("good",))
        ]
        other = self.begin_elsewhere(listed)
        self.kill_when(other, lambda entries: entries["short"]["state"] == "done")
        pids = {name: entry["pid"] for name, entry in self.entries().items()}
        driver = self.run_jobs(*listed)
        self.assertEqual(self.states(driver), {"good": "done", "bad": "failed", "short": "done",
                                               "limited": "failed", "measured": "done"})
        self.assertEqual((driver.entry("bad").code, driver.entry("limited").code), (5, None))
        self.assertEqual({name: driver.entry(name).pid for name in ("good", "bad", "short", "limited")},
                         {name: pids[name] for name in ("good", "bad", "short", "limited")}, "none began anew")
        self.assertEqual(self.log("resumed"), [("resumed", "good")])
        # Its limit counts from its first start.
        self.assertRegex((self.folder / "out/lab.log").read_text(), r"end limited rc none 6\d s LIMIT")

    def test_a_waiting_comparison_is_adopted_and_gets_its_go(self):
        listed = [job("compared", COMPARE), job("slow", seconds=40)]
        other = self.begin_elsewhere(listed)
        self.kill_when(other, lambda _: ("idle", "compared") in self.log())
        driver = self.run_jobs(*listed)
        self.assertEqual(set(self.states(driver).values()), {"done"})
        self.assertEqual(self.log("idle", "go"), [("idle", "compared"), ("go", "compared")])

    def test_a_comparison_gets_its_go_again_if_the_driver_died_before_it_gave_it(self):
        listed = [job("compared", COMPARE), job("slow", seconds=40)]
        other = self.begin_elsewhere(listed)
        self.kill_when(other, lambda entries: entries["compared"]["state"] == "idle")
        state = json.loads((self.folder / "state.json").read_text())
        state["jobs"]["compared"]["state"] = "going"
        (self.folder / "state.json").write_text(json.dumps(state))
        driver = self.run_jobs(*listed)
        self.assertEqual(self.states(driver)["compared"], "done")

    def test_another_process_with_the_number_of_a_job_is_not_adopted(self):
        driver = self.driver(job("gone"))
        entry = driver.entry("gone")
        entry.state, entry.pid, entry.start = "running", os.getpid(), processes.start_time(os.getpid()) - 1
        driver.record.save()
        driver = self.run_jobs(job("gone"))
        self.assertEqual(self.states(driver), {"gone": "failed"}, "and this process is still alive")

    def test_failed_jobs_and_named_ones_run_again_and_done_ones_do_not(self):
        counted = f"echo run >> {self.folder}/$0"
        listed = [job("good", command=f"echo >> {self.folder}/good"), job("named", command=f"echo >> {self.folder}/named")]
        listed += [job("bad", command=f"echo >> {self.folder}/bad; [ $(wc -l < {self.folder}/bad) -gt 1 ]")]
        listed += [job("lost", needs=("bad",), command=counted.replace("$0", "lost"))]
        first = self.run_jobs(*listed)
        self.assertEqual(self.states(first)["lost"], "lost")
        second = self.run_jobs(*listed, again=("named",))
        self.assertEqual(set(self.states(second).values()), {"done"})
        runs = {name: len((self.folder / name).read_text().splitlines()) for name in ("good", "named", "bad", "lost")}
        self.assertEqual(runs, {"good": 1, "named": 2, "bad": 2, "lost": 1})

    def test_a_job_that_left_the_list_or_shall_run_again_is_ended(self):
        listed = [job("removed", command="sleep 60"), job("again", command="sleep 60")]
        other = self.begin_elsewhere(listed)
        self.kill_when(other, lambda entries: all(entry["pid"] for entry in entries.values()))
        pids = [entry["pid"] for entry in self.entries().values()]
        driver = self.run_jobs(job("again"), again=("again",))
        self.assertEqual(self.states(driver), {"again": "done"})
        self.until(lambda: all((processes.status(pid) or "Z")[0] == "Z" for pid in pids))


class CommandLine(Case):
    def test_one_driver_at_a_time_works_in_a_folder(self):
        with drive.alone(self.folder, replace=False):
            told = subprocess.run([sys.executable, HERE / "drive.py", "--folder", self.folder], capture_output=True,
                                  text=True)
        self.assertEqual(told.returncode, 2)
        self.assertIn("another driver", told.stderr)

    def test_another_driver_hands_its_jobs_over(self):
        listed = [Job("slow", "sleep 1.5", expect=1), Job("behind", "true", expect=1, needs=("slow",))]
        program = f"import sys, drive, jobs; from job import Job; jobs.plan = lambda folder: {listed!r}\n" \
                  "sys.exit(drive.main(['--folder', *sys.argv[1:]]))"

        def begin(*more):
            return subprocess.Popen([sys.executable, "-c", program, self.folder, *more], cwd=HERE)

        with begin() as first:
            self.until(lambda: (self.folder / "out/lab.log").exists())
            with begin("--replace") as second:
                self.assertEqual((first.wait(), second.wait()), (1, 0))
        self.assertEqual(self.log("begin"), [("begin", "slow"), ("begin", "behind")])
        self.assertEqual(self.log("resumed"), [("resumed", "slow")])
        self.assertTrue((self.folder / "done").exists())

    def test_wrong_words_are_refused(self):
        for words, expected in ((["--again", "nothing"], "there is no job nothing"), (["--deadline", "-1"],
                                                                                      "give a later --deadline")):
            told = subprocess.run([sys.executable, HERE / "drive.py", "--folder", self.folder, *words],
                                  capture_output=True, text=True)
            self.assertEqual((told.returncode, expected in told.stderr), (2, True), told.stderr)


if __name__ == "__main__":
    unittest.main()
