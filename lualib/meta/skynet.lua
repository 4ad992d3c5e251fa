---@meta skynet
-- More than 400 lines: one file, because it defines one table.
-- Definitions of `skynet` for the Lua language server. docs/build.lua generates docs/api/skynet.md from them.

---The skynet compatibility API on the bundled scheduler. docs/skynet.md is the manual and lists the differences from
---skynet. Times are in centiseconds.
---@class skynet
---@field PTYPE_TEXT integer 0
---@field PTYPE_RESPONSE integer 1
---@field PTYPE_MULTICAST integer 2
---@field PTYPE_CLIENT integer 3
---@field PTYPE_SYSTEM integer 4
---@field PTYPE_HARBOR integer 5
---@field PTYPE_SOCKET integer 6
---@field PTYPE_ERROR integer 7
---@field PTYPE_QUEUE integer 8
---@field PTYPE_DEBUG integer 9
---@field PTYPE_LUA integer 10, the number of the protocol `"lua"`
---@field PTYPE_SNAX integer 11
---@field PTYPE_TRACE integer 12
local skynet = {}

---A service: its number, the number as text (`":0000000a"`), or its name.
---@alias skynet.Address integer|string

---A kind of message.
---@class skynet.Protocol
---@field name string the protocol's name; a service that does not use this API gets it as the name of the request
---@field id integer 0 to 255
---@field pack? fun(...: any): string|lightuserdata, integer? packs the values; without it `call` and `send` raise
---@field unpack? fun(msg: string, sz: integer): any returns the values; without it messages cannot be handled
---@field dispatch? fun(session: integer, address: integer, ...: any) handles a message

---Answers a request, once: with true and values, or with false for an error. Returns whether the answer was accepted.
---With `"TEST"`, returns whether an answer is still expected.
---@alias skynet.Answer fun(ok: boolean|"TEST", ...: any): boolean

-- Services

---Makes this a skynet service, and runs its start function when its file has run. In a service that was not created by
---`newservice` or `skynet.start`, and in a script under `lio --service`, the start function runs at once. A second call
---raises.
---@param f fun() the start function; may wait; the creator of the service waits until it has ended
function skynet.start(f) end

---Adds a function that runs before the start function. If the start function has begun, runs `f` at once.
---@param f fun()
function skynet.init(f) end

---Runs the functions of `init`, then `f`, and catches errors.
---@param f function
---@param ... any the arguments of `f`
---@return boolean ok
---@return any ... the results of `f`, or the error with a traceback
function skynet.pcall(f, ...) end

---Ends this service; does not return. Its coroutines are closed. Services that wait for its answer receive an error.
function skynet.exit() end

---Ends another service.
---@param addr skynet.Address
---@return boolean found
function skynet.kill(addr) end

---Ends the system.
function skynet.abort() end

---Creates a service and waits until its start function has returned. Raises if the start function raises, or if there
---is no such file.
---@param name string a file of the service path; a dot separates folders
---@param ... any the arguments of the file; they keep their types
---@return integer addr
function skynet.newservice(name, ...) end

---Finds the unique service with this name, or creates it as `newservice` does.
---@param name string
---@param ... any the arguments of the file, if the service is created
---@return integer addr
function skynet.uniqueservice(name, ...) end

---Finds the unique service with this name. Waits until the service exists.
---@param name string
---@return integer addr
function skynet.queryservice(name) end

---Finds a service by a name that `name` or `register` has set.
---@param name string
---@return integer? addr nil if no service has the name
function skynet.localname(name) end

---Gives a service a name, which it keeps until it ends. Raises if another service has the name, or there is no such
---service.
---@param name string may begin with a dot; not a number
---@param addr skynet.Address
function skynet.name(name, addr) end

---Gives this service a name, which it keeps until it ends. Raises if another service has the name.
---@param name string may begin with a dot; not a number
function skynet.register(name) end

---Returns the address of this service.
---@return integer addr
function skynet.self() end

---Formats an address.
---@param addr skynet.Address
---@return string text `":%08x"` for an integer; otherwise the result of `tostring`
function skynet.address(addr) end

---Returns a value of the configuration, or a value that `setenv` has set.
---@param key string
---@return string? value
function skynet.getenv(key) end

---Sets a value for all services. Raises if the key already has a value.
---@param key string
---@param value any converted to a string
function skynet.setenv(key, value) end

-- Messages

---Registers a protocol in this service. Raises if its name or number is taken.
---@param class skynet.Protocol
function skynet.register_protocol(class) end

---Sets the function that handles messages of a protocol.
---@param typename string|integer
---@param f? fun(session: integer, address: integer, ...: any) session 0: no answer is expected; default: no change
---@return function? before the previous function
function skynet.dispatch(typename, f) end

