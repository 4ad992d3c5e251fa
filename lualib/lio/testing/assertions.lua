-- Assertions: each raises an error at the line of its caller, which shows the values. Part of `lio.testing`, and used
-- by the project's own test kit. The argument `msg` names the checked value in the message.

local shows = require "lio.testing.show"

local show <const> = shows.show

local M = { show = show }

local function fail(text, msg)
  error((msg ~= nil and tostring(msg) .. ": " or "") .. text, 3)
end

-- `eq(got, want [, msg])` asserts that two values are equal: tables by content, other values by ==, and NaN equals NaN.
function M.eq(got, want, msg)
  if not shows.same(got, want) then fail(shows.difference(got, want), msg) end
end

-- `differs(got, other [, msg])` asserts that two values are not equal.
function M.differs(got, other, msg)
  if shows.same(got, other) then fail("got " .. show(got) .. ", want another value", msg) end
end

-- `ok(v [, msg])` asserts that `v` is neither nil nor false. Returns `v`, for `local s = t.ok(create())`.
function M.ok(v, msg)
  if not v then fail("got " .. show(v) .. ", want a true value", msg) end
  return v
end

-- `is_nil(v [, msg])` asserts that `v` is nil; false is a failure.
function M.is_nil(v, msg)
  if v ~= nil then fail("got " .. show(v) .. ", want nil", msg) end
end

-- `near(a, b, tolerance [, msg])` asserts that the numbers `a` and `b` differ by at most `tolerance`.
function M.near(a, b, tolerance, msg)
  if type(a) == "number" and math.abs(a - b) <= tolerance then return end
  fail(string.format("got %s, want %s ± %s", show(a), b, tolerance), msg)
end

-- `match(text, pattern [, msg])` asserts that a string matches the Lua pattern. Returns the captures, or the match if
-- the pattern has none.
function M.match(text, pattern, msg)
  if type(text) ~= "string" then fail("got " .. show(text) .. ", want a string", msg) end
  if not text:find(pattern) then
    fail("the string does not match\n   got: " .. show(text) .. "\n  want: " .. show(pattern), msg)
  end
  return text:match(pattern)
end

-- `fails(pattern, f, …)` asserts that `f(…)` raises a string that matches the Lua pattern. Returns that string.
function M.fails(pattern, f, ...)
  local ok, e = pcall(f, ...)
  if ok then fail("no error was raised, want one that matches " .. show(pattern)) end
  if type(e) ~= "string" then
    fail("the error is a " .. type(e) .. " (" .. show(e) .. "), want a string")
  end
  if not e:find(pattern) then
    fail("the error does not match\n   got: " .. show(e) .. "\n  want: " .. show(pattern))
  end
  return e
end

-- `returns_error(code, …)` asserts that a call of the library failed: `…` are its results `nil, message, code`. Returns
-- the message.
function M.returns_error(code, value, message, got)
  if value ~= nil then fail("got the result " .. show(value) .. ", want nil and the code " .. show(code)) end
  if got ~= code then
    fail("the codes differ\n   got: " .. show(got) .. " (" .. show(message) .. ")\n  want: " .. show(code))
  end
  return message
end

return M
