-- `require "skynet.manager"`, as programs of skynet ask for `abort`, `kill`, `register` and `name`: here `skynet`
-- has them always.

return require "skynet"
