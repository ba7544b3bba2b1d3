"""Turns an fp32 graph into a typed fp16 graph with fp32 islands.

Every float tensor becomes f16 except:
  - contract ports that stay f32 (coords, multi, mask, low, score, iou, ptr_t, bias), the computing around them with them;
  - ports that are f32 outside and f16 inside ("cast", a trunk's tokens): a Cast each, at the graph's very edge;
  - modules named `f32_*` (coordinate encoding, what is read from the decoder's tokens), pointer times, and
    every operator that only rearranges or selects f32 data;
  - LayerNormalization, the perceiver's exponentials and sums (its softmax is written out)
    and the mask product's outcome: they compute in f32 between casts.
Softmax nodes stay f16: TensorRT's and ONNX Runtime's kernels accumulate in f32 inside,
and an f32 score matrix would double the traffic of the largest tensor of the network.
Constants above f16's range are clipped, which only touches masks of -1024 and 1e4.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, F16 = TensorProto.FLOAT, TensorProto.FLOAT16

# Compute in f32 whatever surrounds them.
_ISLAND_OPS = frozenset(
    "LayerNormalization Sin Cos Exp ReduceSum ReduceMax Resize Greater Less "
    "GreaterOrEqual LessOrEqual ArgMax".split()
)
_ISLAND_NAMES = ("/f32_", "/pointer_pos/")


def to_fp16(model, graph):
    """A new ModelProto with f16 ports where `graph` says "f"."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    return _Converter(model, graph).run()


class _Converter:
    def __init__(self, model, graph):
        self.model, self.graph, self.role = model, model.graph, graph.role
        self.half_ports = {p.name for p in graph.inputs + graph.outputs if p.dtype == "f"}
        self.cast_ports = {p.name for p in graph.outputs if p.dtype == "cast"}
        self.kind = self._element_types()
        self.nodes, self.made, self.constants = [], {}, {}

    def _element_types(self):
        """Element type of every tensor of the fp32 graph."""
        inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True).graph
        kind = {i.name: i.data_type for i in inferred.initializer}
        for info in [*inferred.value_info, *inferred.input, *inferred.output]:
            kind[info.name] = info.type.tensor_type.elem_type
        return kind

    def run(self):
        """Walks the nodes in order; `now` holds what each float tensor is at the moment."""
        self.now = {i.name: i.data_type for i in self.graph.initializer}
        for info in self.graph.input:
            if info.name in self.half_ports and self.kind[info.name] == F32:
                info.type.tensor_type.elem_type = F16
            self.now[info.name] = info.type.tensor_type.elem_type
        self._collect_constants()
        for node in self.graph.node:
            if node.op_type != "Constant" or self.kind.get(node.output[0]) != F32:
                self._convert(node)
        self._finish_outputs()
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        self._prune_initializers()
        del self.graph.value_info[:]
        return self.model

    def _collect_constants(self):
        """Float constants (initializers and Constant nodes) by name, made per type on demand."""
        for tensor in self.graph.initializer:
            if tensor.data_type == F32:
                self.constants[tensor.name] = numpy_helper.to_array(tensor)
        for node in self.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                if node.attribute[0].t.data_type == F32:
                    self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)

    def _wanted(self, node):
        """F32 or F16: the type in which this node computes its floats."""
        if node.op_type in _ISLAND_OPS or any(part in node.name for part in _ISLAND_NAMES):
            return F32
        if any(o in self.f32_outputs for o in node.output):
            return F32
        if node.op_type in ("Where", "Mul", "Add", "Sub", "Div", "Concat", "Slice", "Reshape", "Sigmoid"):
            # Arithmetic on f32 data alone (coordinates, scores, logits) stays f32.
            floats = [i for i in node.input if self.kind.get(i) == F32 and i not in self.constants]
            if floats and all(self.now.get(i) == F32 for i in floats) and not self._from_island(floats):
                return F32
        return F16

    @property
    def f32_outputs(self):
        return {o.name for o in self.graph.output if o.name not in self.half_ports | self.cast_ports}

    def _from_island(self, names):
        """Whether f32 data comes from an island whose result belongs to f16 again."""
        return any(n in self.back_to_half for n in names)

    back_to_half = frozenset()

    def _convert(self, node):
        floats_in = [i for i, n in enumerate(node.input) if n and self.kind.get(n) == F32]
        target = self._wanted(node)
        if node.op_type == "Cast":
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == F32:
                    self.now[node.output[0]] = F32
            self.nodes.append(node)
            return
        for i in floats_in:
            if node.op_type == "Resize" and i != 0:
                node.input[i] = self._as(node.input[i], F32)  # scales are f32 by definition
            else:
                node.input[i] = self._as(node.input[i], target)
        self.nodes.append(node)
        for name in node.output:
            if self.kind.get(name) == F32:
                self.now[name] = target
                if target == F32 and node.op_type in ("LayerNormalization", "Resize"):
                    self.back_to_half = self.back_to_half | {name}

    def _as(self, name, target):
        """Name of tensor `name` in type `target`, adding a constant or a Cast when needed."""
        if name in self.constants:
            return self._constant(name, target)
        if self.now.get(name, F32) == target:
            return name
        key = (name, target)
        if key not in self.made:
            suffix = "f16" if target == F16 else "f32"
            self.made[key] = f"{name}_{suffix}"
            self.nodes.append(
                helper.make_node("Cast", [name], [self.made[key]], name=f"{name}_to_{suffix}", to=target)
            )
            self.kind[self.made[key]] = F32
            self.now[self.made[key]] = target
        return self.made[key]

    def _constant(self, name, target):
        key = (name, target)
        if key not in self.made:
            value = self.constants[name]
            if target == F16:
                value = np.clip(value, -65504, 65504).astype(np.float16)
            self.made[key] = f"{name}_{'f16' if target == F16 else 'f32'}"
            self.graph.initializer.append(numpy_helper.from_array(value, self.made[key]))
        return self.made[key]

    def _finish_outputs(self):
        """Graph outputs get their contract types."""
        for info in self.graph.output:
            target = F16 if info.name in self.half_ports else F32
            info.type.tensor_type.elem_type = target
            if self.now[info.name] != target:
                inner = f"{info.name}_inner"
                for node in self.nodes:
                    node.input[:] = [inner if n == info.name else n for n in node.input]
                    node.output[:] = [inner if n == info.name else n for n in node.output]
                self.nodes.append(helper.make_node("Cast", [inner], [info.name], to=target))

    def _prune_initializers(self):
        used = {n for node in self.nodes for n in node.input}
        kept = [i for i in self.graph.initializer if i.name in used]
        del self.graph.initializer[:]
        self.graph.initializer.extend(kept)
