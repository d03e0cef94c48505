# bowline's watchdog: ends what bowline started, should bowline be killed.
#
# Told on stdin what to end: "+group N", "+mark ID", and "-" for what is gone; and with "+session N" which session the
# servers were started in. The end of stdin is the end of bowline, however it came.

trap '' HUP INT QUIT TERM PIPE ALRM USR1 USR2 TSTP TTIN TTOU
# What the host's parent left open for everybody must not stay open with us. A shell can name only these.
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
cd /

groups= marks= home= attached=

# WORD WORDS...: leaves the words without that one in $kept.
without() {
    kept= word=$1
    shift
    for other; do
        [ "$other" = "$word" ] || kept="$kept $other"
    done
}

while read -r what value; do
    case $what in
    +group) groups="$groups $value" ;;
    +mark) marks="$marks $value" ;;
    +session) home=$value ;;
    -group) without "$value" $groups && groups=$kept ;;
    -mark) without "$value" $marks && marks=$kept ;;
    esac
done

# Leaves in $left what to signal. A group that is gone is forgotten: its number may get a new owner.
look() {
    left= kept=
    for group in $groups; do
        if kill -0 "-$group"; then
            left="$left -$group" kept="$kept $group"
        fi
    done
    groups=$kept
    [ -n "$marks" ] && [ -r /proc/self/environ ] || return 0
    set --
    for mark in $marks; do
        set -- "$@" -e "BOWLINE_OWNER=$mark"
    done
    marked=
    for file in $(carriers "$@"); do
        file=${file#/proc/}
        marked="$marked ${file%/environ}"
    done
    # What descends from a server now goes with it, also when the server is gone and its children have no parent.
    for pid in $marked; do
        is_among "$pid" $attached || is_detached "$pid" || attached="$attached $pid"
    done
    for pid in $marked; do
        is_among "$pid" $attached && left="$left $pid"
    done
    return 0
}

# WORD WORDS...
is_among() {
    word=$1
    shift
    for other; do
        [ "$other" = "$word" ] && return 0
    done
    return 1
}

# PID: whether the highest of those above it that carry the mark has left the server: it is in none of the groups, and
# has a session of its own. A browser that a server opened is the user's.
is_detached() {
    [ -n "$home" ] || return 1
    at=$1 steps=0
    while [ "$steps" -lt 100 ] && read -r line <"/proc/$at/stat"; do
        steps=$((steps + 1))
        # Whatever the program is called: what comes after its name is state, parent, group and session.
        line=${line##*) }
        line=${line#* }
        parent=${line%% *}
        line=${line#* }
        group=${line%% *}
        line=${line#* }
        session=${line%% *}
        is_among "$at" $attached && return 1
        is_among "$group" $groups && return 1
        if is_among "$parent" $marked; then
            at=$parent
            continue
        fi
        [ "$session" != "$home" ]
        return
    done
    return 1
}

# ENTRIES...: the environments that have one of these. Not every grep (BusyBox) knows entries that end with a
# zero byte. Those that do not are asked file by file, which is slow where there are many.
carriers() {
    if printf 'x\000' | grep -qzxF x; then
        grep -lszxF "$@" /proc/[0-9]*/environ
        return
    fi
    for file in /proc/[0-9]*/environ; do
        # A line break within an entry must not make two of it.
        if tr '\n\000' '\001\n' <"$file" | grep -qxF "$@"; then
            echo "$file"
        fi
    done
}

# One by one, and without "--": shells disagree about everything else.
signal() {
    for target in $left; do
        kill "-$1" "$target"
    done
}

# TENTHS: waits that long for everything to end.
wait_for() {
    tenths=$1
    while look && [ -n "$left" ] && [ "$tenths" -gt 0 ]; do
        sleep 0.1 || sleep 1
        tenths=$((tenths - 1))
    done
    [ -n "$left" ] || exit 0
}

# What bowline had just forked may not have begun to be itself, so one look is not enough.
look
[ -n "$marks" ] && [ -z "$left" ] && sleep 0.1
# Its stdin ended with bowline: the end that a server expects.
wait_for 10
signal TERM
wait_for 20
for _ in 1 2 3 4 5 6 7 8 9 10; do
    signal KILL
    wait_for 1
done
