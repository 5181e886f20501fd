#!/usr/bin/env bash
# The suite in the surroundings that docs/reliability.md lists: sets of them, each in a clone of its own
# in an empty place, with a cold cache. Run as root, since two of the sets run as another user.
#
#   scripts/environments.sh lowest | read-only | newest | python3.14 | python3.15
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d "${TMPDIR:-/tmp}/omkl environment XXXXXX")
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
git clone --quiet "$root" "$place/omkl"
cd "$place/omkl"

# In .venv, by the Python and the versions (locked, lowest or highest) that are asked for.
install() {
  "$1" -m venv .venv
  if [ "$2" = locked ]; then
    .venv/bin/python scripts/install.py
  else
    .venv/bin/python -m pip --quiet install uv
    .venv/bin/uv pip install --quiet --python .venv/bin/python --resolution "$2" --editable '.[dev]'
  fi
  touch .venv/.installed
  .venv/bin/python -c 'import sys, numpy, numba; print(sys.version.split()[0], "numpy", numpy.__version__, "numba", numba.__version__)'
}

as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
case "${1:-}" in
  lowest) # the lowest versions allowed, no HOME, ASCII, narrow, private files
    install python3.11 lowest-direct
    umask 077
    env -u HOME LANG=C LC_ALL=C PYTHONUTF8=0 COLUMNS=40 XDG_CACHE_HOME="$place/cache" make test
    ;;
  read-only) # the lock, a HOME and a checkout of somebody else, one core, far from UTC, wide
    install python3.12 locked
    mkdir -m 555 "$place/home"
    env HOME="$place/home" TZ=Asia/Kathmandu COLUMNS=300 "${as_nobody[@]}" \
      taskset --cpu-list 0 make test
    ;;
  newest) # the newest versions, a checkout of somebody else
    install python3.13 highest
    env HOME=/nonexistent "${as_nobody[@]}" make test
    ;;
  python3.14 | python3.15) # the lock, as root; for 3.15 it has no MLflow and no accountant of privacy
    install "$1" locked
    make test
    ;;
  *)
    sed -n '2,5p' "$0"
    exit 2
    ;;
esac
