#!/usr/bin/env python3
"""Writes the tables that let one binary call many TensorRT releases: abi_generated.hpp and declarations.tsv.

    generate_abi.py FACTS_DIR OUT_DIR

FACTS_DIR holds one JSON file a release (vtables, layouts and enum values read from NVIDIA's headers). The shim needs,
for each method that it calls, the vtable slot in each *family* of releases (8.x, 10.x, 11.x, RTX 1.3-1.4, RTX 1.5 on)
and the release that brought the method. This script refuses facts that would make such a table a lie: a method that
moves inside a family, an enumerator that changes its value there, a signature for which no calling form is known.
"""
import json
import pathlib
import re
import sys

FAMILIES = {  # family -> releases, oldest first; the first one is the floor of the family
    "Trt8": ["8.5.3", "8.6.1"],
    "Trt10": ["10.0.1", "10.1.0", "10.3.0", "10.7.0", "10.8.0", "10.13.3", "10.16"],
    "Trt11": ["11.0", "11.1", "11.4"],
    "Rtx13": ["rtx-1.3"],
    "Rtx15": ["rtx-1.5", "rtx-1.6", "rtx-1.7"],
}

# Methods that the shim calls, by interface. A method in the list is one key per distinct calling form.
METHODS = {
    "nvinfer1::INoCopy": ["deleting destructor"],
    "nvinfer1::apiv::VHostMemory": ["data", "size"],
    "nvinfer1::apiv::VBuilder": [
        "createBuilderConfig", "createNetworkV2", "createOptimizationProfile",
        "setErrorRecorder", "setGpuAllocator", "buildSerializedNetwork", "setMaxThreads",
    ],
    "nvinfer1::apiv::VBuilderConfig": [
        "setFlag", "clearFlag", "getFlag", "addOptimizationProfile", "setProfilingVerbosity", "setTacticSources",
        "createTimingCache", "setTimingCache", "getTimingCache", "setMemoryPoolLimit", "getMemoryPoolLimit",
        "setBuilderOptimizationLevel", "setProgressMonitor",
        "setNbComputeCapabilities", "setComputeCapability", "setAvgTimingIterations",
    ],
    "nvinfer1::apiv::VTimingCache": ["serialize", "combine"],
    "nvinfer1::apiv::VNetworkDefinition": [
        "getNbLayers", "getLayer", "getNbInputs", "getInput", "getNbOutputs", "getOutput",
    ],
    "nvinfer1::apiv::VLayer": ["getType", "getName", "setPrecision", "getNbOutputs", "getOutput", "getNbInputs",
                               "getInput", "getOutputType", "setOutputType"],
    "nvinfer1::apiv::VTensor": ["getName", "getDimensions", "getType"],
    "nvinfer1::apiv::VOptimizationProfile": ["setDimensions"],
    "nvinfer1::apiv::VRuntime": ["deserializeCudaEngine", "setErrorRecorder", "setGpuAllocator"],
    "nvinfer1::apiv::VCudaEngine": [
        "getNbLayers", "createExecutionContext", "createExecutionContextWithoutDeviceMemory",
        "getDeviceMemorySize", "getDeviceMemorySizeV2", "getDeviceMemorySizeForProfile",
        "getDeviceMemorySizeForProfileV2", "getNbOptimizationProfiles", "createEngineInspector", "getTensorShape",
        "getTensorDataType", "getTensorIOMode", "getProfileShape", "getNbIOTensors", "getIOTensorName",
        "getTensorLocation", "getTensorFormatDesc", "getName",
    ],
    "nvinfer1::apiv::VExecutionContext": [
        "setProfiler", "setOptimizationProfileAsync", "getOptimizationProfile", "setInputShape", "getTensorShape",
        "setTensorAddress", "inferShapes", "enqueueV3", "setDeviceMemory", "setDeviceMemoryV2",
        "setEnqueueEmitsProfile", "reportToProfiler", "setNvtxVerbosity", "updateDeviceMemorySizeForShapes",
    ],
    "nvinfer1::apiv::VEngineInspector": ["getLayerInformation", "getEngineInformation"],
    "nvonnxparser::IParser": ["parseFromFile", "getNbErrors", "getError", "deleting destructor"],
    "nvonnxparser::IParserError": ["code", "desc", "file", "line", "func", "node", "nodeName", "nodeOperator"],
    # Implemented by the shim: only compared, never called.
    "ILogger": ["log", "deleting destructor"],
    "IErrorRecorder": ["getNbErrors", "getErrorCode", "getErrorDesc", "hasOverflowed", "clear", "reportError",
                       "incRefCount", "decRefCount", "deleting destructor"],
    "IProgressMonitor": ["phaseStart", "stepComplete", "phaseFinish", "deleting destructor"],
    "IProfiler": ["reportLayerTime", "deleting destructor"],
    "IGpuAllocator": ["allocate", "free", "reallocate", "deallocate", "allocateAsync", "deallocateAsync",
                      "deleting destructor"],
}

