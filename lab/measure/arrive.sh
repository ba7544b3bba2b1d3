#!/bin/bash
# Takes the parts that lie beside this script, and unpacks each load whose last part has come.
#
#     bash TRANSFER/arrive.sh FOLDER     after each transfer; unpacking goes on in the background
#
# A load is unpacked to FOLDER/LOAD; then FOLDER/ready/LOAD is there, which jobs wait for.
# FOLDER/logs/arrive.log has what went wrong. A damaged part is named there: transfer it again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
mkdir -p "$folder"/{parts,ready,logs}
folder=$(cd "$folder" && pwd)
cd "$folder/parts"

# TensorRT's ONNX parser names a library that names these. Neither parsing nor building calls them,
# so where the machine lacks one, an empty one lets the parser load.
supply_names() {
    for library in libcudnn.so.8 libcublas.so.12 libcublasLt.so.12; do
        ldconfig -p | grep -q "$library" || [ -e "$1/$library" ] ||
            echo | gcc -x c - -shared -fPIC -Wl,-soname,$library -o "$1/$library"
    done
}

if [ $# -gt 1 ]; then # by the call below
    load=$2
    trap 'rm -r "$load.unpacking"' EXIT
    list=$load.unpacking/list # the other one may change meanwhile
    cp "$load.list" "$list"
    sha256sum --check --quiet "$list"
    mkdir -p "../$load"
    cat "$load".[0-9][0-9][0-9] | xz -dc | tar -x -C "../$load"
    [ "$load" != tensorrt ] || supply_names ../tensorrt
    cp "$list" "../ready/$load"
    rm "$load".[0-9][0-9][0-9]
    exit
fi

for file in "$here"/*.[0-9][0-9][0-9] "$here/arrive.sh"; do
    name=$(basename "$file")
    cp "$file" "$name.new" && mv "$name.new" "$name"
done
for load in $(sed 's/.*  \(.*\)\.[0-9]*$/\1/' "$here/parts.txt" | uniq); do
    grep "  $load\." "$here/parts.txt" > "$load.list"
    if cmp -s "$load.list" "../ready/$load"; then
        echo "$load: there"
        continue
    fi
    have=$(ls | grep -c "^$load\.[0-9][0-9][0-9]$" || true)
    wanted=$(wc -l < "$load.list")
    echo "$load: $have of $wanted parts"
    if [ "$have" -lt "$wanted" ] || ! mkdir "$load.unpacking" 2> /dev/null; then
        continue
    fi
    # Between the comparison and mkdir an earlier call may have unpacked it.
    if cmp -s "$load.list" "../ready/$load"; then
        rmdir "$load.unpacking"
        continue
    fi
    rm -f "../ready/$load"
    setsid nohup bash arrive.sh "$folder" "$load" >> ../logs/arrive.log 2>&1 < /dev/null &
    [ "$load" != tools ] || wait # the next command is one of them
done
