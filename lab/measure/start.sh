#!/bin/bash
# Starts the driver on the machine that measures, or goes on after it died or jobs.py changed.
#
#     bash FOLDER/tools/lab/measure/start.sh FOLDER [flags of drive.py]
#
# A driver that is still there ends; its jobs run on, and the new one adopts them.
set -euo pipefail
folder=$(cd "$1" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder"/{out,logs}
for _ in $(seq 120); do
    [ -e "$folder/ready/program" ] && [ -e "$folder/ready/packages" ] && break
    sleep 1
done
if [ ! -e "$folder/out/machine.txt" ]; then
    {
        nvidia-smi --query-gpu=name,driver_version,power.limit,clocks.sm,temperature.gpu --format=csv || true
        nproc
        df -h "$folder"
        "$folder/program/segtrt" --version
    } > "$folder/out/machine.txt" 2>&1
fi
cat "$folder/out/machine.txt"
. "$here/environment.sh" "$folder"
rm -f "$folder/done"
setsid nohup python3 "$here/drive.py" --folder "$folder" --replace "$@" >> "$folder/logs/driver.log" 2>&1 < /dev/null &
sleep 4
tail -n 8 "$folder/logs/driver.log" "$folder/out/lab.log"
