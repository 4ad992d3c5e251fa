-- Checks the first argument of functions that programs call. An error contains the position of the program's line.

local M = {}

-- Raises unless `type(value)` is `kind`. `wanted` is the name of the kind in the error.
local function check(call, value, kind, wanted)
  if type(value) ~= kind then require("lio.misuse").argument(call, 1, wanted, value) end
end

-- `check_function(call, f)`: raises unless `f` is a function. `call` is the name of the call.
function M.check_function(call, f)
  check(call, f, "function", "function")
end

-- `check_coroutine(call, co)`: raises unless `co` is a coroutine.
function M.check_coroutine(call, co)
  check(call, co, "thread", "coroutine")
end

-- `check_key(call, key)`: raises unless `key` is a string or an integer.
function M.check_key(call, key)
  if math.type(key) ~= "integer" then check(call, key, "string", "string") end
end

return M
