#compdef bowline
# Completion of bowline for zsh: put it into a folder of $fpath as `_bowline`, or source it.
_bowline() {
    local -a whole begun shown_whole shown_begun
    local line word
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        # A value or the rest of a path is still to come.
        if [[ $word == *[=/] ]]; then
            begun+=("$word")
            shown_begun+=("${line/$'\t'/  -- }")
        else
            whole+=("$word")
            shown_whole+=("${line/$'\t'/  -- }")
        fi
    done < <(bowline __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#whole} + ${#begun} == 0 )); then
        _files
        return
    fi
    (( ${#whole} )) && compadd -l -d shown_whole -- "${whole[@]}"
    (( ${#begun} )) && compadd -l -S '' -d shown_begun -- "${begun[@]}"
    return 0
}
if [[ $funcstack[1] == _bowline ]]; then
    _bowline "$@"
else
    compdef _bowline bowline
fi
