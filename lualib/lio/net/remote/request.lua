-- Requests of `lio.net.remote` to the service that has the loop. `require "lio.net.remote.request" (ltask)` → the
-- functions below. I/O by a service that is gone has failed with "dead"; misuse that it found is raised here.

local misuse = require "lio.misuse"

-- By the names of their metatables.
local OURS <const> = {
  ["lio.remote connection"] = true, ["lio.remote listener"] = true, ["lio.remote udp"] = true,
}

return function(ltask)
  local call <const>, fork <const>, wait <const>, wakeup <const> = ltask.call, ltask.fork, ltask.wait, ltask.wakeup
  local find <const>, type <const> = string.find, type

  -- A request's error: I/O by a service that is gone has failed; anything else is misuse.
  local function failure(err, io)
    local text = type(err) == "table" and err.message or tostring(err)
    if find(text, ("{service:%d} is dead"):format(io), 1, true) then return text, "dead" end
    -- Where the service found it is not where the caller made it.
    return nil, text:gsub("^[^:\n]+:%d+: (bad argument)", "%1", 1)
  end

  -- → the results of a request, or nil, message, code when its service is dead; misuse is raised
  -- at the program's line.
  local function finish(io, ok, ...)
    if ok then return ... end
    local message, code = failure((...), io)
    if not message then misuse.raise(code) end
    return nil, message, code
  end

  -- A request for something new. Whoever is killed while it is made does not leave it open; a connection that
  -- was accepted goes to the next.
  local function ask_for_new(io, name, ...)
    local token = {}
    fork(function(...)
      local ok, handle, message, code = pcall(call, io, name, ...)
      if wakeup(token, ok, handle, message, code) or not ok or not handle then return end
      if name == "accept" then
        pcall(call, io, "put_back", (...), handle)
      else
        pcall(call, io, "close", handle)
      end
    end, ...)
    return finish(io, wait(token))
  end

  local function ask(x, name, ...)
    if not misuse.is_named(x, OURS) then
      misuse.argument(name, 1, "connection, listener or datagram socket", x)
    end
    if x.closed then return nil, "closed", "closed" end
    return finish(x.io, pcall(call, x.io, name, x.handle, ...))
  end

  return { failure = failure, finish = finish, ask_for_new = ask_for_new, ask = ask }
end
