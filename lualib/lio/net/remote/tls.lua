-- TLS of the connections of `lio.net.remote`. The service that owns the loop encrypts and decrypts. The options of TLS
-- are sent to it as tables, so the objects of `tls.server` and `tls.client` cannot be used.

local ask <const> = require("lio.net.remote.request").ask
local misuse = require "lio.misuse"

local sub <const> = string.sub

local M = {}

local SERVER <const>, CLIENT <const> = { ["lio.tls.server"] = true }, { ["lio.tls.client"] = true }

-- `check(what, settings)` raises if the settings are an object. `what` begins the message.
function M.check(what, settings)
  local name = misuse.is_named(settings, SERVER) and "tls.server" or misuse.is_named(settings, CLIENT) and "tls.client"
  if not name then return end
  misuse.raise(("%s: in net.remote, the options of %s are needed as a table, because its result cannot be sent to the "
    .. "service with the loop"):format(what, name))
end

-- `start_tls(c, settings, opts)`: like `net.start_tls`. From now on, `c` must not send through its shared writer, which
-- does not encrypt.
function M.start_tls(c, settings, opts)
  M.check("net.start_tls: argument 'settings'", settings)
  if c.reading or c.sending then misuse.raise "net.start_tls: another task uses the connection" end
  local unread = c.ahead and sub(c.ahead, c.ahead_at)
  c.writer, c.ahead = false, nil
  local ok, message, code, is_closed = ask(c, "remote_start_tls", unread, settings, opts)
  if ok then return true end
  if is_closed then c:close() end
  return nil, message, code
end

return M
