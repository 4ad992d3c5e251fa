-- Several workers for one app: `app:run(where, { workers = n })`, which calls this.
--
-- The VM that runs the program opens n listening sockets that share the address, and boots the scheduler with n
-- exclusive services, each with a loop of its own (web/worker.lua). In every one of them the program runs once
-- more, up to the same call of `run`, which serves from the worker's socket. Where sockets cannot share an
-- address (unix), the workers accept from one. Under `lio --watch` the program before this one may have had more
-- workers. All its sockets stay open, since a close would reset the clients that wait in one: workers have several.
-- Invariant: the sockets are this VM's until a worker takes its own.

-- Under `lio --watch`, which has the sockets of the program before this one and looks after a unix socket's file.
local watched <const> = require "lio.watched"

local misuse = require "lio.misuse"

local M = {}

-- How many calls for several workers there were in this VM. The n-th one here is the n-th one in a worker.
local calls = 0

-- In a worker: `index`, `count`, `call`, `descriptor` (lightuserdata), `shared`; `more`: the descriptors of the other
-- sockets that it has; `peers`: the descriptors and identities of all workers' sockets, a list by index.
M.share = nil

-- In a worker: its server, and the listeners of workers that are held up, a list by index.
local server
local covered = {}

-- `take()` → whether this is a worker, and the socket that is this call's, or nil when the call is none that
-- began a system.
function M.take()
  local share = M.share
  if not share then return false end
  calls = calls + 1
  if calls ~= share.call then return true end
  return true, require("lio.socket").fd(share.descriptor, share.shared)
end

-- In a worker: `serving` is the server of this call of `run`. It accepts from the worker's other sockets as well.
function M.serves(serving)
  server = serving
  local net = require("lio.net").instance
  for _, descriptor in ipairs(M.share.more) do
    server:accept_from(assert(net.listen(require("lio.socket").fd(descriptor))))
  end
end

-- A listener on a copy of another worker's socket; nil when that is closed already.
local function open_twin(socket)
  local twin = require("lio.socket")._twin(socket.descriptor, socket.identity)
  if not twin then return nil end
  local listener = require("lio.net").instance.listen(twin)
  if not listener then
    twin:close()
    return nil
  end
  listener.is_twin = true
  return listener
end

-- In a worker: accepts from the sockets of worker `index`, which is held up, or, without `is_held`, no longer. The
-- kernel gives those sockets their share of the connections all the time.
function M.cover(index, is_held)
  local listeners = covered[index]
  if not is_held then
    covered[index] = nil
    for _, listener in ipairs(listeners or {}) do listener:close() end
    return
  end
  if listeners or not (M.share and server) or server.stopping then return end
  listeners = {}
  for _, socket in ipairs(M.share.peers[index] or {}) do
    local listener = socket.identity and open_twin(socket)
    if listener then
      listeners[#listeners + 1] = listener
      server:accept_from(listener)
    end
  end
  if listeners[1] then covered[index] = listeners end
end

-- Opens sockets for an address: `count` that share it, or one, or all that the program before this one had. → list,
-- or nil and a message.
local function open_sockets(net, addr, port, opts, count)
  if type(addr) == "userdata" then return { addr } end
  local is_unix = addr:match "^unix:"
  local shared = setmetatable({ reuseport = true }, { __index = opts })
  local first, message = net.bind(addr, port, watched and not is_unix and shared or opts)
  if not first then return nil, message end
  if is_unix then return { first } end
  local _, chosen = first:info("socket"):value()
  local sockets = { first }
  if not watched then
    -- That it could be opened alone shows that nobody else has the port, be it with `reuseport`.
    first:close()
    sockets[1] = nil
  end
  local key
  for i = #sockets + 1, count do
    sockets[i], message, key = net.bind(addr, chosen, shared)
    if not sockets[i] then
      for _, s in ipairs(sockets) do s:close() end
      return nil, message
    end
  end
  while key do
    local kept = watched.wants(key)
    if not kept then break end
    sockets[#sockets + 1] = kept
  end
  return sockets
end

-- What the workers run: the program's file, or the embedded one that `module` names.
local function find_program(opts)
  if opts.module then return { module = opts.module, args = opts.args or {} } end
  local arg = rawget(_G, "arg")
  local script = arg and arg[0]
  if not (script and loadfile(script)) then
    misuse.raise "app:run: several workers run the program's file, and this program is none"
  end
  return { script = script, args = table.pack(table.unpack(arg)) }
end

-- `start(where…, opts, module, count, limits, shown)`: serves with `count` workers until they have ended. `opts` are
-- those of `net.bind`; `limits`: `grace` and `watchdog`, in seconds. `shown(socket)` is called before they begin.
-- → true; nil and a message when the address cannot be listened on.
function M.start(addr, port, opts, module, count, limits, shown)
  local core, start = require "ltask.core", require "ltask.start"
  local program = find_program(module)
  local net = require("lio.net").instance
  local sockets, message = open_sockets(net, addr, port, opts, count)
  if not sockets then return nil, message end
  -- A signal that comes before all workers run is for those as well.
  local _ <close> = assert(require("lio.signal").hold("SIGINT", "SIGTERM"))
  shown(sockets[1])
  calls = calls + 1
  local source, chunkname = core.embedded "lio.web.worker"
  local keeper, keeper_name = core.embedded "lio.web.worker_supervisor"
  local exclusive, peers = {}, {}
  for i = 1, count do
    local s = sockets[i] or sockets[1]
    peers[i] = {}
    exclusive[i] = { name = "worker" .. i, source = source, chunkname = chunkname, args = { {
      index = i, count = count, call = calls, program = program,
      descriptor = s:handle(), shared = #sockets == 1, more = {}, peers = peers,
    } } }
  end
  if #sockets > 1 then
    for i, s in ipairs(sockets) do
      local index, handle = (i - 1) % count + 1, s:detach()
      table.insert(peers[index], { descriptor = handle, identity = require("lio.socket")._identity(handle) })
      if i > count then table.insert(exclusive[index].args[1].more, handle) end
    end
  end
  local folder = (program.script or ""):match "^(.*/)[^/]*$" or "./"
  local code = start {
    service_path = folder .. "?.lua;./?.lua",
    lua_path = package.path,
    lua_cpath = package.cpath,
    grace = limits.grace + 1,
    watchdog = limits.watchdog,
    exclusive = exclusive,
    bootstrap = { { name = "keeper", source = keeper, chunkname = keeper_name, args = { count } } },
  }
  if #sockets == 1 then
    sockets[1]:close()
    local path = type(addr) == "string" and addr:match "^unix:(.+)$"
    if path and path:sub(1, 1) ~= "@" and not watched then os.remove(path) end
  end
  if code ~= 0 then misuse.raise "app:run: a worker has failed" end
  return true
end

return M
