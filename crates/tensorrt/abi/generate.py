#!/usr/bin/env python3
"""Writes src/shim/abi_generated.hpp, the tables by which the shim calls each release of TensorRT.

    generate.py                      from releases.tsv, beside this script
    generate.py --out FILE           the same, to another file
    generate.py --like OLD NEW       adds release NEW to each row of releases.tsv that has OLD

releases.tsv has a row for each method or enumerator and the releases that have it alike: kind,
releases (oldest first), key, interface or enumeration, vtable slot or value, declaration in NVIDIA's
header. The shim needs, for each method that it calls, the slot in each *family* of releases with one
layout, and the minor release that brought it.
This script refuses rows that no such table can hold: a method that moves inside a family, an enumerator
that changes its value there, a declaration whose types it does not know.
"""
import argparse
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE / "releases.tsv"
HEADER = HERE.parent / "src/shim/abi_generated.hpp"

# Family -> its releases by prefix; the same division as in src/version.rs.
FAMILIES = {
    "Trt8": r"8\.",
    "Trt10": r"10\.",
    "Trt11": r"11\.",
    "Rtx13": r"rtx-1\.[34]$",
    "Rtx15": r"rtx-1\.([5-9]|\d\d)",
}

# Names of enumerators by group, in the order of the C header shim.h for the groups that it declares too.
ENUMERATORS = {
    "Flag": "FP16 BF16 TF32 OBEY_PRECISION PREFER_PRECISION DISABLE_TIMING_CACHE ERROR_ON_TIMING_CACHE_MISS "
            "VERSION_COMPATIBLE EXCLUDE_LEAN_RUNTIME MONITOR_MEMORY",
    "Pool": "WORKSPACE TACTIC_DRAM TACTIC_SHARED_MEMORY",
    "Type": "FLOAT HALF INT8 INT32 BOOL UINT8 FP8 BF16 INT64 INT4 FP4",
    "Creation": "EXPLICIT_BATCH STRONGLY_TYPED",
    "Tactic": "CUBLAS CUBLAS_LT CUDNN EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS",
    "Verbosity": "LAYER_NAMES NONE DETAILED",
    "Selector": "MIN OPT MAX",
    "Mode": "INPUT OUTPUT",
    "Location": "DEVICE HOST",
    "Allocation": "STATIC USER_MANAGED",
    "Format": "ONELINE JSON",
    "Severity": "INTERNAL_ERROR ERROR WARNING INFO VERBOSE",
    "Layer": "CONVOLUTION CAST ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION CONCATENATION "
             "ELEMENTWISE UNARY "
             "PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY CONSTANT IDENTITY SLICE SHAPE RESIZE "
             "SELECT FILL "
             "SCATTER EINSUM NORMALIZATION SQUEEZE UNSQUEEZE",
    "Compute": "SM75 SM80 SM86 SM89 SM120 SM121",
}
# Groups that shim.h declares: TRTDL_FLAG_FP16 is Flag_FP16.
IN_SHIM = {"Flag", "Pool", "Type", "Tactic", "Verbosity", "Selector", "Mode", "Location", "Severity"}

# Types of parameters and results that travel by value. Every enumeration of TensorRT is an int32_t.
BY_VALUE = {
    "void": "void",
    "bool": "bool",
    "float": "float",
    "int": "int32_t",
    "int32_t": "int32_t",
    "uint32_t": "uint32_t",
    "int64_t": "int64_t",
    "uint64_t": "uint64_t",
    "size_t": "size_t",
    "std::size_t": "size_t",
    "cudaStream_t": "void*",
    "ErrorDesc": "const char*",
    "RefCount": "int32_t",
    "TacticSources": "uint32_t",
    "NetworkDefinitionCreationFlags": "uint32_t",
    "AllocatorFlags": "uint32_t",
    **{
        name: "int32_t"
        for name in ("BuilderFlag ComputeCapability DataType ErrorCode ExecutionContextAllocationStrategy "
                     "LayerInformationFormat "
                     "LayerType MemoryPoolType OptProfileSelector ProfilingVerbosity Severity TacticSource "
                     "TensorFormat "
                     "TensorIOMode "
                     "TensorLocation InterfaceKind APILanguage HardwareCompatibilityLevel").split()
    },
}


def family_of(release):
    for family, pattern in FAMILIES.items():
        if re.match(pattern, release):
            return family
    raise SystemExit(f"{release} belongs to no family: add one here, in src/version.rs and in "
                     f"src/shim/shim.h")


def minor_of(release):
    return int(release.removeprefix("rtx-").split(".")[1])


