-- Several workers for one app: `app:run(where, { workers = n })`. Called by web/listening.lua, and by web/worker.lua.
--
-- The VM that runs the program opens n listening sockets that share the address, and boots the scheduler with n
-- exclusive services, each with a loop (web/worker.lua). Each service runs the program again; the same call of `run`
-- then serves from the worker's socket. If sockets cannot share an address (unix), the workers accept from one socket.
-- Under `lio --watch` the previous program may have had more workers. All its sockets stay open, because closing a
-- socket would reset the clients in its queue; a worker may then have several sockets.
-- Invariant: a socket belongs to this VM until a worker takes it.

-- Under `lio --watch`, functions for the sockets of the previous program; otherwise false. `--watch` also removes the
-- file of a unix socket.
local supervisor <const> = require "lio.supervisor"

local misuse = require "lio.misuse"

local M = {}

-- How many calls of `run` with several workers this VM has made. The n-th call in a worker corresponds to the n-th call
-- in the VM that starts the workers.
local calls = 0

-- In a worker, its assignment: `index` (its number) and `count` (the number of workers); `grace` (seconds); `call`, the
-- number of the call of `run` to serve; `descriptor` (lightuserdata) of its socket; `shared`, whether all workers use
-- that socket; `other_descriptors`, a list of the descriptors of its further sockets; `sockets`, for each worker a list
-- of tables with `descriptor` and `identity`; `program`, see `find_program`.
M.assignment = nil

-- In a worker: its server, and lists of the listeners that it has opened for blocked workers, by worker number.
local server
local listeners_for = {}

-- In a worker ----------------------------------------------------------------------------------------------

-- `next_socket()` is called once by each call of `run` with several workers. Returns whether this VM is a worker, and
-- the socket to serve from; the socket is nil if the worker was started for another call.
function M.next_socket()
  local assignment = M.assignment
  if not assignment then return false end
  calls = calls + 1
  if calls ~= assignment.call then return true end
  return true, require("lio.socket").fd(assignment.descriptor, assignment.shared)
end

-- `serve_with(app_server)`: sets the worker's server, which then also accepts from the worker's other sockets.
function M.serve_with(app_server)
  server = app_server
  local net = require("lio.net").instance
  for _, descriptor in ipairs(M.assignment.other_descriptors) do
    server:accept_from(assert(net.listen(require("lio.socket").fd(descriptor), nil, { tls = server.tls })))
  end
end

-- Returns a listener on a copy of another worker's socket; nil if the socket is closed.
local function open_duplicate(socket)
  local duplicate = require("lio.socket")._duplicate(socket.descriptor, socket.identity)
  if not duplicate then return nil end
  local listener = require("lio.net").instance.listen(duplicate, nil, { tls = server.tls })
  if not listener then
    duplicate:close()
    return nil
  end
  listener.is_duplicate = true
  return listener
end

