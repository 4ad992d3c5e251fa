-- `require "loginserver"`: the same as `require "snax.loginserver"`, under the name of older programs.

return require "snax.loginserver"
