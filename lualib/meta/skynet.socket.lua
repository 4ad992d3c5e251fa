---@meta skynet.socket
-- Definitions of `skynet.socket` for the Lua language server. docs/build.lua generates docs/api/skynet.socket.md from
-- them.

---Skynet's sockets for coroutines, on `lio.net`. docs/skynet-network.md lists the differences from skynet. The id of a
---socket is valid in the whole process. A call that needs a started socket of this service raises if there is none.
---@class skynet.socket
local socket = {}

---An entry of the list that `netstat` returns.
---@class skynet.SocketState
---@field id integer
---@field address string the service that owns the socket, such as `":0000000a"`
---@field type string `"LISTEN"`, `"TCP"` or `"UDP"`
---@field name string its address
---@field write integer how many bytes were written
---@field wbuffer integer how many bytes are waiting to be sent

-- Opening

---Opens a listener, which accepts after `start`. Raises if that fails.
---@param host string numeric address or host name; or `"host:port"`
---@param port? integer 0: the system chooses a port
---@param backlog? integer
---@return integer id
---@return string address
---@return integer port
function socket.listen(host, port, backlog) end

---Connects. The socket is started.
---@param host string or `"host:port"`
---@param port? integer
---@return integer? id
---@return string? message
function socket.open(host, port) end

---Takes over a descriptor of a connected socket. The socket is started.
---@param descriptor integer|lightuserdata
---@return integer? id
---@return string? message
function socket.bind(descriptor) end

---Takes over the standard input: a socket, a pipe, a terminal or a file.
---@return integer? id
---@return string? message
function socket.stdin() end

---Starts using a socket. A connection that another service has accepted moves to this service, with its unread bytes.
---@param id integer
---@param f? fun(id: integer, address: string) for a listener: runs as a task for each connection
---@return integer? id
---@return string? message
function socket.start(id, f) end

-- Reading

---Reads `size` bytes. Waits for them.
---@param id integer
---@param size? integer default: the bytes that are available, at least one
---@return string|false data false if the connection has ended before
---@return string? partial the bytes that have arrived before the end
function socket.read(id, size) end

---Reads the bytes before the separator, which is removed. Waits for them.
---@param id integer
---@param separator? string default: a newline
---@return string|false data false if the connection has ended before
---@return string? partial the bytes that have arrived before the end
function socket.readline(id, separator) end

---Waits for the end of the connection, and returns the remaining bytes.
---@param id integer
---@return string|false data false if the end was found before and no bytes are left
---@return string? partial the empty string
function socket.readall(id) end

---Waits until there is something to read.
---@param id integer
---@return boolean ok false if the connection has ended
function socket.block(id) end

---Returns the integer in one to four bytes, most significant byte first.
---@param bytes string
---@return integer number
function socket.header(bytes) end

-- Writing

---Writes to a socket of any service. Does not wait: bytes that the system does not accept at once are queued.
---@param id integer
---@param data string|string[]|lightuserdata a packed message is freed
---@param size? integer the size of a packed message
---@return boolean ok false if there is no such socket
function socket.write(id, data, size) end

---Like `write`, but the data is sent when no other data is queued.
---@param id integer
---@param data string|string[]|lightuserdata a packed message is freed
---@param size? integer the size of a packed message
---@return boolean ok false if there is no such socket
function socket.lwrite(id, data, size) end

---Sets the function that runs when a MiB or more is waiting to be sent, each time when that has doubled, and with 0
---when all is sent.
---@param id integer
---@param f? fun(id: integer, kibibytes: integer)
function socket.warning(id, f) end

-- Closing

---Closes a socket of this service, after the bytes that were written are sent. Does not wait. A coroutine that reads
---from the socket gets false. Does nothing if this service has not started such a socket.
---@param id integer
function socket.close(id) end

---Closes a socket that this service has not started, for example one of another service. Raises for a started one.
---@param id integer
function socket.close_fd(id) end

---Closes a socket of any service at once. Bytes that are not sent yet are dropped.
---@param id integer
function socket.shutdown(id) end

---Ends the use of a socket in this service, and leaves it open for the `start` of another service.
---@param id integer
function socket.abandon(id) end

---Makes `f(id)` run, once, when the peer or this side ends the connection.
---@param id integer
---@param f fun(id: integer)
function socket.onclose(id, f) end

-- State

---Returns whether this service has no such started socket.
---@param id integer
---@return boolean
function socket.invalid(id) end

---Returns whether this service has started such a socket and its peer has ended the connection.
---@param id integer
---@return boolean
function socket.disconnected(id) end

---Limits the bytes that one read may have to collect. A longer line, block or `readall` closes the socket.
---@param id integer
---@param bytes integer 1 or more
function socket.limit(id, bytes) end

---Does nothing, because a socket is only read from when the program reads.
---@param id integer
function socket.pause(id) end

---Describes all sockets of the process.
---@return skynet.SocketState[] list
function socket.netstat() end

---Returns the addresses of a host. Waits for them. Raises if there is none.
---@param host string
---@return string[] list
function socket.resolve(host) end

-- Datagrams

---Opens a datagram socket. Raises if that fails.
---@param f fun(data: string, address: string) runs as a task for each datagram
---@param host? string default: all addresses
---@param port? integer default: the system chooses a port
---@return integer id
function socket.udp(f, host, port) end

---The same as `udp(f, host, port)`.
---@param host? string
---@param port? integer
---@param f fun(data: string, address: string)
---@return integer id
function socket.udp_listen(host, port, f) end

---Sets the peer of a datagram socket, to which `write` sends. Raises if the host is not found.
---@param id integer
---@param host string
---@param port integer
---@param f? fun(data: string, address: string) runs for each datagram from now on; default: unchanged
function socket.udp_connect(id, host, port, f) end

---Opens a datagram socket with a peer. Raises if that fails.
---@param host string
---@param port integer
---@param f fun(data: string, address: string) runs as a task for each datagram
---@return integer id
function socket.udp_dial(host, port, f) end

---Sends a datagram through a socket of any service.
---@param id integer
---@param address string the address of a datagram's sender, which a function of `udp` has got
---@param data string
---@return boolean ok false if there is no such socket
function socket.sendto(id, address, data) end

---Returns the parts of the address of a datagram's sender.
---@param address string
---@return string ip
---@return integer port
function socket.udp_address(address) end

return socket
