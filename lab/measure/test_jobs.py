"""Tests of the list of jobs and of the scripts that its jobs call: python3 -m unittest discover -s
lab/measure"""

import contextlib
import io
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

import check_jobs
import drive
import join_weights
import jobs
import simulated
from job import COMPARE, CPU, GPU, QUIET, BadList, Job, checked

HERE = Path(__file__).resolve().parent


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path


class Lists(Case):
    def test_lists_that_could_not_run_are_refused(self):
        quiet = Job("q", "true", QUIET)
        for listed, expected in (
            ([Job("a", "true"), Job("a", "true")], "two jobs are called a"),
            ([Job("a", "true", "loud")], "found the kind loud"),
            ([Job("a", "true", needs=("b",))], "a needs b, which is not in the list"),
            ([quiet, Job("a", "true", needs=("q",))], "a prepares and needs q"),
            ([quiet, Job("a", "true", COMPARE, needs=("q",))], "a prepares and needs q"),
            ([Job("a", "true", QUIET, needs=("q",)), quiet], "behind it in the list"),
            ([Job("a", "true", needs=("b",)), Job("b", "true", after=("a",))], "need each other: a, b"),
        ):
            with self.assertRaisesRegex(BadList, expected):
                checked(listed)
        checked([quiet, Job("a", "true", COMPARE, needs=("ready/clips",), quiet_needs=("q",))])

    def test_the_plan_can_run_and_its_jobs_have_what_a_real_run_showed_to_be_needed(self):
        found = checked(jobs.plan(self.folder))
        for name, one in found.items():
            if one.kind == COMPARE:
                key = name.removeprefix("compare_")
                self.assertIn(f"export_{key}", one.needs, "it looks for the bundle as soon as it starts")
                self.assertEqual(set(one.quiet_needs), {f"tune_{key}", f"reference_{key}"})
            if "build-engines" in one.command and "--models edgetam" in one.command:
                self.assertIn("--opt-level 1", one.command)
        trainings = [name for name, one in found.items() if one.kind == "train"]
        self.assertEqual((found["self_test"].after, found["self_test"].processors), (tuple(trainings), 2))
        on_gpu = [one.name for one in found.values() if one.kind == GPU]
        self.assertEqual(on_gpu[0], "reference_large")
        with self.assertRaisesRegex(BadList, "without spaces"):
            jobs.plan(Path("/tmp/a folder"))

    def test_comparisons_stand_at_both_ends_of_the_measurements(self):
        order = [one.name for one in jobs.plan(self.folder) if not one.prepares]
        order = [name for name in order if not name.startswith("tune_")]
        kinds = list(dict.fromkeys("_".join(name.split("_")[:1]) for name in order))
        self.assertEqual(kinds, ["compare", "long", "overlapped", "lanes", "streams", "ampere", "trace", "prompt",
                                 "rounds", "judge", "source"])
        self.assertEqual((order[0], order[-1]), ("compare_large", "compare_edgetam_512"))
        self.assertEqual(order[1:7], [f"{kind}_{size}" for kind in ("long", "overlapped")
                                      for size in ("small", "base", "large")])

    def test_a_list_is_shown_with_needs(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(drive.main(["--list"]), 0)
        self.assertIn("export_large cpu 45s needs weights_large\n", said.getvalue())
        self.assertEqual(len(said.getvalue().splitlines()), len(jobs.plan(self.folder)))

    def test_a_simulation_sleeps_and_prints_what_happened(self):
        listed = simulated.of(jobs.plan(self.folder), 0.01, ["build_tiny"])
        self.assertEqual({one.command for one in listed if one.name == "clips"}, {"sleep 0.6000; exit 0"})
        with contextlib.redirect_stdout(io.StringIO()) as said:
            drive.main(["--simulate", "0.002", "--deadline", "300", "--fail", "teach"])
        for told in (" end teach rc 3 ", " lost imitate_large for want of teach", " end track_tiny rc 0 "):
            self.assertIn(told, said.getvalue())


class Checking(Case):
    def test_the_commands_of_a_shell_command_are_found(self):
        text = "A=1 /p/segtrt bench --x 'a b' && t=$(ls -S k.* | head -n 1) && for r in 1 2; do python3 s.py --y > o; done"
        self.assertEqual([words for words in check_jobs.commands(text) if words[0] in ("/p/segtrt", "ls", "python3")],
                         [["/p/segtrt", "bench", "--x", "a b"], ["ls", "-S", "k.*"], ["python3", "s.py", "--y"]])
        for front in (["python3", "in_turn.py", "--side", "a=b", "--"], ["compute-sanitizer", "--tool", "x"]):
            own = front[:-1] if front[-1] == "--" else front
            self.assertEqual(check_jobs.parts([*front, "/p/segtrt", "bench"]), [own, ["/p/segtrt", "bench"]])

    def test_programs_that_refuse_flags_are_named(self):
        segtrt = self.program("segtrt", '#!/bin/sh\ncase "$*" in *--odd*) echo "error: --odd" >&2; exit 2;; esac\nexit 1\n')
        listed = [Job("good", "/x/segtrt bench --even"), Job("bad", "/x/segtrt bench --odd", QUIET)]
        listed += [Job("script", "python3 lab/measure/in_turn.py --out o --odd", CPU), Job("none", "python3 lab/no.py")]
        found, count = check_jobs.faults(listed, str(segtrt), self.folder)
        self.assertEqual(count, 4)
        self.assertEqual(found, [("bad", "/x/segtrt bench", "error: --odd"),
                                 ("script", "python3 lab/measure/in_turn.py", "knows no --odd"),
                                 ("none", "python3 lab/no.py", "there is no lab/no.py")])

    def test_a_script_whose_packages_are_missing_is_searched_for_its_flags(self):
        script = check_jobs.sources(jobs.ROOT / "lab/train/learn_tracking.py")
        for flag in ('"--steps"', '"--weights-overlay"'):
            self.assertIn(flag, script)


class Scripts(Case):
    def test_a_long_clip_runs_to_and_fro(self):
        for name in ("JPEGImages_24fps/c/{}.jpg", "Annotations_6fps/c/7/{}.png"):
            for number in ("00000", "00001", "00002")[:2 if "png" in name else 3]:
                path = self.folder / "in" / name.format(number)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(number)
        for _ in range(2):  # again over what an earlier attempt left
            subprocess.run([sys.executable, HERE / "long_clip.py", self.folder / "in", self.folder / "out", "c", "6"],
                           check=True)
        frames = sorted((self.folder / "out/JPEGImages_24fps/c").iterdir())
        self.assertEqual([path.read_text()[-1] for path in frames], list("012101"))
        masks = sorted((self.folder / "out/Annotations_6fps/c/7").iterdir())
        self.assertEqual([path.stem[-1] for path in masks], ["0", "1", "3", "4", "5"])
        self.assertEqual((self.folder / "out/sav_val.txt").read_text(), "c\n")
        wrong = subprocess.run([sys.executable, HERE / "long_clip.py", self.folder, self.folder, "none", "6"],
                               capture_output=True, text=True)
        self.assertEqual((wrong.returncode, "0 frames and 0 objects" in wrong.stderr), (1, True))

    def test_an_encoder_is_joined_with_the_rest_of_another_network(self):
        def tensor(value, *shape):
            return SimpleNamespace(value=value, shape=shape)

        encoder = {"image_encoder.a": tensor("large", 9), "memory.b": tensor("random", 2)}
        rest = {"image_encoder.a": tensor("tiny", 3), "memory.b": tensor("learnt", 2)}
        joined = join_weights.join(encoder, rest)
        self.assertEqual({name: one.value for name, one in joined.items()},
                         {"image_encoder.a": "large", "memory.b": "learnt"})
        with self.assertRaisesRegex(ValueError, "memory.b has the shapes"):
            join_weights.join(encoder, {"memory.b": tensor("learnt", 3)})
        with self.assertRaisesRegex(ValueError, "memory.c is in the second checkpoint only"):
            join_weights.join(encoder, {"memory.c": tensor("learnt", 3)})

    def waiting(self, runner, driver=True):
        script = self.program("runner.py", runner)
        files = {f"SEGTRT_LAB_{name}": str(self.folder / name.lower()) for name in ("READY", "GO")}
        return subprocess.Popen([HERE / "waiting_python.py", script], env={"PATH": "/usr/bin:/bin:" + str(
            Path(sys.executable).parent)} | (files if driver else {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def test_the_runners_first_answer_waits_for_the_driver(self):
        ready = '{"event":"ready","round":0}'
        for runner, lines, code in (
            (f"print('compiling'); print('{ready}', flush=True); print(input()); print('{ready}')",
             ["compiling", ready, "go", ready], 0),
            ("import sys; print('{\"event\":\"error\"}', flush=True); sys.exit(3)", ['{"event":"error"}'], 3),
            ("import os; os.abort()", [], 1),
        ):
            with self.subTest(runner=runner), self.waiting(runner) as process:
                deadline = time.monotonic() + 10
                while not (self.folder / "ready").exists():
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                time.sleep(0.2)
                self.assertIsNone(process.poll(), "it waits, whatever the answer was")
                (self.folder / "go").touch()
                said = process.communicate(b"go\n", timeout=10)[0].decode()
                self.assertEqual((said.splitlines(), process.returncode), (lines, code))
            (self.folder / "ready").unlink()
            (self.folder / "go").unlink()

    def test_without_a_driver_nothing_waits(self):
        with self.waiting("print('{\"event\":\"ready\"}')", driver=False) as process:
            self.assertEqual(process.communicate(timeout=10)[0], b'{"event":"ready"}\n')


if __name__ == "__main__":
    unittest.main()
