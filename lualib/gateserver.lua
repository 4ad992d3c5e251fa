-- `require "gateserver"`: the same as `require "snax.gateserver"`, under the name of older programs.

return require "snax.gateserver"
