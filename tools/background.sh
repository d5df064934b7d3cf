# Commands in the background, by name, each in a process group of its own. Sourced; the caller names a folder that is there in
# begun_dir, calls end_all when it exits, and exits on the signals that are to end it.
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

# Bash forgets, now and then, with which status a child has ended long ago: the file does not.
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
    # The number of one that has ended may be another's by now.
    [ -e "$begun_dir/$name.ended" ] || kill -- "-${begun[$name]}" 2>/dev/null
  done
  # A signal may have come before the newest one could be noted.
  [ "${!:-}" = "$last_begun" ] || kill -- "-$!" 2>/dev/null
}
