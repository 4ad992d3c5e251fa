-- The actor of ltask_stress.lua: a service that makes random requests to other actors. To its own log file it writes
-- the requests that it makes, the requests that it executes, and the results.
--
-- A line of the file is a letter and an id (the actor's number, a colon and a count):
--   c a call began      a the call returned     e the call or send failed (and the error)
--   w a send began      s the send was accepted (and its address)
--   t a request was executed by this actor
--   b a timer was set   f the timer fired
--   x a fault (and its description)             z the actor is idle; the id is its address
-- Invariant: `open` contains the requests and timers that this actor waits for; each is removed once.

local ltask = require "ltask"
local me, peers = ...

local random <const> = math.random
math.randomseed(me.seed)
ltask.on_full(me.full)

local log = assert(io.open(me.dir .. "/" .. me.number, "a"))
log:setvbuf("full", 1 << 15)

local S = {}
local open, waiting, count, children = {}, 0, 0, 0
local stopping, drained
local payloads = {
  false, 1, "short", ("large "):rep(20000), { 1, { 2, { 3, x = true } }, name = "nested" }, 1.5, math.mininteger,
}

local function note(letter, id, more)
  log:write(letter, id, more and " " .. more or "", "\n")
end

local function begin(letter, more)
  count = count + 1
  local id = me.number .. ":" .. count
  open[id], waiting = letter .. (more or ""), waiting + 1
  note(letter, id, more)
  return id
end

local function finish(letter, id, more)
  if not open[id] then note("x", id, "a second result: " .. letter .. (more or "")) end
  open[id], waiting = nil, waiting - 1
  note(letter, id, more)
  if waiting == 0 and drained then ltask.wakeup(drained) end
end

-- Removes the ended service `addr` from `peers` with a probability of one half, so that some requests, but not many,
-- are sent to ended services.
local function forget(addr)
  for i = #peers, 2, -1 do
    if peers[i] == addr and random(2) == 1 then table.remove(peers, i) end
  end
end

-- Returns the kind of the expected error `err`; logs any other error as a fault.
local function classify(id, err, addr)
  local text = tostring(type(err) == "table" and err.message or err)
  if text:find("boom " .. id, 1, true) then return "boom" end
  if text:find("{service:" .. addr .. "} is busy", 1, true) then return "busy" end
  if text:find("} is dead", 1, true) then
    forget(addr)
    return "dead"
  end
  if text:find("the system is ending", 1, true) then return "ending" end
  note("x", id, "unexpected error: " .. text:gsub("\n", " | "))
  return "unexpected"
end

-- Logs the result of a call, and checks the returned id and value.
local function record(id, addr, value, ok, got, back)
  if not ok then return finish("e", id, classify(id, got, addr)) end
  if got ~= id then note("x", id, "got the answer of " .. tostring(got)) end
  if type(back) ~= type(value) or type(back) ~= "table" and back ~= value then
    note("x", id, "the payload has changed")
  end
  finish("a", id)
end

local function peer()
  return peers[random(#peers)]
end

local function meet(addr)
  if addr == ltask.self() then return end
  peers[#peers < 24 and #peers + 1 or random(#peers)] = addr
end

local function ask(addr, what, value, ...)
  local id = begin("c", what)
  record(id, addr, value, pcall(ltask.call, addr, what, id, value, ...))
end

-- Requests -----------------------------------------------------------------------------------

function S.echo(id, value)
  note("t", id)
  return id, value
end

function S.boom(id)
  note("t", id)
  error("boom " .. id)
end

function S.nap(id, value, time)
  note("t", id)
  ltask.sleep(time)
  return id, value
end

function S.relay(id, value, addr)
  note("t", id)
  ask(addr, "echo", value)
  return id, value
end

-- Answers the request from a timer.
function S.later(id, value, time)
  note("t", id)
  local from = ltask.current_session()
  ltask.no_response()
  ltask.timeout(time, function()
    ltask.send_message(from.from, from.session, 2, ltask.pack(id, value))
    local _, pointer, size = ltask.message_receipt()
    -- If the caller is dead, the receipt contains the message, which must be freed.
    ltask.remove(pointer, size)
  end)
end

function S.note(id, addr)
  note("t", id)
  if addr then meet(addr) end
end

-- Actions --------------------------------------------------------------------------------------

local acts = {}

local calls <const> = { "echo", "echo", "echo", "boom", "nap", "relay", "later" }

function acts.call()
  local what = calls[random(#calls)]
  local more = nil
  if what == "nap" or what == "later" then more = random(0, 2) end
  if what == "relay" then more = peer() end
  ask(peer(), what, payloads[random(#payloads)], more)
end

function acts.burst()
  local addr = peer()
  for _ = 1, random(40) do
    ltask.fork(ask, addr, "echo", payloads[random(3)])
  end
end

function acts.send()
  for _ = 1, random(30) do
    local addr = peer()
    local id = begin("w")
    local ok, taken, why = pcall(ltask.send, addr, "note", id, random(8) == 1 and peer() or nil)
    if ok and taken then
      finish("s", id, tostring(addr))
    else
      finish("e", id, classify(id, taken or why, addr))
    end
  end
end

function acts.select()
  local r <close> = ltask.request()
  local ids = {}
  for i = 1, random(5) do
    local addr = peer()
    ids[i] = begin("c", "select")
    r:add { addr, "echo", ids[i], i, id = ids[i], value = i }
  end
  for one, results in r:select() do
    if results then
      record(one.id, one[1], one.value, true, results[1], results[2])
    else
      record(one.id, one[1], one.value, false, one.error)
    end
  end
end

function acts.parallel()
  local tasks = {}
  for i = 1, random(5) do tasks[i] = { ask, peer(), "echo", i } end
  for _, result in ltask.parallel(tasks) do
    if result.error then note("x", me.number .. ":0", "parallel: " .. tostring(result.error)) end
  end
end

function acts.timeout()
  for _ = 1, random(5) do
    local id, time = begin "b", random(0, 3)
    local began = ltask.counter()
    ltask.timeout(time, function()
      local took = ltask.counter() - began
      if took < time / 100 then note("x", id, ("fired after %.6f s of %d cs"):format(took, time)) end
      finish("f", id)
    end)
  end
end

function acts.sleep()
  ltask.sleep(random(0, 1))
end

function acts.raise()
  ltask.fork(function() error("expected: no caller", 0) end)
end

local function about_root(name, ...)
  local id = begin("c", name)
  local ok, result = pcall(ltask.call, 1, name, ...)
  if not ok then
    finish("e", id, classify(id, result, 1))
    return nil
  end
  finish("a", id)
  return result
end

-- Spawns a child that ends itself, or that its parent or another actor kills, while it is idle or busy.
function acts.child()
  if children >= 3 or me.child then return end
  children = children + 1
  local child = {
    number = me.number .. "." .. count, seed = random(1 << 30), dir = me.dir, child = true, full = me.full,
    life = random(0, 30), event = random(4) == 1,
  }
  local addr = about_root("spawn", "ltask_stress_server", child, { ltask.self(), peer() })
  if addr then
    meet(addr)
    for _ = 1, random(3) do ask(addr, "echo", 1) end
    for _ = 1, random(0, 2) do ltask.fork(about_root, "kill", addr) end
    if random(2) == 1 then ask(addr, "nap", 1, 2) end
    about_root("kill", addr)
  end
  children = children - 1
end

local list <const> = {
  "call", "call", "call", "call", "burst", "send", "send", "select", "parallel", "timeout", "sleep", "sleep", "child",
  "raise",
}

local loops = 3
for _ = 1, loops do
  ltask.fork(function()
    while not stopping and (me.life or 1) > 0 do
      acts[list[random(#list)]]()
      if me.life then me.life = me.life - 1 end
      if me.pause then ltask.sleep(random(0, me.pause)) end
    end
    loops = loops - 1
    if me.life and loops == 0 and not stopping then ltask.quit() end
    if drained then ltask.wakeup(drained) end
  end)
end

-- The end --------------------------------------------------------------------------------------

-- Waits until all requests and loops of this actor have ended. Returns the number of requests and timers.
function S.stop()
  stopping = true
  while waiting > 0 or loops > 0 do
    drained = {}
    ltask.wait(drained)
  end
  return count
end

-- Called last: all messages of other actors have arrived before this one.
function S.flush()
  note("z", ltask.self())
  log:flush()
end

-- Returns the requests that have not ended, and the number of running loops.
function S.left()
  return open, loops
end

if me.event then
  local wait = ltask.eventinit()
  ltask.idle_handler(wait)
end

return S