---Sends a request to a service and waits for the answer. Raises the error of the request, or `{service:N} is dead`.
---Also raises if no service has the name.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param ... any
---@return any ...
function skynet.call(addr, typename, ...) end

---Sends a message that gets no answer. Waits only while the receiver's mailbox is full.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param ... any
---@return boolean taken false if there is no such service
---@return string? message
function skynet.send(addr, typename, ...) end

---Several concurrent calls, whose answers are returned as they arrive. `r{ addr, "lua", … }` is `r:add{ … }`.
---@class skynet.Request
---@field timeout? boolean true if the time of `select` passed before all answers arrived
---@overload fun(one: table): skynet.Request
local Request = {}

---Adds a call. Raises after `select`.
---@param one table `{ address, protocol, … }`, and optional fields for the program
---@return skynet.Request self
function Request:add(one) end

---Sends the calls and iterates over their answers as they arrive: `for one, answer in r:select() do`. `one` is the
---table that was added; `answer` is the list of values, or false if the call failed. The loop ends when all answers
---have arrived, or when the time has passed; answers that arrive after the loop are discarded. A second call raises.
---@param centiseconds? number default: no limit
---@return fun(): table?, table|false|nil
function Request:select(centiseconds) end

---Discards the answers that have not arrived. The end of the loop and `<close>` do the same.
function Request:close() end

---Creates an object for several concurrent calls.
---@param one? table a first call, as for `add`
---@return skynet.Request r
function skynet.request(one) end

---Makes several concurrent calls and iterates over their answers: `skynet.request` and `select` in one step.
---@param list table[]|skynet.Request the calls, each as for `add`
---@param centiseconds? number default: no limit
---@return fun(): table?, table|false|nil
function skynet.select(list, centiseconds) end

---Sends a request with a packed message and waits for the answer. Raises as `call` does.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param msg string|lightuserdata the message takes ownership of it
---@param sz? integer not for a string
---@return string msg for `unpack`
---@return integer sz
function skynet.rawcall(addr, typename, msg, sz) end

---Sends a message in the name of another service: the handler gets that source and that session. An answer goes
---nowhere.
---@param addr skynet.Address
---@param source skynet.Address
---@param typename string|integer the protocol
---@param session integer
---@param msg string|lightuserdata the message takes ownership of it
---@param sz? integer not for a string
---@return boolean taken
---@return string? message
function skynet.redirect(addr, source, typename, session, msg, sz) end

---Sends a packed message that gets no answer.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param msg string|lightuserdata the message takes ownership of it
---@param sz? integer not for a string
---@return boolean taken
---@return string? message
function skynet.rawsend(addr, typename, msg, sz) end

---Answers the request that this coroutine handles. Raises if the coroutine does not handle a request, or if the request
---has already been answered.
---@param msg? string|lightuserdata the result of `pack` or `packstring`, which the answer then owns; nil: no values
---@param sz? integer not for a string
---@return boolean taken false if no answer is expected, or the sender is dead
function skynet.ret(msg, sz) end

---Answers with values: `ret(pack(…))`.
---@param ... any
---@return boolean taken
function skynet.retpack(...) end

---Returns a function that answers the request later, from any coroutine of this service. Raises as `ret` does.
---@param packer? fun(...: any): string|lightuserdata, integer? default: the `pack` of the protocol
---@return skynet.Answer answer
function skynet.response(packer) end

---Leaves the request that this coroutine handles unanswered, without an entry in the log.
function skynet.ignoreret() end

---Returns the session and the sender of the request that this coroutine handles; nothing if this coroutine does not
---handle a request.
---@return integer? session 0 if no answer is expected
---@return integer? address
function skynet.context() end

---Packs values; see `ltask.pack`.
---@param ... any
---@return lightuserdata msg the caller owns it, and sends it or frees it with `trash`
---@return integer sz
function skynet.pack(...) end

---Unpacks values without freeing the message. A string must have been packed by this process: another string
---raises, or yields values that were never packed.
---@param msg? string|lightuserdata
---@param sz? integer not for a string
---@return any ...
function skynet.unpack(msg, sz) end

---Packs values into a string, which has the bytes that `pack` writes and is valid only in this process.
---@param ... any
---@return string text
function skynet.packstring(...) end

---Converts a message to a string for `unpack`: a string is unchanged, a pointer becomes its bytes, nil becomes `""`.
---Does not free the message.
---@param msg any
---@param sz? integer
---@return string text
function skynet.tostring(msg, sz) end

---Frees a message that was not sent.
---@param msg? string|lightuserdata
---@param sz? integer
function skynet.trash(msg, sz) end

-- Coroutines

---Creates a coroutine. It runs after the running coroutine suspends, after the coroutines that were woken, and after
---the coroutines that were forked earlier.
---@param f function
---@param ... any the arguments of `f`
---@return thread co
function skynet.fork(f, ...) end

