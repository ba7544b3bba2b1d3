#!/bin/bash
# Packs the results that are new since the last call, after so many seconds or when all is done.
#
#     bash FOLDER/tools/lab/measure/fetch.sh FOLDER OUT SECONDS
#
# OUT/results.TIME.00, … are pieces of a .tar.xz; join them with cat. Masks stay: they are large.
set -euo pipefail
folder=$1 out=$2 left=$3
while [ "$left" -gt 0 ] && [ ! -e "$folder/done" ]; do
    sleep 1
    left=$((left - 1))
done
cd "$folder"
[ -e fetched ] || touch -d @0 fetched
touch fetching
find out logs -type f -newer fetched ! -path '*/masks/*' ! -path '*predicted*' ! -name '*.npy' > fetch.list
# Files change while jobs write them; tar says so with 1.
tar -cJf fetch.tar.xz -T fetch.list || [ $? -eq 1 ]
split -b 15000000 -d fetch.tar.xz "$out/results.$(date +%H%M%S)."
mv fetching fetched
rm fetch.tar.xz
tail -n 40 out/lab.log
nvidia-smi --query-gpu=clocks.sm,power.draw,temperature.gpu,utilization.gpu --format=csv,noheader || true
