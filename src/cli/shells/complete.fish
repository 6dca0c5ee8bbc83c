# Completion of larder for fish: the program itself says what may come next.
function __larder_complete
    set -l words (commandline -opc)
    set -l cur (string replace -r '^["\']' '' -- (commandline -ct))
    set -l program $words[1]
    set -e words[1]
    for line in ($program __complete $words "$cur" 2>/dev/null)
        set -l parts (string split -m 1 \t -- $line)
        if test "$parts[1]" != :files
            echo $line
            continue
        end
        set -l kept (string sub -l $parts[2] -- "$cur")
        for path in (__fish_complete_path (string sub -s (math $parts[2] + 1) -- "$cur"))
            echo $kept$path
        end
    end
end
complete -c larder -f -a '(__larder_complete)'
