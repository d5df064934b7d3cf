# Shared by the scripts in tools/: locations and messages. Sourced from the repository's root.
cache_dir="${XDG_CACHE_HOME:-$HOME/.cache}/mtrun"
torch_dir="${MT_TORCH_DIR:-$cache_dir/libtorch-2.11.0}"
newest_torch=2.15  # of tools/wheels/newest.txt
newest_torch_dir="$cache_dir/libtorch-newest"
peers_dir="$cache_dir/peers"
viewers_dir="$cache_dir/viewers"
docs_dir="$cache_dir/docs"
linters_dir="$cache_dir/linters"
manifests_dir="$cache_dir/manifests"
moto_dir="$cache_dir/moto"
corpora_dir="$cache_dir/corpora"
log_dir="$PWD/build/logs"
jobs=$(nproc)
mkdir -p "$log_dir"

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }
stage() { printf '== %s ...\n' "$*"; stage_started=$SECONDS; }
stage_done() { printf '   done in %d s\n' $((SECONDS - stage_started)); }

# show_progress LOG: shows ninja's progress and the estimated time left. On a terminal one line is rewritten, otherwise
# there is a line every 30 s. Ends with the script that started it.
show_progress() {
  local began=$SECONDS shown=$SECONDS done=0 all=0 line before=
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    read -r done all < <(grep -oE '^\[[0-9]+/[0-9]+\]' "$1" | tail -n 1 | tr -c '0-9\n' ' ') || true
    line="   the first files compile, log: $1"
    before=${before:-${done:-0}}  # of a build that began earlier
    if [ "${done:-0}" -gt "$before" ]; then
      line="   $done of $all, about $(((SECONDS - began) * (all - done) / (done - before))) s left, log: $1"
    fi
    if [ -t 1 ]; then
      printf '\r\033[K%s' "$line"
    elif [ $((SECONDS - shown)) -ge 30 ]; then
      printf '%s\n' "$line"
      shown=$SECONDS
    fi
  done
}

# watched LOG COMMAND ...: shows the progress of a build that writes LOG while the command runs.
watched() {
  show_progress "$1" &
  local watcher=$! status=0
  "${@:2}" || status=$?
  # TERM right after the fork could run this shell's traps, be lost, or end the newest process group.
  kill -KILL "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null || true
  if [ -t 1 ]; then printf '\r\033[K'; fi
  return $status
}

compile() { NINJA_STATUS='[%f/%t] ' cmake --build --preset "$2" -j "$jobs" "${@:3}" >>"$1" 2>&1; }  # compile LOG PRESET ...

# build PRESET [-DNAME=VALUE ...] [TARGET ...]: configures and builds; the log is shown only on errors.
build() {
  local preset="$1" log="$log_dir/build-$1.log" settings=()
  shift
  while [[ "${1:-}" == -D* ]]; do settings+=("$1"); shift; done
  stage "building preset $preset"
  if ! cmake --preset "$preset" "${settings[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    fail "cmake could not configure preset $preset (tools/setup installs what it asks for)"
  fi
  local compile=(compile "$log" "$preset" ${1:+--target "$@"}) status=0
  if [ -n "${unwatched:-}" ]; then "${compile[@]}"; else watched "$log" "${compile[@]}"; fi || status=$?
  if [ "$status" != 0 ]; then
    grep -E -A12 'error|FAILED' "$log" | head -n 60 >&2
    fail "the build of preset $preset failed; the whole log is $log"
  fi
  stage_done
}

# python_environment NAME DIR LIST IMPORTS SIZE: makes a Python environment at DIR with the wheels of
# tools/wheels/LIST.txt; it is complete if IMPORTS can be imported. With check_only=1 it only reports whether it exists.
python_environment() {
  local name="$1" dir="$2" list="$3" imports="$4" size="$5"
  if [ -x "$dir/bin/python" ] && "$dir/bin/python" -c "import $imports" 2>/dev/null; then
    say "$name: at $dir"
    return 0
  fi
  if [ "${check_only:-0}" = 1 ]; then
    local flag=" --test-tools"
    case "$list" in peers) flag=" --peers" ;; linters) flag="" ;; esac
    say "$name missing: tools/setup$flag makes $dir ($size)"
    return 1
  fi
  stage "$name: making $dir ($size)"
  [ -x "$dir/bin/python" ] || python3 -m venv "$dir" || fail "python3 -m venv failed: tools/setup installs it"
  "$dir/bin/python" -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r "tools/wheels/$list.txt" \
    >"$log_dir/$list.log" 2>&1 || fail "pip install failed; see $log_dir/$list.log"
  stage_done
}
