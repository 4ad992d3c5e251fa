-- `require "netpack"`: the same as `require "skynet.netpack"`, under the name of older programs.

return require "skynet.netpack"
