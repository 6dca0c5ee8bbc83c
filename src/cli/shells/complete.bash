# Completion of larder for bash: the program itself says what may come next.
_larder() {
    local rest=${COMP_LINE:0:COMP_POINT} words=() blank word help i
    # bash cuts words at : and = too; what no blank parts is one word again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blank=${rest%%[![:space:]]*}
        rest=${rest#"$blank"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$rest
        rest=${rest#"$word"}
        if [[ -n $blank || ${#words[@]} -eq 0 ]]; then
            words+=("$word")
        else
            words[-1]+=$word
        fi
    done

    local cur=${words[-1]} quote='' breaks='' unfit='' cut=0 tail
    if [[ $cur == [\"\']* ]]; then
        quote=${cur:0:1}
        cur=${cur:1}
        # Names that would end the quotes, or be run in them, are not offered there.
        unfit="*[[:cntrl:]$quote]*"
        [[ $quote == \" ]] && unfit='*[[:cntrl:]"$`\\!]*'
    fi
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+='='
    if [[ -z $quote && -n $breaks ]]; then # bash takes what stands before them for done
        tail=${cur##*["$breaks"]}
        cut=$((${#cur} - ${#tail}))
    fi
    words[-1]=$cur

    COMPREPLY=()
    while IFS=$'\t' read -r word help; do
        if [[ $word != :files ]]; then
            COMPREPLY+=("${word:cut}")
            continue
        fi
        while IFS= read -r word; do
            # shellcheck disable=SC2053 # a pattern
            [[ -n $quote && $word == $unfit ]] && continue
            [[ -d ${word/#\~\//$HOME/} ]] && word+=/
            if [[ -z $quote && $word == \~* ]]; then
                printf -v word '~%q' "${word:1}"
            elif [[ -z $quote ]]; then
                printf -v word %q "$word"
            fi
            word=${cur:0:help}$word
            COMPREPLY+=("${word:cut}")
        done < <(compgen -f -- "${cur:help}")
    done < <("$1" __complete "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:/] ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _larder larder
