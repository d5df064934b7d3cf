# Background commands by name, each in its own process group. Sourced; the caller sets begun_dir to an existing folder,
# calls end_all when it exits, and exits on the signals that must end it.
declare -A begun=()  # process groups
last_begun=""        # the newest of them

begin() {  # begin NAME now|ahead COMMAND ...; ahead: with what others leave of the processors
  local name="$1" when="$2"
  shift 2
  rm -f "$begun_dir/$name.ended"
  set -m
  (
    if [ "$when" = ahead ]; then chrt --idle --pid 0 $BASHPID >/dev/null 2>&1 || renice -n 19 $BASHPID >/dev/null; fi
    ("$@")
    echo $? >"$begun_dir/$name.ending"
    mv "$begun_dir/$name.ending" "$begun_dir/$name.ended"
  ) &
  begun[$name]=$!
  last_begun=$!
  set +m
}

has_begun() { [ -n "${begun[$1]:-}" ]; }

# Bash sometimes forgets the status of a child that ended long ago; the file keeps it.
finish() {  # finish NAME: waits for it; its status, 1 where it was killed
  local group="${begun[$1]}" file="$begun_dir/$1.ended" status=1
  wait "$group" 2>/dev/null
  until [ -e "$file" ] || ! kill -0 "$group" 2>/dev/null; do sleep 0.1; done
  unset "begun[$1]"
  [ ! -e "$file" ] || read -r status <"$file"
  return "$status"
}

end_all() {
  local name
  for name in "${!begun[@]}"; do
    # If a group has ended, its number may have been reused.
    [ -e "$begun_dir/$name.ended" ] || kill -- "-${begun[$name]}" 2>/dev/null
  done
  # A signal can arrive before the newest group was recorded.
  [ "${!:-}" = "$last_begun" ] || kill -- "-$!" 2>/dev/null
}
