# Completion of bowline for fish: put it into ~/.config/fish/completions, or source it.
function __bowline_complete
    set -l before (commandline -opc)
    set -l found (command bowline __complete -- $before[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c bowline -f -a '(__bowline_complete)'
