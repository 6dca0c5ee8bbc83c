#compdef larder
# Completion of larder for zsh: the program itself says what may come next.
_larder() {
    local name help files=
    local -a whole shown open opened
    while IFS=$'\t' read -r name help; do
        if [[ $name == :files ]]; then
            files=$help
        elif [[ $name == *[=:] ]]; then
            open+=("$name")
            opened+=("$name  $help")
        else
            whole+=("$name")
            shown+=("$name  $help")
        fi
    done < <("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    ((${#whole})) && compadd -l -d shown -a whole
    ((${#open})) && compadd -S '' -l -d opened -a open
    if [[ -n $files ]]; then
        ((files > 0)) && compset -p $files
        _files
    fi
}
if [[ $funcstack[1] == _larder ]]; then
    _larder "$@"
else
    compdef _larder larder
fi
