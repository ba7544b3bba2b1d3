"""Jobs that build engines: in a few pieces, so that several are built at once, then put together.
"""

from dataclasses import replace

from .engines import MERGE
from .job import ALONE, SHARED, Job
from .plan_bed import BATCHES, exported, exports_of, weights_of
from .settings import HIERA, PARTS, SEGMENTS

PRECISIONS = ("fp16", "mixed", "fp32")
# Of a GPU's slots. Beside up to eleven others encoders took 2.4 (SAM2.1-tiny) and 4.6 times
# (EdgeTAM) as long as beside one or two; likely because processes on one GPU take turns, however
# short the kernels are that each of them times.
BUILD = 4
CROWDED = "--no-autotune"  # of builds beside others; products() times them
# Seconds until TensorRT's kernels are loaded; of graphs whose tactics are known.
LOADING, KNOWN = 10, {"encoder": 60, "prompt": 60}
# Seconds of a part of an encoder and of a prompt graph: 12 to 63 and 60 to 73 beside twenty other
# jobs.
CUT, PROMPT = 60, 70
# Of stem and neck around a trunk, beside ten to seventeen other jobs: 17 to 18 and 145 to 177.
AROUND = {"encoder_cut0": 18, "encoder_cut1": 170}


def pieces_of(v, precision):
    """Graphs of each piece: what takes longest stands alone and first."""
    parts = [[f"encoder_cut{k}"] for k in range(v.parts(precision))] or [["encoder"]]
    if precision == "fp32":  # this program's attention kernels take halves, so the bank is padded
        return [*parts, ["track_padded"], ["prompt", "mask_prompt", "memory"]]
    count = SEGMENTS.get(v.model, 9)
    segments = [f"track_seg{k}" for k in range(count - 1)]
    cuda = [
        precision == "fp16" and computed_by == "cuda" for computed_by in (v.mask_decoder, v.memory_encoder)
    ]
    last = ["track_image" if cuda[0] else f"track_seg{count - 1}", *["memory"] * (not cuda[1])]
    # A kernel makes the keys, by weights beside the trunk's.
    if v.encoder == "trunk" and precision == "fp16" and v.model in HIERA:
        return [*parts, ["prompt"], last, ["mask_prompt", *segments]]
    return [*parts, ["prompt"], last, ["track_keys", "mask_prompt", *segments]]


def build_command(s, v, precision, out, timing, *more, bundles=None):
    """`segtrt build-engines` of one model into `out`."""
    command = [s.segtrt, "build-engines", "--platform", "auto", "--models", v.model, "--imgsz", v.imgsz]
    command += [
        "--precision", precision, "--onnx-dir", bundles or s.bundles(v), "--out", out, "--timing-cache",
        timing
    ]
    return [*command, "--timing-runs", 4, "--json", *more]


def build(s, v, name, precision, out, graphs, needs, priority, expect, more=(), bundles=None, kept=None):
    """One build job with a timing cache of its own; it starts from that which the job `kept`, else
    itself, left in an earlier lab."""
    timing = s.out / "timing" / f"{name}.timing"
    start, own = s.start_cache(kept or name, source(precision))
    if own:
        expect = min(expect, LOADING + KNOWN.get(graphs[0].split("_")[0], 30))
    rows = s.out / "builds" / f"{name}.json"
    return Job(
        name,
        build_command(s,
                      v,
                      precision,
                      out,
                      timing,
                      CROWDED,
                      "--graphs",
                      ",".join(graphs),
                      *more,
                      bundles=bundles),
        gpu=SHARED,
        slots=BUILD,
        needs=needs,
        priority=priority,
        expect=expect,
        limit=max(600, 3 * expect),
        memory_gib=5,
        results=[out, rows],
        stdout=rows,
        copies=caches(start, timing),
        waits=True,
    )


def caches(start, timing):
    """What is copied before a build: the cache, and the folder beside it with those of single
    graphs (engines/README.md)."""
    beside = [(folder(start), folder(timing))] if start and folder(start).exists() else []
    return [(start, timing), *beside] if start else []


def folder(timing):
    return timing.with_name(f"{timing.name}.d")