# Where one name has several calling forms: form -> suffix of the key.
FORMS = {
    "void*(void*, const void*, size_t, void*)": "WithPluginFactory",  # deserializeCudaEngine, 8.x
    "void*(void*, int32_t)": "WithStrategy",                          # createExecutionContext, 10 on
}
OVERLOADED = {"deserializeCudaEngine", "createExecutionContext"}

# Values that the shim speaks of: its own name -> (enum, enumerator).
ENUMS = {
    "Flag": ("nvinfer1::BuilderFlag", {
        "FP16": "kFP16", "BF16": "kBF16", "TF32": "kTF32", "OBEY_PRECISION": "kOBEY_PRECISION_CONSTRAINTS",
        "PREFER_PRECISION": "kPREFER_PRECISION_CONSTRAINTS", "DISABLE_TIMING_CACHE": "kDISABLE_TIMING_CACHE",
        "ERROR_ON_TIMING_CACHE_MISS": "kERROR_ON_TIMING_CACHE_MISS", "VERSION_COMPATIBLE": "kVERSION_COMPATIBLE",
        "EXCLUDE_LEAN_RUNTIME": "kEXCLUDE_LEAN_RUNTIME", "MONITOR_MEMORY": "kMONITOR_MEMORY",
    }),
    "Pool": ("nvinfer1::MemoryPoolType", {
        "WORKSPACE": "kWORKSPACE", "TACTIC_DRAM": "kTACTIC_DRAM", "TACTIC_SHARED_MEMORY": "kTACTIC_SHARED_MEMORY",
    }),
    "Type": ("nvinfer1::DataType", {
        "FLOAT": "kFLOAT", "HALF": "kHALF", "INT8": "kINT8", "INT32": "kINT32", "BOOL": "kBOOL", "UINT8": "kUINT8",
        "FP8": "kFP8", "BF16": "kBF16", "INT64": "kINT64", "INT4": "kINT4", "FP4": "kFP4",
    }),
    "Creation": ("nvinfer1::NetworkDefinitionCreationFlag", {
        "EXPLICIT_BATCH": "kEXPLICIT_BATCH", "STRONGLY_TYPED": "kSTRONGLY_TYPED",
    }),
    "Tactic": ("nvinfer1::TacticSource", {
        "CUBLAS": "kCUBLAS", "CUBLAS_LT": "kCUBLAS_LT", "CUDNN": "kCUDNN",
        "EDGE_MASK_CONVOLUTIONS": "kEDGE_MASK_CONVOLUTIONS", "JIT_CONVOLUTIONS": "kJIT_CONVOLUTIONS",
    }),
    "Verbosity": ("nvinfer1::ProfilingVerbosity", {
        "LAYER_NAMES": "kLAYER_NAMES_ONLY", "NONE": "kNONE", "DETAILED": "kDETAILED",
    }),
    "Selector": ("nvinfer1::OptProfileSelector", {"MIN": "kMIN", "OPT": "kOPT", "MAX": "kMAX"}),
    "Mode": ("nvinfer1::TensorIOMode", {"INPUT": "kINPUT", "OUTPUT": "kOUTPUT"}),
    "Location": ("nvinfer1::TensorLocation", {"DEVICE": "kDEVICE", "HOST": "kHOST"}),
    "Allocation": ("nvinfer1::ExecutionContextAllocationStrategy", {
        "STATIC": "kSTATIC", "USER_MANAGED": "kUSER_MANAGED",
    }),
    "Format": ("nvinfer1::LayerInformationFormat", {"ONELINE": "kONELINE", "JSON": "kJSON"}),
    "Severity": ("nvinfer1::ILogger::Severity", {
        "INTERNAL_ERROR": "kINTERNAL_ERROR", "ERROR": "kERROR", "WARNING": "kWARNING", "INFO": "kINFO",
        "VERBOSE": "kVERBOSE",
    }),
    "Layer": ("nvinfer1::LayerType", {
        name: "k" + name for name in (
            "CONVOLUTION CAST ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION CONCATENATION ELEMENTWISE UNARY "
            "PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY CONSTANT IDENTITY SLICE SHAPE RESIZE SELECT FILL "
            "SCATTER EINSUM NORMALIZATION SQUEEZE UNSQUEEZE"
        ).split()
    }),
    "Compute": ("nvinfer1::ComputeCapability", {
        "SM75": "kSM75", "SM80": "kSM80", "SM86": "kSM86", "SM89": "kSM89", "SM120": "kSM120", "SM121": "kSM121",
    }),
}