def argument_type(text, release):
    """The C type that travels in the same registers as a parameter or result."""
    text = re.sub(r"\bnvinfer1::", "", text.strip())
    if re.match(r"(const )?(\w|::)+ \*const$", text):
        text = text.removesuffix("const")
    if text.endswith("&") or text.endswith("*"):
        pointee = text[:-1].strip()
        if pointee in ("const char", "const AsciiChar"):
            return "const char*"
        return "const void*" if pointee == "const void" or text == "const Dims &" else "void*"
    # A parameter keeps its name: take the type in front of it.
    base = [word for word in text.split() if word != "const"][0]
    if base == "Dims":
        return "Dims32" if family_of(release) == "Trt8" else "Dims64"
    base = base.rsplit("::", 1)[-1] if base not in BY_VALUE else base
    if base not in BY_VALUE:
        raise SystemExit(f"no calling form known for the type '{text}' in {release}")
    return BY_VALUE[base]


def split_parameter(text):
    """'const Dims & dims' -> 'const Dims &': drops the name after the type."""
    text = text.strip()
    match = re.match(r"^(.*[*&](?:const)?)\s*\w*$", text)
    return match.group(1).strip() if match else text


def calling_form(declaration, release):
    if declaration.endswith("destructor"):
        return "void(void*)"
    head, tail = declaration.split("(", 1)
    result = head.strip().rsplit(" ", 1)[0]
    parameters = [part for part in tail.rsplit(")", 1)[0].split(",") if part.strip()]
    types = [argument_type(split_parameter(part), release) for part in parameters]
    return f"{argument_type(result, release)}({', '.join(['void*'] + types)})"


def read(path):
    """A row for each release."""
    lines = path.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [[kind, release, *rest] for kind, releases, *rest in rows for release in releases.split()]


def add_like(path, old, new):
    """Adds `new` behind `old` wherever that is; returns the number of rows."""
    added, lines = 0, []
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        if not line.startswith("#") and old in fields[1].split():
            fields[1] = " ".join(f"{release} {new}" if release == old else release
                                 for release in fields[1].split())
            added += 1
        lines.append("\t".join(fields))
    path.write_text("\n".join(lines) + "\n")
    return added


def collect(rows):
    methods, values = {}, {}
    for kind, release, key, _owner, number, declaration in rows:
        family, place = family_of(release), (int(number), minor_of(release))
        if kind == "method":
            form = calling_form(declaration, release)
            entry = methods.setdefault(key, {"form": form, "at": {}})
            if entry["form"] != form:
                raise SystemExit(f"{key}: {form} in {release}, {entry['form']} before")
            at = entry["at"]
        else:
            group, name = key.split("_", 1)
            at = values.setdefault(group, {}).setdefault(name, {})
        # Releases of a family come oldest first: the first one to have a method brought it.
        if at.setdefault(family, place)[0] != place[0]:
            raise SystemExit(f"{key} changes inside {family}: {at[family][0]} before, {place[0]} in "
                             f"{release}")
    for group, names in ENUMERATORS.items():
        if missing := set(values[group]) ^ set(names.split()):
            raise SystemExit(f"{group}: {', '.join(missing)} only in the rows or only in ENUMERATORS")
    return methods, values


def table_row(at):
    return ", ".join("{%d, %d}" % at.get(family, (-1, 0)) for family in FAMILIES)


def header(methods, values):
    out = [
        "// Generated by abi/generate.py from abi/releases.tsv; do not edit.",
        "// Vtable slots, calling forms and enum values by family of releases; -1: the family does not "
        "have it.",
        "#pragma once",
        "#include <cstddef>", "#include <cstdint>", "#include \"dims.hpp\"", "#include \"shim.h\"", "",
        "namespace trtdl {", "",
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
    for group, order in ENUMERATORS.items():
        order = order.split()
        out.append(f"enum {group} : int32_t {{ " + ", ".join(f"{group}_{n}" for n in order) +
                   f", {group}_Count }};")
        out.append(f"constexpr Place k{group}[][FamilyCount] = {{")
        for name in order:
            out.append(f"    {{{table_row(values[group][name])}}},  // {name}")
            names.append(f"    \"{group}_{name}\",")
            rows.append(f"    k{group}[{group}_{name}],")
        out.append("};")
        if group in IN_SHIM:
            out += [f"static_assert(int{{TRTDL_{group.upper()}_{name}}} == int{{{group}_{name}}}, "
                    f"\"shim.h\");"
                    for name in order]
        out.append("")
    out += ["constexpr const char* kValueNames[] = {", *names, "};", "",
            "constexpr const Place* kValues[] = {", *rows, "};", f"constexpr int kValueCount = "
                                                                 f"{len(rows)};", "",
            "}  // namespace trtdl", ""]
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HEADER)
    parser.add_argument("--like", nargs=2, metavar=("OLD", "NEW"))
    args = parser.parse_args()
    if args.like:
        if added := add_like(ROWS, *args.like):
            print(f"{added} rows have {args.like[1]}")
            return 0
        print(f"no row of release {args.like[0]}", file=sys.stderr)
        return 1
    args.out.write_text(header(*collect(read(ROWS))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