def piece_names(v, precision):
    """The ends of the names of a variant's build jobs: a number, or what the part of an encoder is
    called.

    Timing caches are kept by these names, so a number means the same graphs whether the encoder,
    number 0, is cut or not.
    """
    pieces = pieces_of(v, precision)
    parts = [graphs[0] for graphs in pieces if graphs[0].startswith("encoder_cut")]
    if v.encoder == "trunk" and precision == "fp16":  # nothing of theirs was timed with other cuts
        parts = [name.replace("encoder", "trunk") for name in parts]
    return [*parts, *map(str, range(bool(parts), len(pieces) - len(parts) + bool(parts)))]


def piece_jobs(s, v, precision, priority):
    """A build job for each piece."""
    jobs = []
    for end, graphs in zip(piece_names(v, precision), pieces_of(v, precision)):
        name = f"build_{v.name}_{precision}_{end}"
        expect = expected(v, precision, graphs)
        out = s.out / "pieces" / name
        jobs.append(
            build(s, v, name, precision, out, graphs, exported(v, source(precision)), priority, expect))
    return jobs


def expected(v, precision, graphs):
    """Seconds that a build of these graphs is thought to take beside others."""
    if v.encoder == "trunk" and precision == "fp16" and graphs[0] in AROUND:
        return AROUND[graphs[0]]
    seconds = {"encoder": v.costs[0], "encoder_cut": CUT, "prompt":
               PROMPT}.get(graphs[0].rstrip("0123456789"), 80)
    return seconds / 3 if precision == "fp32" else seconds


def source(precision):
    """The precision of the graphs that engines are made from."""
    return "fp32" if precision == "fp32" else "fp16"


def merge(s, v, name, precision, engines, pieces, graphs, priority, bundles=None):
    """Puts pieces together, and lets build-engines say whether it would have built anything else.
    """
    rows = s.out / "builds" / f"{name}.json"
    check = build_command(s,
                          v,
                          precision,
                          engines,
                          s.out / "timing" / f"{name}.timing",
                          CROWDED,
                          "--graphs",
                          ",".join(graphs),
                          bundles=bundles)
    command = [s.python, MERGE, "--into", engines, "--rows", rows]
    command += [word for piece in pieces for word in ("--piece", piece.results[0])] + ["--", *check]
    first = pieces[0]
    return Job(
        name,
        command,
        gpu=SHARED,
        needs=[piece.name for piece in pieces],
        priority=priority,
        expect=20,
        limit=600,
        memory_gib=5,
        results=[rows],
        copies=[(source, s.out / "timing" / f"{name}.timing") for source, _ in first.copies[:1]],
        waits=True,
    )


def built(v, precision):
    """The job behind which a variant's engines are what is measured."""
    return f"products_{v.name}" if v.encoder == "trunk" and precision == "fp16" else f"engines_{v.name}_{precision}"


def products(s, v, name, merged, place, graphs, bundles=None):
    """Times the algorithms of a trunk's products, alone on its GPU; all plans are there by then,
    which the job `merged` put together."""
    timing, rows = s.out / "timing" / f"{merged.name}.timing", s.out / "builds" / f"{name}.json"
    command = build_command(s, v, "fp16", place, timing, "--graphs", ",".join(graphs), bundles=bundles)
    common = {
        "gpu": ALONE, "needs": [merged.name], "memory_gib": 5, "waits": True, "results": [rows], "stdout":
        rows
    }
    return Job(name, command, priority=merged.priority, expect=20, limit=120, **common)


def engines(s):
    """Every model in every precision."""
    jobs = []
    for v in s.variants():
        for precision in PRECISIONS:
            priority = v.priority("fp32" if precision == "fp32" else "build")
            pieces = piece_jobs(s, v, precision, priority)
            graphs = [graph for piece in pieces_of(v, precision) for graph in piece]
            jobs += [
                *pieces,
                merge(s, v, f"engines_{v.name}_{precision}", precision, s.engines(v), pieces, graphs,
                      priority)
            ]
            if built(v, precision) != jobs[-1].name:
                jobs.append(products(s, v, built(v, precision), jobs[-1], s.engines(v), graphs))
    return jobs


