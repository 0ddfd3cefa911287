#!/bin/sh
# Runs a command of the image. The database's password comes as a file that all in its container may read, and
# libpq takes one from a file that nobody else may: it is written into such a file, in memory, and stands in no
# address, no variable and no list of processes.
set -eu

if [ -n "${DATABASE_PASSWORD_FILE:-}" ]; then
    if [ ! -r "$DATABASE_PASSWORD_FILE" ] || [ ! -s "$DATABASE_PASSWORD_FILE" ]; then
        echo "The database's password can't be read from $DATABASE_PASSWORD_FILE: make it with make compose-secrets." >&2
        exit 2
    fi
    umask_before=$(umask)
    umask 077
    # In a password, libpq's separator and its escape are escaped.
    printf '*:*:*:*:%s\n' "$(head -n 1 "$DATABASE_PASSWORD_FILE" | sed 's/[\\:]/\\&/g')" > "$PGPASSFILE"
    umask "$umask_before"
fi

exec "$@"