-- `accept_for(index, is_blocked)`: starts or stops accepting connections for worker `index`. While a worker is blocked,
-- the kernel continues to queue connections at the worker's sockets.
function M.accept_for(index, is_blocked)
  local listeners = listeners_for[index]
  if not is_blocked then
    listeners_for[index] = nil
    for _, listener in ipairs(listeners or {}) do listener:close() end
    return
  end
  if listeners or not (M.assignment and server) or server.stopping then return end
  listeners = {}
  for _, socket in ipairs(M.assignment.sockets[index] or {}) do
    local listener = socket.identity and open_duplicate(socket)
    if listener then
      listeners[#listeners + 1] = listener
      server:accept_from(listener)
    end
  end
  if listeners[1] then listeners_for[index] = listeners end
end

-- In the VM that starts the workers ------------------------------------------------------------------------

-- Opens `count` sockets that share an address; for a unix path, one socket for all workers. If the previous program had
-- more sockets, adds them. If `addr` is a socket, uses that socket. Returns a list of sockets; or nil and a message.
local function open_sockets(addr, port, opts, count)
  if type(addr) == "userdata" then return { addr } end
  local net, is_unix = require("lio.net").instance, addr:match "^unix:"
  local shared = setmetatable({ reuseport = true }, { __index = opts })
  local first, message = net.bind(addr, port, supervisor and not is_unix and shared or opts)
  if not first then return nil, message end
  if is_unix then return { first } end
  local _, chosen = first:info("socket"):value()
  local sockets = { first }
  if not supervisor then
    -- The port could be opened without `reuseport`, so no other process uses it, not even with `reuseport`.
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
    local kept = supervisor.request_socket(key)
    if not kept then break end
    sockets[#sockets + 1] = kept
  end
  return sockets
end

-- Returns the program that the workers run: the file `script`, or the embedded `module`; and its `args`, a list with
-- its length in `n`.
local function find_program(module, args)
  if module then return { module = module, args = args or {} } end
  local arg = rawget(_G, "arg")
  local script = arg and arg[0]
  if not (script and loadfile(script)) then
    misuse.raise "app:run: several workers run the program's file, but this program has no file"
  end
  return { script = script, args = table.pack(table.unpack(arg)) }
end

-- Returns the definitions of the worker services for `ltask.start`.
local function worker_services(sockets, count, program, grace)
  local source, chunkname = require("ltask.core").embedded_source "lio.web.worker"
  local services, sockets_of = {}, {}
  for index = 1, count do
    sockets_of[index] = {}
    services[index] = { name = "worker" .. index, source = source, chunkname = chunkname, args = { {
      index = index, count = count, call = calls, program = program, grace = grace,
      descriptor = (sockets[index] or sockets[1]):handle(), shared = #sockets == 1,
      other_descriptors = {}, sockets = sockets_of,
    } } }
  end
  if #sockets == 1 then return services end
  for i, s in ipairs(sockets) do
    local index, descriptor = (i - 1) % count + 1, s:detach()
    table.insert(sockets_of[index], {
      descriptor = descriptor, identity = require("lio.socket")._identity(descriptor),
    })
    if i > count then table.insert(services[index].args[1].other_descriptors, descriptor) end
  end
  return services
end

local function supervisor_service(count)
  local source, chunkname = require("ltask.core").embedded_source "lio.web.worker_supervisor"
  return { name = "worker_supervisor", source = source, chunkname = chunkname, args = { count } }
end

local function close_shared(socket, addr)
  socket:close()
  local path = type(addr) == "string" and addr:match "^unix:(.+)$"
  if path and path:sub(1, 1) ~= "@" and not supervisor then os.remove(path) end
end

-- `start(options)`: serves with `count` workers until they have ended. Returns true; or nil and a message if it cannot
-- listen. Options: `addr`, `port`, `listen` (options of `net.bind`), `count`, `module` and `args` of an embedded
-- program, `grace`, `watchdog` and `max_run_time` (seconds), `signals` (a list of the signals that the workers handle),
-- `on_listening(socket)`, which is called before the workers start.
function M.start(options)
  local program = find_program(options.module, options.args)
  local sockets, message = open_sockets(options.addr, options.port, options.listen, options.count)
  if not sockets then return nil, message end
  -- A signal that arrives before all workers run is also passed to the workers that start later.
  local _ <close> = assert(require("lio.signal").hold(table.unpack(options.signals)))
  options.on_listening(sockets[1])
  calls = calls + 1
  local folder = (program.script or ""):match "^(.*/)[^/]*$" or "./"
  local code = require "ltask.start" {
    service_path = folder .. "?.lua;./?.lua",
    lua_path = package.path,
    lua_cpath = package.cpath,
    grace = options.grace + 1,
    watchdog = options.watchdog,
    max_run_time = options.max_run_time,
    exclusive = worker_services(sockets, options.count, program, options.grace),
    bootstrap = { supervisor_service(options.count) },
  }
  if #sockets == 1 then close_shared(sockets[1], options.addr) end
  if code ~= 0 then misuse.raise "app:run: a worker has failed" end
  return true
end

return M