# Groups that shim.h names too, in the same order: SEGTRT_FLAG_FP16 is Flag_FP16.
IN_SHIM = {"Flag", "Pool", "Type", "Tactic", "Verbosity", "Selector", "Mode", "Location", "Severity"}


def family_of(release):
    return next(family for family, releases in FAMILIES.items() if release in releases)


def minor_of(release):
    return int(release.removeprefix("rtx-").split(".")[1])


def interface_in(facts, name):
    """The vtable of an interface; those that callers implement live in a versioned namespace from some release on."""
    if "::" in name:
        return name, facts["vtables"].get(name, [])
    for full, methods in facts["vtables"].items():
        if full.rsplit("::", 1)[-1] == name:
            return full, methods
    return name, []


def argument_type(text, facts):
    """The C type that travels in the same registers as a parameter or result of TensorRT's."""
    text = re.sub(r"\bnvinfer1::", "", text.strip())
    if re.match(r"(const )?(\w|::)+ \*const$", text):
        text = text.removesuffix("const")
    if text.endswith("&") or text.endswith("*"):
        pointee = text[:-1].strip()
        if pointee in ("const char", "const AsciiChar"):
            return "const char*"
        return "const void*" if pointee == "const void" or text == "const Dims &" else "void*"
    # A parameter keeps its name: take the type in front of it.
    words = [word for word in text.split() if word != "const"]
    base = words[0]
    if base == "Dims":
        return "Dims32" if "nvinfer1::Dims32" in facts["structs"] else "Dims64"
    plain = {"void": "void", "bool": "bool", "float": "float", "int": "int32_t", "int32_t": "int32_t",
             "uint32_t": "uint32_t", "int64_t": "int64_t", "uint64_t": "uint64_t", "size_t": "size_t",
             "std::size_t": "size_t", "cudaStream_t": "void*", "ErrorDesc": "const char*", "RefCount": "int32_t",
             "TacticSources": "uint32_t", "NetworkDefinitionCreationFlags": "uint32_t", "AllocatorFlags": "uint32_t"}
    if base in plain:
        return plain[base]
    for full, enum in facts["enums"].items():
        if full.rsplit("::", 1)[-1] == base or full == base:
            return {"int": "int32_t"}.get(enum["type"], enum["type"])
    if base == "Severity":
        return facts["enums"]["nvinfer1::ILogger::Severity"]["type"]
    raise SystemExit(f"no calling form known for the type '{text}' in {facts['release']}")


def split_parameter(text):
    """'const Dims & dims' -> 'const Dims &': drops the name behind the type."""
    text = text.strip()
    match = re.match(r"^(.*[*&](?:const)?)\s*\w*$", text)
    return match.group(1).strip() if match else text


def calling_form(declaration, facts):
    if declaration.endswith("destructor"):
        return "void(void*)"
    head, tail = declaration.split("(", 1)
    result = head.strip().rsplit(" ", 1)[0]
    parameters = [part for part in tail.rsplit(")", 1)[0].split(",") if part.strip()]
    types = [argument_type(split_parameter(part), facts) for part in parameters]
    return f"{argument_type(result, facts)}({', '.join(['void*'] + types)})"


def key_of(interface, name, form):
    short = re.sub(r"^[VI](?=[A-Z])", "", interface.rsplit("::", 1)[-1])
    key = f"{short}_{'deletingDestructor' if 'destructor' in name else name}"
    if "Dims32" in form or "Dims64" in form:
        return key + ("32" if "Dims32" in form else "64")
    return key + FORMS.get(form, "") if name in OVERLOADED else key


