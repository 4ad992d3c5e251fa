-- `lio test [DIR|FILE…] [options]`: runs files of tests. The executable runs this file with the arguments after `test`
-- on the command line.

require "lio.testing.command"(...)
