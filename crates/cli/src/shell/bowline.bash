# Completion of bowline for bash. Source it, or put it where bash-completion looks.
_bowline() {
    local line
    COMPREPLY=()
    # Bash cuts words at `=` and `:`, so the line itself is passed on, and where it is cut.
    while IFS= read -r line; do
        COMPREPLY+=("$line")
        # A value or the rest of a path is still to come. (Before version 4 there is no compopt, and a space.)
        [[ $line == *[=/] ]] && type compopt &>/dev/null && compopt -o nospace
    done < <(bowline __complete --line "${COMP_LINE:0:COMP_POINT}" --breaks "$COMP_WORDBREAKS" 2>/dev/null)
}
complete -o bashdefault -o default -F _bowline bowline
