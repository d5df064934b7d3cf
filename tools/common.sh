# Shared by the scripts in tools/: places and messages. Sourced from the repository's root.
cache_dir="${XDG_CACHE_HOME:-$HOME/.cache}/mtrun"
torch_dir="${MT_TORCH_DIR:-$cache_dir/libtorch-2.11.0}"
peers_dir="$cache_dir/peers"
log_dir="$PWD/build/logs"
jobs=$(nproc)
mkdir -p "$log_dir"

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "$0" "$*" >&2; exit 1; }
stage() { printf '== %s ...\n' "$*"; stage_started=$SECONDS; }
stage_done() { printf '   done in %d s\n' $((SECONDS - stage_started)); }

# build PRESET [TARGET ...]: configures and builds; the log is shown only when something is wrong.
build() {
  local preset="$1" log="$log_dir/build-$1.log"
  shift
  stage "building preset $preset"
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    fail "cmake could not configure preset $preset (tools/setup installs what it asks for)"
  fi
  if ! cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} >>"$log" 2>&1; then
    grep -E -A12 'error|FAILED' "$log" | head -n 60 >&2
    fail "the build of preset $preset failed; the whole log is $log"
  fi
  stage_done
}
