#!/usr/bin/env bash
# Runs one campaign twice with the same budget, by its own proposers and by random search: at the same time on two devices,
# one after the other on one.
# Usage: against_random.sh OUT CAMPAIGN BUDGET TARGET TARGET_OF_RANDOM      (shape 18m cuda:1 cuda:0, or cuda:0 cuda:0)
# Databases, logs and the GPUs' readings at 1 Hz are under OUT. Killed, it is gone on with by the same command.
set -euo pipefail
out=$1 campaign=$2 budget=$3 target=$4 random_target=$5
mkdir -p "$out/own" "$out/random"
python - "$campaign" "$out" <<'PY'
import pathlib, sys
from importlib.resources import files
import yaml
name, out = sys.argv[1], pathlib.Path(sys.argv[2])
text = files("configs").joinpath("packaged", "campaigns", f"{name}.yaml").read_text()
(out / "random.yaml").write_text(yaml.safe_dump({**yaml.safe_load(text), "name": f"{name}-random", "proposers": ["random"]}))
PY
seconds=$(python -c 'import sys; from configs.quantities import parse_duration_s as s; print(min(3600, 2 * round(s(sys.argv[1])) + 240))' "$budget")
autoinfer devices --record "$out/devices.jsonl" --seconds "$seconds" >"$out/devices.log" 2>&1 &
devices=$!
run() { # data folder, campaign, target
    autoinfer --data-dir "$1" run "$2" --target "$3" --budget "$budget" --no-dashboard >"$1.log" 2>&1
}
run "$out/own" "$campaign" "$target" &
own=$!
failed=0
own_done() { wait "$own" || { failed=1; echo "the campaign by its own proposers ended with an error; see $out/own.log" >&2; }; }
[ "$target" != "$random_target" ] || own_done
run "$out/random" "$out/random.yaml" "$random_target" &
random=$!
[ "$target" = "$random_target" ] || own_done
wait "$random" || { failed=1; echo "the campaign by random search ended with an error; see $out/random.log" >&2; }
kill "$devices" 2>/dev/null || true
for which in own random; do
    echo "== $which"
    autoinfer --data-dir "$out/$which" summary || failed=1
done
exit "$failed"
