-- `require "crypt"`: the same as `require "skynet.crypt"`, under the name of older programs.

return require "skynet.crypt"