def whole_encoder(s, v):
    """A variant's fp16 engines once more with the encoder in one piece, in a folder of their own,
    where it is cut otherwise."""
    name = f"build_{v.name}_fp16_0"  # its timing cache is that of an encoder that was never cut
    whole = build(s, v, name, "fp16", s.out / "pieces" / name, ["encoder"], exported(v, "fp16"),
                  v.priority("speed"), v.costs[0])
    rest = [
        job for job, graphs in zip(piece_jobs(s, v, "fp16", 0), pieces_of(v, "fp16"))
        if not graphs[0].startswith("encoder")
    ]
    graphs = [
        "encoder",
        *(graph for piece in pieces_of(v, "fp16") for graph in piece if not graph.startswith("encoder"))
    ]
    place = s.out / "engines" / f"{v.name}_whole"
    return [
        whole,
        merge(s, v, f"engines_{v.name}_whole", "fp16", place, [whole, *rest], graphs, v.priority("speed"))
    ], place


def otherwise(s, v, other, word):
    """All fp16 engines of a variant as `other`, from an export of the same weights: (jobs, folder).
    Their names begin with the word.

    Graphs that are cut otherwise have the same names, so that they cannot lie in one bundle, nor
    one of one kind beside graphs of the other.
    """
    bundles, priority = s.out / word, v.priority("speed")
    weights, needs = weights_of(s, v)
    exports = exports_of(s, other, bundles, f"{word}_{v.name}", weights, ("fp16",), needs)
    for job in exports:
        job.priority = priority
    pieces = []
    for end, graphs in zip(piece_names(other, "fp16"), pieces_of(other, "fp16")):
        name, out = f"{word}_{v.name}_fp16_{end}", s.out / "pieces" / f"{word}_{v.name}_fp16_{end}"
        # Graphs that are those of every export.
        same = f"build_{v.name}_fp16_{end}" if end.isdigit() or other.encoder == v.encoder else name
        expect = expected(other, "fp16", graphs)
        pieces.append(
            build(s,
                  other,
                  name,
                  "fp16",
                  out,
                  graphs, [job.name for job in exports],
                  priority,
                  expect,
                  bundles=bundles,
                  kept=same))
    place, all_graphs = s.out / "engines" / f"{v.name}_{word}", [
        graph for piece in pieces_of(other, "fp16") for graph in piece
    ]
    jobs = [
        *exports, *pieces,
        merge(s,
              other,
              f"engines_{v.name}_{word}",
              "fp16",
              place,
              pieces,
              all_graphs,
              priority,
              bundles=bundles)
    ]
    if built(other, "fp16").startswith("products_"):
        jobs.append(products(s, other, f"products_{v.name}_{word}", jobs[-1], place, all_graphs, bundles))
    return jobs, place


def without_attention(s, v):
    """The fp16 engines that a variant has where this program computes nothing of its encoder:
    (jobs, folder)."""
    return otherwise(s, v, replace(v, encoder="engine"), "usual") if v.model in PARTS else whole_encoder(s, v)


def by_tensorrt(s, v):
    """The fp16 engines that a variant has where TensorRT computes its mask decoder and its memory
    encoder: (jobs, folder)."""
    return otherwise(s, v, replace(v, mask_decoder="engine", memory_encoder="engine"), "tensorrt")


def batch_names(v):
    """(graph, build job) of EdgeTAM's encoders for several frames."""
    return [(f"encoder_b{count}", f"build_{v.name}_encoder_b{count}") for count in BATCHES.split(",")]


def batches(s, v):
    """EdgeTAM's encoders for several frames beside copies of its other fp16 engines; in a folder of
    their own."""
    place, pieces, graphs = s.out / "engines" / f"{v.name}_batches", [], []
    for graph, name in batch_names(v):
        pieces.append(
            build(s, v, name, "fp16", s.out / "pieces" / name, [graph], exported(v, "fp16"), 60, 120))
        graphs.append(graph)
    for job in pieces:
        job.slots = 2 * BUILD  # nothing of them was timed before
    rest = piece_jobs(s, v, "fp16", 0)  # these are in the plan already
    graphs += [graph for piece in pieces_of(v, "fp16") for graph in piece]
    return [*pieces,
            merge(s, v, f"engines_{v.name}_batches", "fp16", place, [*pieces, *rest], graphs, 60)], place
