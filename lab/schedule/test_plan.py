"""Tests of measure.py's plan: python3 -m unittest discover -s lab/schedule"""

import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from schedule import flags, machine  # noqa: E402
from schedule.foresight import Foresight  # noqa: E402
# Noqa: E402.
from schedule.job import ALL, ALONE, SHARED, SLOTS, Job, PlanError, checked, chosen, hurry, without
from schedule.placing import Held  # noqa: E402
from schedule.plan import GROUPS, plan  # noqa: E402
from schedule.settings import TAGS, Settings  # noqa: E402
from case import LAB, Case  # noqa: E402


class Planning(Case):
    def settings(self, **more):
        given = {"segtrt": Path("/p/segtrt"), "split": Path("/p/split"), "overlay": Path("/p/tiny.safetensors")}
        given |= {"out": self.out, "python": sys.executable, "models": list(TAGS), "gpus": 2, "encoder": "engine"}
        return Settings(**(given | more))

    def test_the_whole_plan_holds_together(self):
        tools = {"ort_gpu": Path("/p/ort.so"), "nsys": "/p/nsys", "sanitizer": "/p/sanitizer"}
        for more in ({}, tools, {"models": ["sam2.1_large"], "gpus": 1}):
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

    def test_mixed_engines_are_compared_where_they_are_asked_for_and_built_for_nothing_else(self):
        for mixed, sides in ((("edgetam",), "tensorrt:mixed,tensorrt:fp16"), ((), "tensorrt:fp16")):
            jobs = {job.name: job for job in plan(self.settings(mixed=mixed))}
            compared = jobs["compare_edgetam"]
            self.assertEqual(compared.command[compared.command.index("--sides") + 1], sides)
            self.assertEqual("engines_edgetam_mixed" in compared.needs, bool(mixed))
            self.assertNotIn("engines_edgetam_512_mixed", jobs["compare_edgetam_512"].needs)

    def test_an_optional_job_may_be_left_out_and_with_it_a_side_of_a_comparison(self):
        jobs = {job.name: job for job in without(plan(self.settings()), ["warm_sam2_*_vos_optimized_*"])}
        self.assertNotIn("warm_sam2_tiny_vos_optimized_fp16", jobs)
        for name, there in (("compare_sam2_tiny", False), ("forced_sam2_tiny", False), ("compare_edgetam", True)):
            sides = jobs[name].command[jobs[name].command.index("--baselines") + 1].split(",")
            self.assertEqual([side in sides for side in ("vos_optimized:fp16", "reduce_overhead:fp16")], [there, True], name)
        self.assertEqual([jobs[f"compare_{name}"].expect for name in ("sam2_tiny", "edgetam")], [0.7 * 310, 465], "a side fewer takes less")
        checked(list(jobs.values()))
        for pattern, told in (("warm_sam3*", "matches no job"), ("export_*", "export_edgetam_fp16.* cannot "
                                                                             "be done without")):
            with self.assertRaisesRegex(PlanError, told):
                without(plan(self.settings()), [pattern])

    def test_pytorch_is_compiled_alone_on_a_gpu_and_what_was_compiled_before_is_taken(self):
        name, kept = "warm_edgetam_vos_optimized_fp16", self.out / "kept"
        kept.mkdir()
        (kept / f"{name}.bin").write_bytes(b"compiled")
        jobs = {job.name: job for job in plan(self.settings())}
        anew = jobs[name]
        self.assertEqual((anew.limit, anew.copies), (1200, []))
        self.assertEqual({job.gpu for job in jobs.values() if job.name.startswith("warm_")}, {"alone"})
        jobs = {job.name: job for job in plan(self.settings(kept_compiled=kept))}
        found, other = jobs[name], jobs["warm_edgetam_reduce_overhead_fp16"]
        self.assertLess(found.expect, anew.expect)
        place = self.out / f"compiled/{name}.bin"
        self.assertEqual(found.copies, [(kept / f"{name}.bin", place)])
        self.assertEqual(found.command[found.command.index("--kept-compiled") + 1], str(place))
        self.assertEqual(other.copies, [], "nothing was kept of it")

    def test_what_is_named_first_comes_before_all_others(self):
        jobs = checked([Job("a", ["true"]), Job("b", ["true"], needs=["a"], priority=90), Job("c", ["true"], priority=10)])
        with self.assertRaisesRegex(PlanError, "--first x. matches no job"):
            hurry(jobs, ["x*"])
        hurry(jobs, ["b"])
        self.assertLess(jobs["b"].priority, jobs["c"].priority)
        self.assertEqual(jobs["a"].priority, 50, "the scheduler sees to what it needs")
        hurry(jobs, ["c", "*"])
        self.assertLess(jobs["c"].priority, jobs["b"].priority)

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
            here = machine.shared_out(gpus, range(16 * len(gpus)), 128 * len(gpus))
            foresight = Foresight(jobs, here, lambda job: False, bring=120)
            self.assertEqual(foresight.run(), 0, foresight.lines[-3:])

    def spans(self, jobs, **more):
        """When each job ran and on which GPU, as it is foreseen on two."""
        here = machine.shared_out(("0", "1"), range(32), 256, **more)
        foresight = Foresight(checked(jobs), here, lambda job: False)
        self.assertEqual(foresight.run(), 0, foresight.lines)
        found = {}
        for at, line in foresight.lines:
            kind, _, rest = line.partition(": ")
            if kind in ("begun", "done"):
                name = rest.split()[0].rstrip(",")
                found.setdefault(name, {})[kind] = at
                if " on GPU " in rest:
                    found[name]["gpu"] = rest.split(" on GPU ")[1].split(",")[0]
        return found

    def test_a_quiet_gpu_is_for_what_must_be_alone(self):
        shared = [Job(f"shared{k}", [], gpu=SHARED, expect=50, slots=SLOTS, priority=1) for k in range(3)]
        jobs = [*shared, Job("alone", [], gpu=ALONE, expect=20), Job("later", [], gpu=ALONE, expect=20, needs=["shared0"])]
        found = self.spans(jobs, quiet=("1",))
        self.assertEqual({found[job.name]["gpu"] for job in shared}, {"0"})
        self.assertEqual([(found[name]["gpu"], found[name]["begun"]) for name in ("alone", "later")], [("1", 0), ("1", 50)])
        self.assertEqual({self.spans(jobs)[job.name]["gpu"] for job in shared}, {"0", "1"}, "where none is quiet, both are used")

    def test_a_hushed_job_has_the_whole_machine(self):
        jobs = [Job("build", [], gpu=SHARED, expect=30), Job("export", [], expect=40), Job("compare", [], gpu=ALONE, expect=25, priority=10, hush=True, needs=["build"])]
        found = self.spans([*jobs, Job("small", [], expect=5, needs=["build"]), Job("bench", [], gpu=ALONE, expect=10, needs=["build"])])
        begun, done = found["compare"]["begun"], found["compare"]["done"]
        self.assertEqual((begun, done), (40, 65), "it waits for what runs, and what is less urgent waits "
                                                  "for it")
        self.assertEqual((found["small"]["begun"], found["bench"]["begun"]), (65, 65))

    def test_hushed_jobs_may_run_beside_each_other_where_that_is_said(self):
        def begins(hushed):
            jobs = [Job("export", [], expect=10, priority=1)]
            jobs += [Job(name, [], gpu=ALONE, expect=20, priority=10, hush=True) for name in ("one", "other")]
            seen = Foresight(checked(jobs), machine.shared_out(("0", "1"), range(8), 64, hushed=hushed), lambda job: False)
            seen.run()
            return {line.split()[1].strip(","): at for at, line in seen.lines if line.startswith("begun")}

        self.assertEqual(begins(1), {"export": 0, "one": 10, "other": 30})
        self.assertEqual(begins(2), {"export": 0, "one": 10, "other": 10})

    def test_hushed_jobs_that_are_as_urgent_wait_for_each_other_where_several_may_run(self):
        def begins(hushed, seconds, priority=10):
            jobs = [Job("build", [], gpu=SHARED, expect=30, slots=SLOTS), Job("one", [], gpu=ALONE, expect=40, priority=10, hush=True)]
            jobs += [Job("other", [], gpu=ALONE, expect=20, priority=priority, hush=True, needs=["build"])]
            here = machine.shared_out(("0", "1"), range(8), 64, hushed=hushed)
            seen = Foresight(checked(jobs), here, lambda job: False, seconds)
            seen.run()
            return {line.split()[1].strip(","): at for at, line in seen.lines if line.startswith("begun")}

        self.assertEqual(begins(2, 200), {"build": 0, "one": 30, "other": 30})
        self.assertEqual(begins(1, 200), {"build": 0, "one": 30, "other": 70}, "beside none it has nobody "
                                                                               "to wait for")
        self.assertEqual(begins(2, 200, 11), {"one": 0, "build": 40, "other": 70}, "the other is less urgent")
        self.assertEqual(begins(2, 60), {"build": 0, "other": 30}, "it would end too late")

    def test_while_some_gather_what_is_less_urgent_begins_only_where_it_ends_before_they_can(self):
        def begins(expect, third=30):
            jobs = [Job("one", [], gpu=ALONE, expect=40, priority=10, hush=True), Job("build", [], gpu=SHARED, expect=30, slots=SLOTS)]
            jobs += [Job("other", [], gpu=ALONE, expect=40, priority=10, hush=True, needs=["build"])]
            jobs += [Job("slow", [], expect=third), Job("third", [], gpu=ALONE, expect=40, priority=10, hush=True, needs=["slow"])]
            jobs += [Job("less", [], gpu=SHARED, expect=expect, priority=50), Job("export", [], expect=expect, priority=50)]
            here = machine.shared_out(("0", "1", "2"), range(48), 128, hushed=2)
            seen = Foresight(checked(jobs), here, lambda job: False)
            seen.run()
            return {line.split()[1].strip(","): at for at, line in seen.lines if line.startswith("begun")}

        short, long = begins(20), begins(200)
        self.assertEqual((short["less"], short["export"], short["one"], short["other"]), (0, 0, 30, 30))
        self.assertEqual((long["one"], long["other"]), (30, 30))
        self.assertGreaterEqual(min(long["less"], long["export"]), 70)
        later = begins(50, third=60)
        self.assertEqual((later["less"], later["one"], later["other"]), (0, 60, 60), "what the third one needs keeps them waiting anyway")

    def test_a_less_urgent_comparison_does_not_keep_the_machine_hushed_from_what_is_more_urgent(self):
        def begins(expect):
            jobs = [Job("one", [], gpu=ALONE, expect=40, priority=10, hush=True), Job("build", [], gpu=SHARED, expect=10, priority=20)]
            jobs += [Job("other", [], gpu=ALONE, expect=expect, priority=30, hush=True)]
            seen = Foresight(checked(jobs), machine.shared_out(("0", "1", "2"), range(12), 64, hushed=2), lambda job: False)
            seen.run()
            return {line.split()[1].strip(","): at for at, line in seen.lines if line.startswith("begun")}

        self.assertEqual(begins(40), {"one": 0, "other": 0, "build": 40}, "it ends with the other one")
        self.assertEqual(begins(60), {"one": 0, "build": 40, "other": 50})

    def test_nothing_waits_for_a_hushed_job_that_would_end_too_late(self):
        jobs = [Job("build", [], gpu=SHARED, expect=60), Job("compare", [], gpu=ALONE, expect=50, priority=10, hush=True, needs=["export"])]
        jobs += [Job("export", [], expect=5), Job("bench", [], gpu=ALONE, expect=20, needs=["export"])]
        here = machine.shared_out(("0", "1"), range(32), 256)
        begun = {}
        for seconds in (100, 120):
            foresight = Foresight(checked(jobs), here, lambda job: False, seconds)
            foresight.run()
            begun[seconds] = {line.split()[1].rstrip(","): at for at, line in foresight.lines if line.startswith("begun")}
        self.assertEqual((begun[120]["compare"], begun[120].get("bench")), (60, None), "it is in time, and comes first")
        self.assertEqual((begun[100].get("compare"), begun[100]["bench"]), (None, 5))

    def test_an_encoder_that_is_in_parts_anyway_is_never_built_whole_for_before_and_after(self):
        jobs = checked(plan(self.settings(encoder="trunk"), GROUPS))
        built = [job.command for name, job in jobs.items() if name.startswith("build_sam2_large_fp16")]
        self.assertFalse([command for command in built if command[command.index("--graphs") + 1] == "encoder"])
        export, merged = jobs["usual_sam2_large_fp16"], jobs["engines_sam2_large_usual"]
        self.assertEqual(export.command[export.command.index("--encoder") + 1], "engine")
        self.assertEqual((export.needs, jobs["export_sam2_large_fp16"].needs), (["track_sam2_large"], ["track_sam2_large"]), "the same weights")
        parts = [need for need in merged.needs if "encoder_cut" in need]
        self.assertEqual(parts, [f"usual_sam2_large_fp16_encoder_cut{k}" for k in range(4)])
        # All of them from one bundle: engines of two would not be put together.
        for name in (*merged.needs, merged.name):
            command = jobs[name].command
            self.assertEqual(command[command.index("--onnx-dir") + 1], str(self.out / "usual"), name)
        graphs = merged.command[merged.command.index("--graphs") + 1].split(",")
        pieces = [jobs[need].command for need in merged.needs]
        self.assertEqual(sorted(graphs), sorted(",".join(piece[piece.index("--graphs") + 1] for piece in pieces).split(",")))
        self.assertIn(f"usual={self.out}/engines/sam2_large_usual", jobs["attention_sam2_large"].command)
        self.assertNotIn("attention_sam2_large", checked(plan(self.settings(encoder="trunk", unlearned=("sam2.1_large",)), GROUPS)))

    def test_an_encoder_with_a_trunk_has_two_parts_in_halves_alone(self):
        jobs = checked(plan(self.settings(encoder="trunk"), GROUPS))
        for name in ("sam2_tiny", "sam2_large"):
            parts = [jobs[f"build_{name}_fp16_trunk_cut{k}"] for k in range(2)]
            self.assertEqual([job.command[job.command.index("--graphs") + 1] for job in parts], ["encoder_cut0", "encoder_cut1"])
            self.assertEqual([job.expect for job in parts], [18, 170])
            merged = jobs[f"engines_{name}_fp16"]
            self.assertFalse({job.name for job in parts} - set(merged.needs))
            graphs = merged.command[merged.command.index("--graphs") + 1].split(",")
            self.assertEqual([graph for graph in graphs if graph.startswith("encoder")], ["encoder_cut0", "encoder_cut1"])
            # Mixed engines compute their encoder in fp32: it is whole.
            whole = jobs[f"build_{name}_mixed_0"].command
            self.assertEqual(whole[whole.index("--graphs") + 1], "encoder")
            export = jobs[f"export_{name}_fp16"].command
            self.assertEqual(export[export.index("--encoder") + 1], "trunk")
            self.assertIn(f"trunk={self.out}/engines/{name}", jobs[f"attention_{name}"].command)
        self.assertNotIn("--encoder", jobs["export_edgetam_fp16"].command)
        self.assertNotIn("--encoder", jobs["export_sam2_tiny_fp32"].command)
        self.assertIn("build_sam2_large_fp32_encoder_cut3", jobs, "fp32 is cut for its depth as ever")

    def test_engines_without_the_cuts_start_from_the_caches_of_the_same_graphs(self):
        kept = self.out / "kept"
        kept.mkdir()
        for end in ("1", "encoder_cut0"):
            (kept / f"build_sam2_large_fp16_{end}.timing").write_text("x")
        jobs = {job.name: job for job in plan(self.settings(timing_dir=kept, encoder="trunk"), GROUPS)}
        prompt, part = jobs["usual_sam2_large_fp16_1"], jobs["usual_sam2_large_fp16_encoder_cut0"]
        self.assertEqual(prompt.copies[0], (kept / "build_sam2_large_fp16_1.timing", self.out / "timing/usual_sam2_large_fp16_1.timing"))
        self.assertEqual(part.copies, [], "that was a part with other cuts")

    def test_every_precision_of_edgetams_comparison_has_the_original_code_among_its_sides(self):
        jobs = {job.name: job for job in plan(self.settings())}
        for name, precisions in (("edgetam", ("fp16", "tf32")), ("edgetam_512", ("fp16", "tf32")), ("sam2_tiny", ("fp16",))):
            job = jobs[f"compare_{name}"]
            sides = job.command[job.command.index("--baselines") + 1].split(",")
            self.assertEqual([side for side in sides if side.startswith("eager")], [f"eager:{precision}" for precision in precisions])
            self.assertFalse({side.split(":")[1] for side in sides} - set(precisions))
            self.assertFalse([need for need in job.needs if "eager" in need], "nothing of it is compiled")

    def test_edgetam_learns_at_each_image_size_from_one_encoder(self):
        jobs = checked(plan(self.settings()))
        learnt, small = jobs["track_edgetam"], jobs["track_edgetam_512"]
        self.assertEqual((learnt.needs, small.needs), (["distil_edgetam"], ["distil_edgetam"]))
        self.assertNotIn("distil_edgetam_512", jobs)
        sizes = [job.command[job.command.index("--imgsz") + 1] for job in (learnt, small)]
        self.assertEqual((sizes, len({*learnt.results, *small.results})), (["1024", "512"], 2))
        checkpoint = small.results[0]
        for name in ("export_edgetam_512_fp16", "compare_edgetam_512"):
            self.assertIn(str(checkpoint), " ".join(jobs[name].command))
            self.assertIn("track_edgetam_512", jobs[name].needs)

    def test_what_is_late_is_not_waited_for_longer_than_its_limit(self):
        held = Held(Job("late", [], expect=100, limit=600), (), (), begin=1000)
        self.assertEqual([held.left(1000 + taken) for taken in (0, 60, 150, 500, 599.5, 700)], [100, 40, 50, 100, 1, 1])

    def test_a_number_means_the_same_graphs_whether_the_encoder_is_cut_or_not(self):
        graphs = {}
        for job in plan(self.settings()):
            if job.name.startswith(("build_sam2_large_", "build_sam2_base_")):
                graphs[job.name] = job.command[job.command.index("--graphs") + 1]
        for precision, first in (("fp16", "prompt"), ("fp32", "track_padded")):
            self.assertEqual(graphs[f"build_sam2_base_{precision}_0"], "encoder")
            self.assertNotIn(f"build_sam2_large_{precision}_0", graphs)
            for model in ("base", "large"):
                self.assertEqual(graphs[f"build_sam2_{model}_{precision}_1"], first)
            for part in (f"encoder_cut{k}" for k in range(4)):
                self.assertEqual(graphs[f"build_sam2_large_{precision}_{part}"], part)

    def test_a_second_build_starts_from_a_cache_of_the_same_graph(self):
        # An earlier lab's, whose encoder was whole and whose first cut may not take its prompt's
        # for its own.
        kept = self.out / "kept"
        kept.mkdir()
        for name in ("build_sam2_large_fp16_0", "build_sam2_large_fp16_1", "build_sam2_base_fp16_0"):
            (kept / f"{name}.timing").write_text("x")
        jobs = {job.name: job for job in plan(self.settings(timing_dir=kept))}
        part = jobs["rebuild_sam2_large_fp16_encoder_cut1"]
        self.assertIn("build_sam2_large_fp16_encoder_cut1", part.needs)
        self.assertEqual(part.copies[0][0], self.out / "timing/build_sam2_large_fp16_encoder_cut1.timing")
        for name, first in (("sam2_large_fp16_prompt", "sam2_large_fp16_1"), ("sam2_base_fp16_encoder", "sam2_base_fp16_0")):
            self.assertEqual(jobs[f"rebuild_{name}"].copies[0][0], kept / f"build_{first}.timing")

    def test_the_batch_encoders_are_rebuilt_alone_from_their_own_caches(self):
        kept = self.out / "kept"
        kept.mkdir()
        (kept / "build_edgetam_encoder_b8.timing").write_text("x")
        jobs = checked(plan(self.settings(timing_dir=kept)))
        named = [name for name in jobs if name.startswith("rebuild_edgetam_encoder_b")]
        self.assertEqual(sorted(named), [f"rebuild_edgetam_encoder_b{count}" for count in (16, 2, 4, 8)])
        for name in named:
            job, graph = jobs[name], name.removeprefix("rebuild_edgetam_")
            first = jobs[f"build_edgetam_{graph}"]
            self.assertEqual((job.gpu, job.command[job.command.index("--graphs") + 1]), (ALONE, graph))
            self.assertIn(str(self.out / "plain"), job.command, "random weights, which are there at once")
            self.assertGreater(job.priority, first.priority, "a first build that it needs becomes as "
                                                             "urgent as it")
            known = graph == "encoder_b8"
            self.assertEqual(job.needs, ["plain_edgetam_fp16"] + [first.name] * (not known))
            start = (kept if known else self.out / "timing") / f"{first.name}.timing"
            self.assertEqual(job.copies[0], (start, self.out / "timing" / f"{name}.timing"))
        export = jobs["plain_edgetam_fp16"].command
        self.assertEqual(export[export.index("--encoder-batches") + 1], "2,4,8,16")

    def test_groups_and_models_that_nobody_knows_are_refused(self):
        (self.out / "split/JPEGImages_24fps").mkdir(parents=True)
        for name in ("overlay", "segtrt"):
            (self.out / name).touch()
        begin = [sys.executable, LAB / "measure.py", "--out", self.out / "lab", "--split", self.out / "split", "--list", "--gpus", "0,1"]
        begin += ["--overlay", self.out / "overlay", "--segtrt", self.out / "segtrt"]
        for more, told in (
            (["--groups", "bisct"], "expected some of main, attention, cuda, bisect, exact, warm"),
            (["--groups", "bisect", "--models", "edgetam"], "no job of these models"),
            (["--groups", "bisect"], "no job of these models"),
            (["--hushed", "0"], "expected 1 or more"),
            (["--mixed", "edgetam_1024"], "--mixed edgetam_1024: known are edgetam,"),
            (["--unlearned", "edgetan"], "known are edgetam,"),
            (["--encoder", "engine", "--unlearned", "sam2_tiny", "--only", "bisect_*"], "matches no job"),
        ):
            done = subprocess.run([*begin, *more], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, (more, done.stdout[-300:]))
            self.assertIn(told, done.stderr)
        everything = ["--groups", "main, bisect,exact", "--unlearned", " sam2_tiny"]
        self.assertEqual(subprocess.run([*begin, *everything], capture_output=True).returncode, 0)

    def test_models_that_learn_nothing_are_exported_at_once_and_not_compared(self):
        jobs = checked(plan(self.settings(unlearned=("edgetam",))))
        self.assertFalse([name for name in jobs if name.startswith(("distil_edgetam", "track_edgetam", "compare_edgetam", "forced_edgetam", "warm_edgetam"))])
        self.assertEqual(jobs["export_edgetam_fp16"].needs, [])
        self.assertIn("compare_sam2_tiny", jobs)
        ahead = checked(plan(self.settings(unlearned=("edgetam",)), ("main", "warm")))
        self.assertIn("warm_edgetam_compile_fp16", ahead)


if __name__ == "__main__":
    unittest.main()