def collect(facts_dir):
    releases, methods, rows, values = {}, {}, [], {}
    for family, names in FAMILIES.items():
        for release in names:
            facts = releases[release] = json.loads((facts_dir / f"{release}.json").read_text())
            if set(facts["mImpl_offset_bytes"].values()) != {8}:
                raise SystemExit(f"{release}: mImpl is not at offset 8 everywhere")
            # A note says that the ONNX parser's interface was not read: its neighbours' is taken.
            for interface, wanted in METHODS.items():
                full, vtable = interface_in(facts, interface)
                for slot, declaration in enumerate(vtable):
                    name = declaration if declaration.endswith("destructor") else (
                        re.search(r"(\w+)\(", declaration).group(1))
                    if name not in wanted or "IStreamReader" in declaration:
                        continue
                    form = calling_form(declaration, facts)
                    key = key_of(interface, name, form)
                    entry = methods.setdefault(key, {"interface": interface, "name": name, "form": form, "at": {}})
                    if entry["form"] != form:
                        raise SystemExit(f"{key}: {form} in {release}, {entry['form']} before")
                    known = entry["at"].setdefault(family, (slot, minor_of(release)))
                    if known[0] != slot:
                        raise SystemExit(f"{key} moves inside {family}: slot {known[0]}, {slot} in {release}")
                    rows.append(("method", release, key, full, slot, declaration))
            for group, (enum, names_of) in ENUMS.items():
                found = facts["enums"].get(enum, {"values": {}})["values"]
                for own, theirs in names_of.items():
                    if theirs not in found:
                        continue
                    at = values.setdefault(group, {}).setdefault(own, {})
                    known = at.setdefault(family, (found[theirs], minor_of(release)))
                    if known[0] != found[theirs]:
                        raise SystemExit(f"{enum}::{theirs} changes inside {family}")
                    rows.append(("enum", release, f"{group}_{own}", enum, found[theirs], theirs))
    for interface, wanted in METHODS.items():
        for name in wanted:
            if not any(m["interface"] == interface and m["name"] == name for m in methods.values()):
                raise SystemExit(f"{interface}::{name} is in no release")
    return methods, values, rows


def table_row(at):
    return ", ".join("{%d, %d}" % at.get(family, (-1, 0)) for family in FAMILIES)


def write_header(path, methods, values):
    out = [
        "// Generated by generate_abi.py from the facts of TensorRT's releases; do not edit.",
        "// Vtable slots, calling forms and enum values by family of releases; -1: the family does not have it.",
        "#pragma once",
        "#include <cstddef>", "#include <cstdint>", "#include \"dims.hpp\"", "#include \"shim.h\"", "",
        "namespace segtrt {", "",
        "enum Family : int32_t { " + ", ".join(FAMILIES) + ", FamilyCount };", "",
        "/// Where a method or a value is in one family, and the minor release that first has it.",
        "struct Place { int32_t at; int32_t since; };", "",
        "namespace method {",
    ]
    out += [f"struct {key} {{ using Fn = {m['form']}; static constexpr int index = {i}; }};"
            for i, (key, m) in enumerate(methods.items())]
    out += [f"constexpr int kCount = {len(methods)};", "}  // namespace method", "",
            "constexpr const char* kMethodNames[] = {"]
    out += [f"    \"{key}\"," for key in methods]
    out += ["};", "", "constexpr Place kMethods[][FamilyCount] = {"]
    out += [f"    {{{table_row(m['at'])}}},  // {key}" for key, m in methods.items()]
    out += ["};", ""]
    names, rows = [], []
    for group, (_, order) in ENUMS.items():
        # In the order of this script, not of appearance in the facts: shim.h counts the same way.
        own = {name: values[group][name] for name in order}
        out.append(f"enum {group} : int32_t {{ " + ", ".join(f"{group}_{n}" for n in own) + f", {group}_Count }};")
        out.append(f"constexpr Place k{group}[][FamilyCount] = {{")
        for name, at in own.items():
            out.append(f"    {{{table_row(at)}}},  // {name}")
            names.append(f"    \"{group}_{name}\",")
            rows.append(f"    k{group}[{group}_{name}],")
        out.append("};")
        if group in IN_SHIM:
            out += [f"static_assert(int{{SEGTRT_{group.upper()}_{name}}} == int{{{group}_{name}}}, \"shim.h\");"
                    for name in own]
        out.append("")
    out += ["constexpr const char* kValueNames[] = {", *names, "};", "",
            "constexpr const Place* kValues[] = {", *rows, "};", f"constexpr int kValueCount = {len(rows)};", ""]
    out += ["}  // namespace segtrt", ""]
    path.write_text("\n".join(out))


def main():
    facts_dir, out_dir = map(pathlib.Path, sys.argv[1:3])
    methods, values, rows = collect(facts_dir)
    write_header(out_dir / "abi_generated.hpp", methods, values)
    lines = ["# Generated by generate_abi.py: kind, release, key, interface or enum, slot or value, declaration"]
    lines += ["\t".join(map(str, row)) for row in rows]
    (out_dir / "declarations.tsv").write_text("\n".join(lines) + "\n")
    print(f"{len(methods)} methods, {len(rows)} rows")


if __name__ == "__main__":
    main()
