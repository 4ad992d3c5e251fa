-- `require "skynet.crypt"`: the functions of skynet's module. Used by programs; the functions are native.

local M = require "skynet.crypt.core"

-- The paddings of `desencode` and `desdecode`.
M.padding = { iso7816_4 = 0, pkcs7 = 1 }

return M
