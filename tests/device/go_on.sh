#!/usr/bin/env bash
# Goes on with a campaign whose database is kept, on GPUs like those that it had, and keeps the database anew.
# Usage: go_on.sh KEPT OUT CAMPAIGN BUDGET     (docs/results/campaigns/h200-levers-four.db.xz out C-1 15m)
# OUT/own has the database, OUT/kept.db.xz is what to keep of it in KEPT's place. What it built before is built again.
set -euo pipefail
kept=$1 out=$2 campaign=$3 budget=$4
mkdir -p "$out/own"
if [ ! -e "$out/own/autoinfer.db" ]; then
    python - "$kept" "$out/own/autoinfer.db" <<'PY'
import lzma, pathlib, sys
try:
    whole = lzma.decompress(pathlib.Path(sys.argv[1]).read_bytes())
except (OSError, lzma.LZMAError) as error:
    sys.exit(f"{sys.argv[1]} is no kept database ({error}); name one such as docs/results/campaigns/h200-levers-four.db.xz.")
pathlib.Path(sys.argv[2]).write_bytes(whole)
PY
fi
failed=0
autoinfer --data-dir "$out/own" run --resume "$campaign" --budget "$budget" --no-dashboard >"$out/own.log" 2>&1 || { failed=$?; tail -n 5 "$out/own.log" >&2; }
python - "$out/own/autoinfer.db" "$out/kept.db.xz" <<'PY'
import lzma, sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    whole = database.serialize() if database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0 else None
if whole is None:
    sys.exit(f"Something still writes to {sys.argv[1]}; end it and run this again.")
with lzma.open(sys.argv[2], "wb", preset=9) as file:
    file.write(whole)
PY
autoinfer --data-dir "$out/own" summary --campaign "$campaign"
exit "$failed"
