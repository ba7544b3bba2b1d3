"""torch.compile of a predictor's parts: Meta's own optimised class, and the same recipe with other modes.

The recipe is that of Meta's SAM2VideoPredictorVOS: image encoder, memory attention (dynamic
shapes), memory encoder, prompt encoder and mask decoder, each a whole graph. EdgeTAM's package has
no such class: its parts, the perceiver too, are compiled in the same way.
"""

import os
import shutil

import torch
from torch.utils import _pytree

from . import RunError

WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
# Shapes grow with the memory over the first frames, and a split has clips of many sizes; none may
# fall back to eager code meanwhile.
_GRAPHS_PER_FUNCTION = 1024


def has_compiler():
    """Whether there is a C or C++ compiler, which torch.compile needs and many images lack."""
    names = [os.environ.get("CXX"), os.environ.get("CC"), "g++", "c++", "clang++", "gcc", "cc", "clang"]
    return any(name and shutil.which(name.split()[0]) for name in names)


def require_compiler():
    """Refuses to compile without one."""
    if not has_compiler():
        raise RunError(
            "torch.compile needs a C++ compiler, and neither g++, clang++ nor $CXX was found",
            "install one (apt-get install g++) or use --mode eager",
        )


def compile_model(model, family, mode, compile_mode):
    """Compiles the parts of `model` in place; returns in words what was done."""
    require_compiler()
    raise_limits()
    notes = []
    if family == "edgetam":
        notes += _make_edgetam_compilable(model)
    if mode == "vos_optimized" and family != "edgetam":
        from sam2.sam2_video_predictor import SAM2VideoPredictorVOS

        # What build_sam2_video_predictor(vos_optimized=True) makes of the same weights: the class, and
        # compile_image_encoder as SAM2Base does it.
        model.__class__ = SAM2VideoPredictorVOS
        model._compile_all_components()
        attention = model.memory_attention
        attention.forward = _cloning(attention.forward)
        _compile(model.image_encoder, "max-autotune", dynamic=False, clone=False)
        return [
            *notes,
            "Meta's SAM2VideoPredictorVOS with compile_image_encoder, max-autotune",
            "the memory attention's output is cloned: PyTorch 2.11 runs it by a CUDA graph and refuses it "
            "to the decoder else",
        ]
    chosen = "max-autotune" if mode == "vos_optimized" else compile_mode
    # A CUDA graph's outputs are overwritten by its next run, and the bank keeps them: Meta's class
    # clones them. To PyTorch the next run is that of any compiled part, so the decoder may not read
    # what the memory attention left, either.
    clone = chosen in WITH_CUDA_GRAPHS
    parts = {
        "image_encoder": (False, clone),
        "memory_attention": (True, clone),
        "memory_encoder": (False, clone),
        "sam_prompt_encoder": (False, clone),
        "sam_mask_decoder": (False, clone),
        "spatial_perceiver": (False, clone),
    }
    done = []
    for name, (dynamic, clone_outputs) in parts.items():
        part = getattr(model, name, None)
        if part is not None:
            _compile(part, chosen, dynamic, clone_outputs)
            done.append(name)
    whose = "the recipe of Meta's VOS class, which this package lacks" if mode == "vos_optimized" else "torch.compile"
    return [*notes, f"{whose}, {chosen}, on {', '.join(done)}"]


def compile_parts(model, names, compile_mode):
    """Compiles the named parts that `model` has, memory attention with dynamic shapes; graphs may break."""
    require_compiler()
    raise_limits()
    names = [name for name in names if getattr(model, name, None) is not None]
    for name in names:
        dynamic, clone = name == "memory_attention", compile_mode in WITH_CUDA_GRAPHS
        _compile(getattr(model, name), compile_mode, dynamic, clone, fullgraph=False)
    return [f"torch.compile, {compile_mode}, on {', '.join(names)}"]


def _compile(part, mode, dynamic, clone, fullgraph=True):
    compiled = torch.compile(part.forward, mode=mode, fullgraph=fullgraph, dynamic=dynamic)
    part.forward = _cloning(compiled) if clone else compiled


def _cloning(compiled):
    """The same function with copies of its outputs, which outlive its next run."""

    def forward(*args, **kwargs):
        out = compiled(*args, **kwargs)
        return _pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, out)

    return forward


def raise_limits():
    """Lets a function have as many graphs as there are shapes."""
    config = torch._dynamo.config
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        setattr(config, name, max(getattr(config, name), _GRAPHS_PER_FUNCTION))


def _make_edgetam_compilable(model):
    """EdgeTAM's prompt encoder indexes by boolean masks and its attention tries kernels in an
    except clause."""
    import sam2.modeling.sam.transformer as transformer

    transformer.ALLOW_ALL_KERNELS = True
    encoder = model.sam_prompt_encoder
    rows = [(-1, encoder.not_a_point_embed, 0.0)]
    rows += [(label, encoder.point_embeddings[label], 1.0) for label in range(4)]

    def embed_points(points, labels, pad):
        points = points + 0.5
        if pad:
            extra = points.new_zeros((points.shape[0], 1, 2))
            points = torch.cat([points, extra], dim=1)
            labels = torch.cat([labels, -labels.new_ones((labels.shape[0], 1))], dim=1)
        embedding = encoder.pe_layer.forward_with_coords(points, encoder.input_image_size)
        for label, row, keep in rows:
            embedding = torch.where((labels == label)[..., None], keep * embedding + row.weight, embedding)
        return embedding

    encoder._embed_points = embed_points
    return [
        "EdgeTAM's points are embedded by torch.where instead of boolean indexing (the same numbers in fp32)",
        "EdgeTAM's attention may use every kernel of PyTorch at once instead of trying flash attention first",
    ]


def graphs_compiled():
    """Graphs that torch.compile has made in this process so far; None where it does not tell."""
    try:
        from torch._dynamo.utils import counters
    except ImportError:
        return None
    return int(counters["stats"].get("unique_graphs", 0))
