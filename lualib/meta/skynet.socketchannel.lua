---@meta skynet.socketchannel
-- Definitions of `skynet.socketchannel` for the Lua language server. docs/build.lua generates
-- docs/api/skynet.socketchannel.md from them.

---Requests and their responses on one connection, which is opened when it is needed and opened again when it has ended.
---The responses come in the order of the requests, or, if the channel has the option `response`, each with the session
---of its request.
---@class skynet.socketchannel
---@field error table the error of requests whose connection has ended; compare it with `==`
local socketchannel = {}

---Reads one response without a session. Returns whether the request has succeeded, and the data, or the error. If the
---third result is true, the data is a part of the response, and the function is called again; the response is then the
---list of its parts.
---@alias skynet.ReadResponse fun(sock: skynet.ChannelSock): boolean, any, boolean?

---Reads one response of a channel with sessions. Returns the session of the request, and the results of a
---`skynet.ReadResponse`.
---@alias skynet.ReadSession fun(sock: skynet.ChannelSock): any, boolean, any, boolean?

---The options of a channel.
---@class skynet.ChannelOptions
---@field host string
---@field port? integer needed unless `host` is `"host:port"`
---@field backup? table further addresses: hosts, or tables with `host` and `port`
---@field auth? fun(channel: skynet.Channel) runs after each connect, and may use the channel
---@field response? skynet.ReadSession makes it a channel with sessions
---@field nodelay? boolean see `socketdriver.nodelay`
---@field overload? fun(is_overloaded: boolean) runs when a MiB or more is waiting to be sent, and when all is sent

---The object from which functions read a response. Its functions raise `socketchannel.error` if the connection has
---ended.
---@class skynet.ChannelSock
---@field read fun(sock: skynet.ChannelSock, size?: integer): string see `skynet.socket.read`
---@field readline fun(sock: skynet.ChannelSock, separator?: string): string see `skynet.socket.readline`

---Creates a channel. Does not connect.
---@param options skynet.ChannelOptions
---@return skynet.Channel channel
function socketchannel.channel(options) end

---A channel. The collector closes its connection.
---@class skynet.Channel
local Channel = {}

---Connects, unless the channel is connected. Raises `socketchannel.error` if the channel is closed meanwhile.
---@param once? boolean true: tries each address once, and raises if none connects; default: tries until one connects
---@return true
function Channel:connect(once) end

---Sends a request, and returns its response. Raises the error of the response, or `socketchannel.error` if the
---connection has ended.
---@param request string|string[]
---@param response? any the session; for a channel without sessions, a `skynet.ReadResponse`; nil: only sends
---@param padding? string[] strings that are sent after the request; other data may pass between them
---@return any data
function Channel:request(request, response, padding) end

---Waits for a response without a request: see `request`.
---@param response any
---@return any data
function Channel:response(response) end

---Closes the connection. Requests without a response fail. The channel connects again only after `connect`.
function Channel:close() end

---Sets the address for further connects. If the channel is connected, the connection is closed; the next request
---connects.
---@param host string
---@param port? integer default: unchanged
function Channel:changehost(host, port) end

---Sets the further addresses.
---@param list? table hosts, or tables with `host` and `port`; nil: none
function Channel:changebackup(list) end

return socketchannel
