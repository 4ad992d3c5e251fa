---@meta skynet.socketdriver
-- Definitions of `skynet.socketdriver` for the Lua language server. docs/build.lua generates
-- docs/api/skynet.socketdriver.md from them.

---Sockets whose events are messages of the protocol with `id = skynet.PTYPE_SOCKET`, which the program registers.
---`snax.gateserver` uses them. Each event is passed to the protocol's `unpack` and `dispatch`, in a separate task.
---@class skynet.socketdriver
local socketdriver = {}

---The type of an event. 1: data. 2: a listener is open, with its port and address, or a connect has succeeded. 3: the
---connection is closed; if the peer has closed it, the socket stays open for writing until `close`, or until a write
---fails. 4: a connection was accepted, with its socket and its address. 5: an error, with a message.
---6: a datagram. 7: the number of KiB that are waiting to be sent.
---@alias skynet.SocketEvent 1|2|3|4|5|6|7

---An entry of the list that `info` returns.
---@class skynet.SocketInfo
---@field id integer
---@field owner integer the service that owns the socket
---@field type string `"LISTEN"`, `"TCP"` or `"UDP"`
---@field name string its address
---@field write integer how many bytes were written
---@field wbuffer integer how many bytes are waiting to be sent

---Returns the values of an event. Only the protocol's `unpack` may call it.
---@param data string the first argument of `unpack`
---@return skynet.SocketEvent kind
---@return integer id the socket
---@return integer number the size of the data, or the number of the event: see `skynet.SocketEvent`
---@return string data bytes, address or message
---@return string? from for a datagram: the address of its sender
function socketdriver.unpack(data) end

---Starts reading from a connection, or accepting from a listener. A connection that another service has accepted moves
---to this service. A failure is an event. Ends a pause.
---@param id integer
function socketdriver.start(id) end

---Pauses reading from a connection of this service, until `start`. One event of data may still follow. The peer has to
---wait when the buffers of the system are full.
---@param id integer
function socketdriver.pause(id) end

---Opens a listener. Raises if that fails.
---@param host string numeric address or host name; or `"host:port"`
---@param port? integer 0: the system chooses a port
---@param backlog? integer
---@return integer id
---@return string address
---@return integer port
function socketdriver.listen(host, port, backlog) end

---Connects, and starts reading. Waits for the connection.
---@param host string or `"host:port"`
---@param port? integer
---@return integer? id
---@return string? message
function socketdriver.connect(host, port) end

---Takes over a descriptor of a connected socket, and starts reading.
---@param descriptor integer|lightuserdata
---@return integer? id
---@return string? message
function socketdriver.bind(descriptor) end

---Writes to a socket of any service. Does not wait.
---@param id integer
---@param data string|string[]|lightuserdata a packed message is freed
---@param size? integer the size of a packed message
---@return boolean ok false if there is no such socket
function socketdriver.send(id, data, size) end

---Like `send`, but the data is sent when no other data is queued.
---@param id integer
---@param data string|string[]|lightuserdata a packed message is freed
---@param size? integer the size of a packed message
---@return boolean ok false if there is no such socket
function socketdriver.lsend(id, data, size) end

---Closes a socket of any service, after the bytes that were written are sent. Does not wait.
---@param id integer
function socketdriver.close(id) end

---Closes a socket of any service at once. Bytes that are not sent yet are dropped.
---@param id integer
function socketdriver.shutdown(id) end

---Makes the system send small pieces of a connection of this service at once.
---@param id integer
function socketdriver.nodelay(id) end

---Opens a datagram socket. Its datagrams are events.
---@param host? string default: all addresses
---@param port? integer default: the system chooses a port
---@return integer? id
---@return string? message
function socketdriver.udp(host, port) end

---Sets the peer of a datagram socket, to which `send` sends.
---@param id integer
---@param host string
---@param port integer
---@return true? ok
---@return string? message
function socketdriver.udp_connect(id, host, port) end

---Sends a datagram through a socket of any service.
---@param id integer
---@param address string the address of a datagram's sender
---@param data string
---@return boolean ok false if there is no such socket
function socketdriver.udp_send(id, address, data) end

---Returns the parts of the address of a datagram's sender.
---@param address string
---@return string ip
---@return integer port
function socketdriver.udp_address(address) end

---Describes all sockets of the process.
---@return skynet.SocketInfo[] list
function socketdriver.info() end

return socketdriver
