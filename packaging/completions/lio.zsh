#compdef lio
# Completes the command line of `lio` in zsh. Installed as share/zsh/site-functions/_lio.
# tests/man_page_test.lua compares the options with `lio --help`.

_lio_script() {
  _files -g '*.lua(-.)'
}

_lio_word() {
  local -a commands
  commands=(
    'serve:serve the files of a folder over HTTP or HTTPS'
    'cert:write a certificate for development'
    'test:run the tests of a folder'
    'new:write a small project with a test'
    'check:report syntax errors and undefined globals'
  )
  _alternative 'commands:command:{ _describe command commands }' 'scripts:script:_lio_script'
}

_lio() {
  local curcontext=$curcontext state line ret=1
  typeset -A opt_args
  _arguments -C -S \
    '*-e+[run code]:code' \
    '-i[show the prompt afterwards]' \
    '--service[run the script in a service of the scheduler]' \
    '--watch[restart the script when a file that it has loaded changes]' \
    '(- *)'{-v,--version}'[show the versions]' \
    '(- *)'{-h,--help}'[show the options]' \
    '-[run standard input]' \
    '1:script or command:_lio_word' \
    '*:: :->arguments' && ret=0
  [[ $state == arguments ]] || return ret

  case $words[1] in
    serve)
      _arguments -S \
        '--addr=[address to listen on]:address:(127.0.0.1 0.0.0.0)' \
        '--port=[port, 0 to 65535]:port' \
        '--workers=[number of threads, 1 to 1024]:number' \
        '--list[list directories that have no index.html]' \
        '--hidden[also serve names that begin with a dot]' \
        '--log[write a line per request]' \
        '--tls[serve HTTPS]' \
        '--cert=[file with the certificate chain]:file:_files' \
        '--key=[file with the private key]:file:_files' \
        '(- *)'{-h,--help}'[show the options]' \
        '1:folder:_files -/' && ret=0
      ;;
    cert)
      _arguments -S \
        '--out=[folder for the files]:folder:_files -/' \
        '--days=[number of days of validity, 1 to 36500]:days' \
        '--authority[also create an authority that signs the certificate]' \
        '--force[replace existing files]' \
        '(- *)'{-h,--help}'[show the options]' \
        '*:host name or IP address' && ret=0
      ;;
    test)
      _arguments -S \
        '--filter=[run only the tests whose names contain a word]:word' \
        '--jobs=[number of files that run at the same time, 1 to 64]:number' \
        '--seconds=[time limit of a test]:number' \
        '--verbose[print a line for each test]' \
        '--tap[print the results in the Test Anything Protocol]' \
        '--junit=[also write the results to an XML file]:file:_files' \
        '--watch[run the tests again when a file changes]' \
        '(- *)'{-h,--help}'[show the options]' \
        '*:file or folder:_lio_script' && ret=0
      ;;
    new)
      _arguments -S \
        '(- *)'{-h,--help}'[show the options]' \
        '1:kind:((app\:"a web application" service\:"services of the scheduler" game\:"a game server"))' \
        '2:folder:_files -/' && ret=0
      ;;
    check)
      _arguments -S \
        '--globals=[names of further global variables]:names' \
        '(- *)'{-h,--help}'[show the options]' \
        '*:file or folder:_lio_script' && ret=0
      ;;
    *) _files && ret=0 ;;
  esac
  return ret
}

_lio "$@"