---Suspends the running coroutine until the time has passed or another coroutine calls `wakeup` with the token. Raises
---if a coroutine already sleeps or waits on the token.
---@param centiseconds number rounded up; 0: only until the messages that have arrived are handled
---@param token? any default: the running coroutine
---@return "BREAK"? broken if it was woken
function skynet.sleep(centiseconds, token) end

---Suspends the running coroutine until the messages that have already arrived are handled: `sleep(0)`.
---@return "BREAK"? broken
function skynet.yield() end

---Suspends the running coroutine until another coroutine calls `wakeup` with the token. Raises if a coroutine already
---sleeps or waits on the token.
---@param token? any default: the running coroutine
function skynet.wait(token) end

---Wakes the coroutine that sleeps or waits on the token. The woken coroutines run after the running coroutine suspends,
---in the order of the wakeups.
---@param token any
---@return true? woken nothing if no coroutine sleeps or waits on the token
function skynet.wakeup(token) end

---Runs a function in a new coroutine when the time has passed.
---@param centiseconds number rounded up
---@param f fun()
---@return thread co for `killthread`
function skynet.timeout(centiseconds, f) end

---Sets whether `task` reports where the coroutines of `timeout` were created.
---@param on? boolean
function skynet.trace_timeout(on) end

---Reports on the waiting coroutines. Without an argument, returns their number. With a table, adds their tracebacks
---under keys such as `"thread: 0x… session: 7"`. With a session, returns the traceback of its coroutine, or
---`"No session"`. With a coroutine, returns its session. With `"init"`, returns the traceback of the start function
---while it runs.
---@param what? table|integer|thread|"init"
---@return any result
function skynet.task(what) end

---Returns the different tracebacks of the waiting coroutines.
---@return table<string, string> tracebacks each key contains the number of coroutines and their sessions
function skynet.uniqtask() end

---Closes a coroutine of this service. If it handles a request, the sender receives an error.
---@param which thread|integer|string the coroutine, its session, or a part of its name
---@return thread? co nil if there is no such coroutine, or if it is running
function skynet.killthread(which) end

---Makes all calls that wait for an answer from a service raise. This service's answers to that service are discarded.
---@param addr skynet.Address
function skynet.term(addr) end

---A function that receives session, address, message, size and protocol. The message is freed afterwards.
---@alias skynet.Unknown fun(session: integer, address: integer, msg: string|lightuserdata, sz: integer, name: string)

---Sets the function that is called for a message without a handler, if no answer is expected.
---@param f skynet.Unknown
---@return function before the previous function
function skynet.dispatch_unknown_request(f) end

---Sets the function that is called for an answer to a session that this service has never used.
---@param f fun(session: integer, address: integer, msg: lightuserdata, sz: integer) the message is freed afterwards
---@return function before the previous function
function skynet.dispatch_unknown_response(f) end

-- Statistics

---Returns a statistic of this service: `"mqlen"` unread messages; `"message"` read messages; `"cpu"` how long it has
---run, in seconds; `"time"` the duration of its current slice in seconds; `"endless"` 1 if `endless` is true, otherwise
---0.
---@param what string
---@return number? figure nil for another name
function skynet.stat(what) end

---Returns the number of unread messages.
---@return integer count
function skynet.mqlen() end

---Reports whether the watchdog has reported an endless loop of this service since the last call.
---@return boolean endless
function skynet.endless() end

---Limits the memory of this service's VM. Above the limit, Lua raises `not enough memory`.
---@param bytes integer 0 or more; 0: no limit
function skynet.memlimit(bytes) end

---Sets the function that answers the debug command `INFO`.
---@param f fun(...: any): any
function skynet.info_func(f) end

-- Time, log, traces

---Returns the time since `starttime`.
---@return integer centiseconds
function skynet.now() end

---Returns the time at which the process began, rounded down to seconds.
---@return integer seconds since the Unix epoch
function skynet.starttime() end

---Returns the current time.
---@return number seconds since the Unix epoch, with a resolution of one centisecond
function skynet.time() end

---Reads a monotonic clock (clock_gettime(2)). Only the difference between two readings is meaningful.
---@return integer nanoseconds
function skynet.hpc() end

---Returns a number that this call has not returned before in this service.
---@return integer id
function skynet.genid() end

---Adds a line to the log: the values, separated by spaces.
---@param ... any
function skynet.error(...) end

---From now on, writes a trace of this coroutine and of its calls to the log.
---@param info? any added to the first line
function skynet.trace(info) end

---Sets which messages of a protocol are traced.
---@param typename string|integer the protocol
---@param flag? boolean true: all; false: none; default: those whose sender is traced
function skynet.traceproto(typename, flag) end

---Returns the tag with which this coroutine is traced.
---@return string? tag nil if the coroutine is not traced
function skynet.tracetag() end

return skynet
