# Completes the command line of `lio` in bash. Installed as share/bash-completion/completions/lio, which the package
# bash-completion loads at the first use. Without this package: `source` the file.
# tests/man_page_test.lua compares the options with `lio --help`.

_lio() {
  local words current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} word= at
  COMPREPLY=()
  # The first word that is neither an option nor the argument of -e is a subcommand or the script.
  for ((at = 1; at < COMP_CWORD; at++)); do
    case ${COMP_WORDS[at]} in
      -e) at=$((at + 1)) ;;
      --) at=$((at + 1)) && word=script && break ;;
      -?*) ;;
      *) word=${COMP_WORDS[at]} && break ;;
    esac
  done

  case $word:$previous in
    :-e | serve:--addr | serve:--port | serve:--workers | cert:--days | test:--filter | test:--jobs | test:--seconds | check:--globals) return ;;
    cert:--out) mapfile -t COMPREPLY < <(compgen -d -- "$current") && return ;;
    serve:--cert | serve:--key | test:--junit) mapfile -t COMPREPLY < <(compgen -f -- "$current") && return ;;
  esac
  case $word:$current in
    :-*) words="- -- -e -i --service --watch -v --version -h --help" ;;
    serve:-*) words="--addr --port --workers --list --hidden --log --tls --cert --key -h --help" ;;
    cert:-*) words="--out --days --authority --force -h --help" ;;
    test:-*) words="--filter --jobs --seconds --verbose --tap --junit --watch -h --help" ;;
    new:-*) words="-h --help" ;;
    new:*) [ "$previous" = new ] && mapfile -t COMPREPLY < <(compgen -W "app service game" -- "$current") && return ;;
    check:-*) words="--globals -h --help" ;;
    :*) words="serve cert test new check" ;;
    *) words= ;;
  esac
  case $word in
    serve | new) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current"; compgen -d -- "$current") ;;
    cert) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
    '' | test | check)
      mapfile -t COMPREPLY < <(
        compgen -W "$words" -- "$current"
        compgen -d -- "$current"
        compgen -f -X '!*.lua' -- "$current"
      )
      ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;; # an argument of the script
  esac
}

complete -o filenames -F _lio lio
