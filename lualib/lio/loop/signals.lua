-- The signals of `lio.loop`. Invariant: a signal has a watcher while it has a handler of the program, or functions of
-- the library, which run if the program has no handler; SIGINT and SIGTERM also have a watcher while `loop.run` is
-- active.

local misuse = require "lio.misuse"
local signal = require "lio.signal"
local task = require "lio.task"

local ENDING <const> = { "SIGINT", "SIGTERM" }

local Signals = {}
Signals.__index = Signals

local M = {}

-- `new(driver, default_handler)`: `default_handler(name)` runs as a task for a signal without a handler.
function M.new(driver, default_handler)
  return setmetatable({
    driver = driver,
    default_handler = default_handler,
    handlers = {}, -- name: function
    library = {}, -- name: set of functions of the library
    watchers = {}, -- name: `lio.signal` watcher
    watcher_count = 0,
  }, Signals)
end

function Signals:watch(name)
  if self.watchers[name] then return end
  local watcher = assert(misuse.rename("signal", signal.open, name))
  self.watchers[name] = watcher
  self.watcher_count = self.watcher_count + 1
  self.driver:watch(watcher, function()
    if watcher:take() then self:dispatch(name) end
  end)
end

-- Runs the program's handler; if there is none, the functions of the library; if there are none either, the default
-- handler.
function Signals:dispatch(name)
  local handler, functions = self.handlers[name], self.library[name]
  if handler or not functions then
    task.fork(handler or self.default_handler, name)
    return
  end
  for f in pairs(functions) do task.fork(f, name) end
end

function Signals:unwatch(name)
  local watcher = self.watchers[name]
  if not watcher then return end
  self.watchers[name] = nil
  self.watcher_count = self.watcher_count - 1
  self.driver:unwatch(watcher)
  watcher:close()
end

-- Raises if no signal has this name. Does not open a watcher, which could consume a signal: `signal.open` checks the
-- names in order, and the second name is always invalid.
local function check_name(name)
  local _, message = pcall(signal.open, name, "")
  if message:find("#1", 1, true) then misuse.relay("signal", message) end
end

-- `signals:set(name, f, is_running)`: sets the handler of a signal; if `f` is nil, removes it. `is_running`: whether
-- `loop.run` is active. Raises for an unknown name.
function Signals:set(name, f, is_running)
  if f then
    self:watch(name)
  elseif not self.watchers[name] then
    check_name(name)
  elseif not (self.library[name] or is_running and (name == "SIGINT" or name == "SIGTERM")) then
    self:unwatch(name)
  end
  self.handlers[name] = f
end

-- `signals:add(name, f)`: makes the library's function `f(name)` run as a task when the signal arrives and the program
-- has no handler for it. Returns a function that removes `f`.
function Signals:add(name, f)
  self:watch(name)
  local functions = self.library[name] or {}
  self.library[name], functions[f] = functions, true
  return function()
    functions[f] = nil
    if next(functions) or self.library[name] ~= functions then return end
    self.library[name] = nil
    if not self.handlers[name] then self:unwatch(name) end
  end
end

-- `signals:has_handlers()` returns whether the program has set a handler.
function Signals:has_handlers()
  return next(self.handlers) ~= nil
end

-- `signals:start()`: watches SIGINT and SIGTERM. Called when `loop.run` begins.
function Signals:start()
  for _, name in ipairs(ENDING) do self:watch(name) end
end

-- `signals:stop()`: removes all watchers and handlers. Called when `loop.run` ends.
function Signals:stop()
  for _, name in ipairs(ENDING) do self:unwatch(name) end
  for name in pairs(self.handlers) do self:unwatch(name) end
  for name in pairs(self.library) do self:unwatch(name) end
  self.handlers, self.library = {}, {}
end

return M
