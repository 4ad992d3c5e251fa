---@meta lio.websocket
-- Definitions of `lio.websocket` for the Lua language server. docs/build.lua generates docs/api/lio.websocket.md from
-- them.

---WebSocket connections (RFC 6455) with compression of messages (RFC 7692): clients, and messages to many connections.
---`app:ws` of `lio.webserver` accepts connections. A failure outside of the program is returned as `nil, message,
---code`; misuse raises. The guide is `docs/websocket.md`.
---@class lio.websocket
local websocket = {}

---The type of a message: text is UTF-8.
---@alias lio.MessageKind "text"|"binary"

---Options of servers and clients. Times are in seconds, above 0.
---@class lio.WebSocketShared
---@field max_message? integer maximum bytes of a received message, decompressed, at least 1; default 1 MiB
---@field max_frame? integer maximum bytes of a received frame, at least 1; default: `max_message`
---@field max_ratio? integer maximum ratio of a decompressed message to its bytes, 1 to 2^32 - 1; default `200`
---@field max_rate? number received messages and pings a second, above 0; at once, twice as many; default: unlimited
---@field compress? boolean|"context" `"context"`: messages refer to earlier ones; default true
---@field compress_from? integer minimum bytes of a message that is compressed, 0 or more; default `256`
---@field ping? number|false time between checks; a peer that was silent gets a ping; false: no pings; default `30`
---@field timeout? number time that a silent peer has after a ping before the connection ends; default `30`

---@class lio.WebSocketConnectOptions: lio.WebSocketShared
---@field protocols? string[] the subprotocols to offer, the best first
---@field headers? table<string, string> further fields of the request
---@field origin? string the value of `Origin`; default: no such field
---@field connect_timeout? number seconds for connecting and for the handshake; default `10`
---@field tls? table|boolean options of TLS for `wss` URLs, as for `net.connect`
---@field proxy? string URL of an HTTP proxy, as for `lio.http.client`
---@field socket? string path of a unix socket to connect to

---Connects to a WebSocket server. The codes of failures are those of `net.connect`, `"timeout"`, `"closed"`, `"tls"`,
---`"protocol"` (the response is not a valid handshake) and `"refused"` (the server refuses the connection, for example
---with 403). Raises for an invalid URL, and for an unknown or invalid option.
---@param url string `ws://[user:password@]host[:port]/path?query`, or `wss://…`
---@param opts? lio.WebSocketConnectOptions
---@return lio.WebSocket? ws
---@return string? message
---@return string? code
---@return_overload lio.WebSocket
---@return_overload nil, string, string
function websocket.connect(url, opts) end

---@class lio.BroadcastOptions
---@field kind? lio.MessageKind default `"text"`
---@field limit? integer queued bytes, 0 or more, above which a connection does not get the message; default 1 MiB
---@field slow? "drop"|"close" what happens to such a connection: it misses the message, or is aborted; default `"drop"`

---Sends a message to a list of connections, without waiting. The frame is encoded once and compressed once.
---@param list lio.WebSocket[]
---@param message string must be UTF-8 if the kind is `"text"`
---@param opts? lio.BroadcastOptions
---@return integer accepted number of connections that have accepted the message
---@return lio.WebSocket[]? missed those that have not: their queues are full, or they have ended; nil if there are none
function websocket.broadcast(list, message, opts) end

---Creates a topic without connections.
---@param opts? lio.BroadcastOptions for each `send`
---@return lio.Topic topic
function websocket.topic(opts) end

---A set of connections that get the same messages. A connection that ends leaves its topics.
---@class lio.Topic
local Topic = {}

---Adds a connection.
---@param ws lio.WebSocket
---@return boolean added false if the topic had the connection, or if the connection has ended
function Topic:add(ws) end

---Removes a connection.
---@param ws lio.WebSocket
---@return boolean removed false if the topic does not have the connection
function Topic:remove(ws) end

---Sends a message to all connections of the topic, without waiting.
---@param message string must be UTF-8 if the kind is `"text"`
---@param kind? lio.MessageKind default: the option of the topic
---@return integer accepted number of connections that have accepted the message
---@return lio.WebSocket[]? missed those that have not; nil if there are none
function Topic:send(message, kind) end

---Returns the number of connections.
---@return integer count
function Topic:count() end

---Returns the connections.
---@return lio.WebSocket[] list a new list, in no particular order
function Topic:members() end

---A WebSocket connection. A variable `<close>` closes it with the code 1000.
---@class lio.WebSocket
---@field protocol? string the subprotocol that both sides have agreed on
---@field is_compressed boolean whether both sides have agreed on compression
---@field code? integer the code of the end (RFC 6455 section 7.4), once the connection has ended; 1006: no close frame
---@field reason? string the text of the close frame, or a description of the failure
local WebSocket = {}

---`for message, kind in ws:messages() do`: iterates over the messages until the connection ends. Then `ws.code` and
---`ws.reason` are set. Only one task may receive.
---@return fun(c: lio.Connection): string?, lio.MessageKind? iterator
---@return lio.Connection connection for the iterator
function WebSocket:messages() end

---Receives a message.
---@param seconds? number maximum wait; default: no timeout
---@return string? message
---@return lio.MessageKind|string? kind on failure `"closed"` or `"timeout"`
---@return string? code
---@return_overload string, lio.MessageKind
---@return_overload nil, string, string
function WebSocket:receive(seconds) end

---Sends a message. Waits while more than 64 KiB are queued for the peer. Raises if a text is not UTF-8.
---@param message string
---@param kind? lio.MessageKind default `"text"`
---@return true? ok
---@return string? message
---@return string? code `"closed"` if the connection has ended or is closing; or a code of `lio.net`
function WebSocket:send(message, kind) end

---Sends a message, or queues it, without waiting. Raises if a text is not UTF-8.
---@param message string
---@param kind? lio.MessageKind default `"text"`
---@param limit? integer queued bytes, 0 or more, above which the message is not sent; default 1 MiB
---@return boolean? ok false if too many bytes are queued
---@return string? message `"full"` if too many bytes are queued
---@return string? code
function WebSocket:try_send(message, kind, limit) end

---Sends a ping. The connection sends pings by itself; see the option `ping`.
---@param payload? string at most 125 bytes; default `""`
---@return true? ok
---@return string? message
---@return string? code
function WebSocket:ping(payload) end

---Returns how many bytes the system has not accepted yet.
---@return integer bytes
function WebSocket:queued() end

---Ends the connection: sends a close frame, and waits at most 5 seconds for that of the peer. Messages that arrive
---meanwhile are discarded, unless another task receives them. Outside of a task, does not wait. Idempotent.
---@param code? integer 1000 to 1003, 1007 to 1014 or 3000 to 4999; default `1000`
---@param reason? string a text of at most 123 bytes; default `""`
---@return true ok
function WebSocket:close(code, reason) end

---Closes the connection at once, without a close frame. Idempotent.
---@return true ok
function WebSocket:abort() end

---Returns whether the connection has ended.
---@return boolean closed
function WebSocket:is_closed() end

---Sends a ping, or ends the connection of a silent peer, when the timer fires.
---@private
function WebSocket:expired() end

return websocket
