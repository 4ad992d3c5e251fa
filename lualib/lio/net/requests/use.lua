-- Requests that use a handle, and `resolve`. Part of lio/net/requests. Results are those of the calls of `lio.net` with
-- the same names.

local M = {}

-- Calls whose failures are `nil, message, code`, by the kind of their handle.
local CALLS <const> = {
  connection = { "shutdown", "peer", "wait_readable", "wait_closed" },
  udp = { "recvfrom", "sendto" },
}

local function install_receiving(S, context)
  local net <const>, handles <const>, driver <const> = context.net, context.handles, context.driver
  local caller <const> = handles.caller

  -- `recv(h, …)`: like `net.recv`.
  function S.recv(handle, ...)
    local entry, message, code = handles:find("recv", handle, "connection", caller())
    if not entry then return nil, message, nil, code end
    return net.recv(entry.object, ...)
  end

  -- `remote_recv(h, unread, …)`: like `recv`, for `lio.net.remote`, which reads ahead. `unread`: bytes that
  -- `lio.net.remote` received earlier and has not used, or nil. The second result contains the bytes that are buffered
  -- after the first result, or is nil.
  function S.remote_recv(handle, unread, ...)
    local entry, message, code = handles:find("recv", handle, "connection", caller())
    if not entry then return nil, message, unread, code end
    local c = entry.object
    if unread then c:unread(unread) end
    local value, partial
    value, message, partial, code = net.recv(c, ...)
    if value == nil then return nil, message, partial, code end
    return value, not c:is_closed() and c:buffered() > 0 and c:try_recv() or nil
  end

  -- `stop_remote_recv(h)`: ends the caller's waiting `remote_recv` with "timeout". The received bytes stay buffered.
  function S.stop_remote_recv(handle)
    local entry = handles:find("recv", handle, "connection", caller())
    return entry ~= nil and driver:wake_reader(entry.object, "timeout")
  end

  -- `buffered(h)`, `is_over(h)`: like the methods of a connection. For a closed connection, they return 0 and true.
  function S.buffered(handle)
    local entry = handles:find("buffered", handle, "connection", caller())
    return entry and entry.object:buffered() or 0
  end

  function S.is_over(handle)
    local entry = handles:find("is_over", handle, "connection", caller())
    return not entry or entry.object:is_over()
  end
end

local function install_sending(S, context)
  local net <const>, handles <const> = context.net, context.handles
  local caller <const> = handles.caller

  -- `send(h, data, …)`: like `net.send`.
  function S.send(handle, ...)
    local entry, message, code = handles:find("send", handle, "connection", caller())
    if not entry then return nil, message, 0, code end
    return net.send(entry.object, ...)
  end

  -- `remote_send(h, …)`: like `send`, for `lio.net.remote`. On success, returns true and the id of the connection's
  -- shared writer.
  function S.remote_send(handle, ...)
    local entry, message, code = handles:find("send", handle, "connection", caller())
    if not entry then return nil, message, 0, code end
    local c = entry.object
    local done, sent
    done, message, sent, code = net.send(c, ...)
    if not done then return nil, message, sent, code end
    return true, c:shared_writer()
  end

  -- `sendfile(h, path [, offset [, length]])`: like `net.sendfile`.
  function S.sendfile(handle, ...)
    local entry, message, code = handles:find("sendfile", handle, "connection", caller())
    if not entry then return nil, message, 0, code end
    return net.sendfile(entry.object, ...)
  end
end

local function install_settings(S, context)
  local net <const>, handles <const> = context.net, context.handles
  local caller <const> = handles.caller

  -- `timeout(h, read_seconds, write_seconds)`, `option(h, name [, value])`: as in `lio.net`.
  function S.timeout(handle, ...)
    local entry, message, code = handles:find("timeout", handle, nil, caller())
    if not entry then return nil, message, code end
    if entry.kind == "listener" then entry.accept_limit = (...) end
    return net.timeout(entry.object, ...)
  end

  function S.option(handle, ...)
    local entry, message, code = handles:find("option", handle, nil, caller())
    if not entry then return nil, message, code end
    return net.option(entry.object, ...)
  end

  -- `sock(h)` returns the ip, the port and the family of the socket's local address. Any service may call `sock` for
  -- any handle.
  function S.sock(handle)
    local entry, message, code = handles:find("sock", handle)
    if not entry then return nil, message, code end
    if entry.kind == "connection" then return net.sock(entry.object) end
    return entry.object:address()
  end

  -- `close(h)` closes a handle and its object, and returns true. Idempotent. Requests that wait on the handle end with
  -- "closed".
  function S.close(handle)
    local entry, message, code = handles:find("close", handle, nil, caller())
    if entry then
      handles.close(entry)
      return true
    end
    if code == "closed" then return true end
    return nil, message, code
  end
end

local function install_tls(S, context)
  local net <const>, handles <const> = context.net, context.handles
  local caller <const> = handles.caller

  -- `remote_start_tls(h, unread, settings, opts)`: like `net.start_tls`, for `lio.net.remote`. `unread`: bytes that
  -- `lio.net.remote` has read ahead, or nil. On failure, the fourth result is whether the connection is closed.
  function S.remote_start_tls(handle, unread, settings, opts)
    local entry, message, code = handles:find("start_tls", handle, "connection", caller())
    if not entry then return nil, message, code, code == "closed" end
    local c = entry.object
    if unread then c:unread(unread) end
    local ok
    ok, message, code = net.start_tls(c, settings, opts)
    if ok then return true end
    if c:is_closed() then handles.close(entry) end
    return nil, message, code, c:is_closed()
  end

  -- `tls(h)`, `reload_tls(h)`: like the methods of a connection and of a listener.
  function S.tls(handle)
    local entry = handles:find("tls", handle, "connection", caller())
    return entry and entry.object:tls()
  end

  function S.reload_tls(handle)
    local entry, message, code = handles:find("reload_tls", handle, "listener", caller())
    if not entry then return nil, message, code end
    return entry.object:reload_tls()
  end
end

-- `install(S, context)`: adds the requests of this file to `S`.
function M.install(S, context)
  local net <const>, handles <const> = context.net, context.handles
  install_receiving(S, context)
  install_sending(S, context)
  install_settings(S, context)
  install_tls(S, context)
  for kind, names in pairs(CALLS) do
    for _, name in ipairs(names) do
      S[name] = function(handle, ...)
        local entry, message, code = handles:find(name, handle, kind, handles.caller())
        if not entry then return nil, message, code end
        return net[name](entry.object, ...)
      end
    end
  end

  -- `resolve(name [, seconds])`: like `net.resolve`.
  function S.resolve(...)
    return net.resolve(...)
  end
end

return M
