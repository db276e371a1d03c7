# SPDX-License-Identifier: Apache-2.0
# bash completion of farlane: commands and options come from its own help, so that there is no second list.
_farlane() {
    local exe=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        words=$("$exe" help 2>/dev/null | sed -n '/^Usage/,/^URLs/s/^  \([a-z]*\) .*/\1/p')
    elif [[ $current == -* ]]; then
        words="$("$exe" "$command" --help 2>/dev/null | sed -nE 's/^ +(-., )?--([a-z-]+) .*/--\2/p') --help"
    elif [[ $command == ctl && COMP_CWORD -eq 2 ]]; then
        words='list status connections save metrics ns subsystem listener host'
    elif [[ $command == ctl && COMP_CWORD -eq 3 ]]; then
        case ${COMP_WORDS[2]} in
        ns) words='add rm resize' ;;
        subsystem) words='add rm set' ;;
        listener) words='add rm ana' ;;
        host) words='add rm' ;;
        esac
    elif [[ $command == rnic && COMP_CWORD -eq 2 ]]; then
        words='devices qps stats'
    elif [[ $command == help ]]; then
        words=$("$exe" help 2>/dev/null | sed -n '/^Usage/,/^URLs/s/^  \([a-z]*\) .*/\1/p')
    fi
    if [ -n "$words" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _farlane farlane
