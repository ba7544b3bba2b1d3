#!/bin/sh
# sections.sh FOLDER: the sections of cuda/*.cu and *.cuh ("// ---- NAME ... ----"), each as a file
# FOLDER/FILE.NAME.
# Who runs a kernel on the CPU includes those it needs: all but the primitives, which machine.h has.
set -e
folder=$1 && mkdir -p "$folder"
cuda=$(dirname "$0")/../../cuda
for file in "$cuda"/*.cu "$cuda"/*.cuh; do
    awk -v to="$folder/${file##*/}." '/^\/\/ ---- .* ----$/ { name = $3; sub(":", "", name) } name { print > (to name) }' "$file"
done
# wrong SECTION FAULT RIGHT WRONG: an expression is WRONG where FAKE_FAULT asks for that
# (faults.h), so that tests can see a comparison fail. Who renames an expression in a kernel does
# so here, too.
wrong() {
    awk -v name="$2" -v right="$3" -v wrong="$4" '
        { while (at = index($0, right)) { found++; printf "%sFAULT(%s, %s, %s)", substr($0, 1, at - 1), name, right, wrong; $0 = substr($0, at + length(right)) } print }
        END { if (!found) { print "sections.sh: nowhere is " right > "/dev/stderr"; exit 1 } }
    ' "$folder/$1" > "$folder/wrong"
    mv "$folder/wrong" "$folder/$1"
}
wrong keys.cu.attention keys_of_one_time 'p.time_bias[of]' 4.0f
