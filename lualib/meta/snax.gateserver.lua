---@meta snax.gateserver
-- Definitions of `snax.gateserver` for the Lua language server. docs/build.lua generates docs/api/snax.gateserver.md
-- from them.

---The framework of a gate: a service that accepts connections and receives messages with a length of two bytes before
---them. Other services open it with `skynet.call(gate, "lua", "open", conf)`, and close its listener with `"close"`.
---@class snax.gateserver
local gateserver = {}

---The functions of a gate. Only `connect` and `message` are needed.
---@class snax.GateHandler
---@field connect fun(fd: integer, address: string) a client has connected; it is ignored until `openclient(fd)`
---@field message fun(fd: integer, message: string, size: integer) a message has arrived; the handler owns it
---@field disconnect? fun(fd: integer) the client has closed its half; the connection is open until `closeclient`
---@field error? fun(fd: integer, problem: string) the connection has failed
---@field warning? fun(fd: integer, kibibytes: integer) that much is waiting to be sent; 0: all is sent
---@field open? fun(source: integer, conf: snax.GateConf): any, ... answers the command "open"
---@field command? fun(command: string, source: integer, ...: any): any, ... answers every other command
---@field embed? boolean true: `start` does not call `skynet.start`, because the program does

---The argument of the command "open". Afterwards `address` and `port` are those of the listener.
---@class snax.GateConf
---@field port integer 0: a port that the system chooses
---@field address? string default `"0.0.0.0"`
---@field maxclient? integer default 1024; further clients are closed
---@field nodelay? boolean see `socketdriver.nodelay`
---@field watchdog? integer for the service `gate`: the service that gets the events; default: the caller
---@field servername? string for `snax.msgserver`: the argument of `register_handler`

---Makes this service a gate.
---@param handler snax.GateHandler
function gateserver.start(handler) end

---Starts receiving from a connection.
---@param fd integer
function gateserver.openclient(fd) end

---Closes a connection after the bytes that were written are sent.
---@param fd integer
function gateserver.closeclient(fd) end

return gateserver
