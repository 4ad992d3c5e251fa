-- `require "skynet.manager"`: returns `skynet`. In skynet, this module adds `abort`, `kill`, `register` and `name`.
-- Here, `skynet` always has these functions.

return require "skynet"
