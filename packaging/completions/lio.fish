# Completes the command line of `lio` in fish. Installed as share/fish/vendor_completions.d/lio.fish.
# tests/man_page_test.lua compares the options with `lio --help`.

# Prints the subcommand or the script: the first word that is neither an option nor the argument of -e.
function __lio_word
    set -l words (commandline -opc)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case -e
                set -e words[1]
            case --
                echo script
                return
            case '-?*'
            case '*'
                echo $words[1]
                return
        end
        set -e words[1]
    end
end

function __lio_first
    test -z (__lio_word)
end

# Whether the subcommand is the argument.
function __lio_in
    test "$(__lio_word)" = $argv[1]
end

complete -c lio -n __lio_first -s e -x -d 'Run code'
complete -c lio -n __lio_first -s i -d 'Show the prompt afterwards'
complete -c lio -n __lio_first -l service -d 'Run the script in a service of the scheduler'
complete -c lio -n __lio_first -l watch -d 'Restart the script when a file that it has loaded changes'
complete -c lio -n __lio_first -s v -l version -d 'Show the versions'
complete -c lio -n __lio_first -s h -l help -d 'Show the options'
complete -c lio -n __lio_first -a - -d 'Run standard input'

complete -c lio -n __lio_first -a serve -d 'Serve the files of a folder over HTTP or HTTPS'
complete -c lio -n '__lio_in serve' -l addr -x -a '127.0.0.1 0.0.0.0' -d 'Address to listen on'
complete -c lio -n '__lio_in serve' -l port -x -d 'Port, 0 to 65535'
complete -c lio -n '__lio_in serve' -l workers -x -d 'Number of threads, 1 to 1024'
complete -c lio -n '__lio_in serve' -l list -d 'List directories that have no index.html'
complete -c lio -n '__lio_in serve' -l hidden -d 'Also serve names that begin with a dot'
complete -c lio -n '__lio_in serve' -l log -d 'Write a line per request'
complete -c lio -n '__lio_in serve' -l tls -d 'Serve HTTPS'
complete -c lio -n '__lio_in serve' -l cert -r -d 'File with the certificate chain'
complete -c lio -n '__lio_in serve' -l key -r -d 'File with the private key'
complete -c lio -n '__lio_in serve' -s h -l help -d 'Show the options'

complete -c lio -n __lio_first -a cert -d 'Write a certificate for development'
complete -c lio -n '__lio_in cert' -l out -x -a '(__fish_complete_directories)' -d 'Folder for the files'
complete -c lio -n '__lio_in cert' -l days -x -d 'Number of days of validity, 1 to 36500'
complete -c lio -n '__lio_in cert' -l authority -d 'Also create an authority that signs the certificate'
complete -c lio -n '__lio_in cert' -l force -d 'Replace existing files'
complete -c lio -n '__lio_in cert' -s h -l help -d 'Show the options'

complete -c lio -n __lio_first -a test -d 'Run the tests of a folder'
complete -c lio -n '__lio_in test' -l filter -x -d 'Run only the tests whose names contain a word'
complete -c lio -n '__lio_in test' -l jobs -x -d 'Number of files that run at the same time, 1 to 64'
complete -c lio -n '__lio_in test' -l seconds -x -d 'Time limit of a test'
complete -c lio -n '__lio_in test' -l verbose -d 'Print a line for each test'
complete -c lio -n '__lio_in test' -l tap -d 'Print the results in the Test Anything Protocol'
complete -c lio -n '__lio_in test' -l junit -r -d 'Also write the results to an XML file'
complete -c lio -n '__lio_in test' -l watch -d 'Run the tests again when a file changes'
complete -c lio -n '__lio_in test' -s h -l help -d 'Show the options'

complete -c lio -n __lio_first -a new -d 'Write a small project with a test'
complete -c lio -n '__lio_in new; and not __fish_seen_subcommand_from app service game' -f -a 'app service game' -d Kind
complete -c lio -n '__lio_in new' -s h -l help -d 'Show the options'

complete -c lio -n __lio_first -a check -d 'Report syntax errors and undefined globals'
complete -c lio -n '__lio_in check' -l globals -x -d 'Names of further global variables'
complete -c lio -n '__lio_in check' -s h -l help -d 'Show the options'
