-- `require "msgserver"`: the same as `require "snax.msgserver"`, under the name of older programs.

return require "snax.msgserver"
