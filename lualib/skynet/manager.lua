-- `require "skynet.manager"`: `skynet`, which programs of skynet extend by `abort`, `kill`, `register` and `name` in
-- this way. Here it always has them.

return require "skynet"
