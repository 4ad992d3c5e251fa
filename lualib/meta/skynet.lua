---@meta skynet
-- Definitions of `skynet` for the Lua language server; docs/build.lua makes docs/api/skynet.md of them.

---Skynet's words, for programs that were written for skynet, on the bundled scheduler. docs/skynet.md is the
---manual, with what differs. Times are centiseconds.
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

---A service: its number, that as text (`":0000000a"`), or its name.
---@alias skynet.Address integer|string

---A kind of message.
---@class skynet.Protocol
---@field name string the request's name, also for services without skynet's words
---@field id integer from 0 to 255
---@field pack? fun(...: any): string|lightuserdata, integer? makes the message; default `skynet.pack`
---@field unpack? fun(msg: string, sz: integer): any gives its values; default `skynet.unpack`
---@field dispatch? fun(session: integer, address: integer, ...: any) handles a message

---Called with true and values, or with false for an error, it answers a request, once, and returns whether the answer
---was taken. With `"TEST"` it tells whether an answer is still wanted.
---@alias skynet.Answer fun(ok: boolean|"TEST", ...: any): boolean

-- Services

---Makes this a service of skynet's, and runs its start function when its file has run. In a service that others
---made, and in a script under `lio --service`, it runs at once. Raises when it is called a second time.
---@param f fun() may wait; who made the service waits for its end
function skynet.start(f) end

---Adds a function to run before the start function; when that has run, runs it at once.
---@param f fun()
function skynet.init(f) end

---Calls a function after those of `init`, as the start function is called, and catches its errors.
---@param f function
---@param ... any its arguments
---@return boolean ok
---@return any ... its results, or the error with a traceback
function skynet.pcall(f, ...) end

---Ends this service and does not return. Its coroutines are closed; who waits for it gets an error.
function skynet.exit() end

---Ends another service.
---@param addr skynet.Address
---@return boolean found
function skynet.kill(addr) end

---Ends the system.
function skynet.abort() end

---Makes a service and waits until its start function has returned. Raises the error that it ended with, and when
---there is no such file.
---@param name string a file of the service path; a dot is a folder
---@param ... any the file's arguments, passed as they are
---@return integer addr
function skynet.newservice(name, ...) end

---Finds the one service of that name, or makes it as `newservice` does.
---@param name string
---@param ... any the file's arguments, if it is made
---@return integer addr
function skynet.uniqueservice(name, ...) end

---Finds the one service of that name; waits until there is one.
---@param name string
---@return integer addr
function skynet.queryservice(name) end

---Finds the service that has a name by `name` or `register`.
---@param name string
---@return integer? addr nil when there is none
function skynet.localname(name) end

---Gives a service a name for as long as it lives. Raises when another one has it.
---@param name string may begin with a point; not a number
---@param addr skynet.Address
function skynet.name(name, addr) end

---Gives this service a name for as long as it lives. Raises when another one has it.
---@param name string may begin with a point; not a number
function skynet.register(name) end

---Tells this service's address.
---@return integer addr
function skynet.self() end

---Shows an address.
---@param addr skynet.Address
---@return string text a number as `":%08x"`
function skynet.address(addr) end

---Reads a value of the configuration, or of `setenv`.
---@param key string
---@return string? value
function skynet.getenv(key) end

---Sets a value for all services. Raises when the key has one.
---@param key string
---@param value any becomes a string
function skynet.setenv(key, value) end

-- Messages

---Makes a kind of message known to this service. Raises when its name or number is taken.
---@param class skynet.Protocol
function skynet.register_protocol(class) end

---Sets what handles messages of a protocol.
---@param typename string|integer
---@param f? fun(session: integer, address: integer, ...: any) default: leave it; session 0: nobody waits
---@return function? before
function skynet.dispatch(typename, f) end

---Asks a service and waits for the answer. Raises the error that the request ended with, `{service:N} is dead`, and
---when there is no such name.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param ... any
---@return any ...
function skynet.call(addr, typename, ...) end

---Sends a message that is not answered. Waits only while the receiver's mailbox is full.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param ... any
---@return boolean taken false when there is no such service
---@return string? message
function skynet.send(addr, typename, ...) end

---Several calls at a time, whose answers are taken as they come. `r{ addr, "lua", … }` is `r:add{ … }`.
---@class skynet.Request
---@field timeout? boolean true when the time of `select` was over before all answers had come
---@overload fun(one: table): skynet.Request
local Request = {}

---Adds a call. Raises after `select`.
---@param one table `{ address, protocol, … }`; other fields are the program's own
---@return skynet.Request self
function Request:add(one) end

---Sends the calls and goes through their answers as they come: `for one, answer in r:select() do`. `one` is the table
---that was added, `answer` the list of values, or false when the call failed. The loop ends when all have come, or when
---the time is over; answers that have not come by its end are dropped. Once per object.
---@param centiseconds? number default: no limit
---@return fun(): table?, table|false|nil
function Request:select(centiseconds) end

---Drops the answers that have not come. The end of the loop, and of `local r <close>`, does so as well.
function Request:close() end

---Makes an object for several calls at a time.
---@param one? table a first call, as for `add`
---@return skynet.Request r
function skynet.request(one) end

---Makes several calls at a time and goes through their answers: `skynet.request` in one step.
---@param list table[]|skynet.Request the calls, each as for `add`
---@param centiseconds? number default: no limit
---@return fun(): table?, table|false|nil
function skynet.select(list, centiseconds) end

---Asks with a message that is packed already.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param msg string|lightuserdata it is taken
---@param sz? integer not for a string
---@return string msg for `unpack`
---@return integer sz
function skynet.rawcall(addr, typename, msg, sz) end

---Sends a message that is packed already.
---@param addr skynet.Address
---@param typename string|integer the protocol
---@param msg string|lightuserdata it is taken
---@param sz? integer not for a string
---@return boolean taken
---@return string? message
function skynet.rawsend(addr, typename, msg, sz) end

---Answers the request that this coroutine handles. Raises when there is none, or when it was answered.
---@param msg? string|lightuserdata what `pack` or `packstring` gave; it is taken; default: no values
---@param sz? integer not for a string
---@return boolean taken false when nobody asked, and when who asked is dead
function skynet.ret(msg, sz) end

---Answers with values: `ret(pack(…))`.
---@param ... any
---@return boolean taken
function skynet.retpack(...) end

---Takes the answer out of the handler's hands. Raises where `ret` does.
---@param packer? fun(...: any): string|lightuserdata, integer? default: the protocol's own
---@return skynet.Answer answer
function skynet.response(packer) end

---Leaves the request that this coroutine handles without an answer, and without a word in the log.
function skynet.ignoreret() end

---Tells what this coroutine handles; nothing where it handles no request.
---@return integer? session 0 when nobody waits
---@return integer? address
function skynet.context() end

---Packs values.
---@param ... any
---@return lightuserdata msg the caller's, to be sent or freed by `trash`
---@return integer sz
function skynet.pack(...) end

---Unpacks values; does not free the message. Strings must be ones that this process packed: others raise, or are read
---as values that nobody packed.
---@param msg? string|lightuserdata
---@param sz? integer not for a string
---@return any ...
function skynet.unpack(msg, sz) end

---Packs values into a string, which may be kept in this process: the bytes that `pack` makes.
---@param ... any
---@return string text
function skynet.packstring(...) end

---Makes a string of a message: a string as it is, of a pointer its bytes, for `unpack`. Does not free the message.
---@param msg any
---@param sz? integer
---@return string text
function skynet.tostring(msg, sz) end

---Frees a message that was not sent.
---@param msg? string|lightuserdata
---@param sz? integer
function skynet.trash(msg, sz) end

-- Coroutines

---Makes a coroutine, which runs behind the present message, behind those that were woken and those that were forked
---before.
---@param f function
---@param ... any its arguments
---@return thread co
function skynet.fork(f, ...) end

---Waits, until somebody wakes the token or the time is over. Raises when somebody sleeps or waits on the token.
---@param centiseconds number 0: behind the messages that are there
---@param token? any default: the running coroutine
---@return "BREAK"? broken when it was woken
function skynet.sleep(centiseconds, token) end

---Lets the messages go first that are there now: `sleep(0)`.
---@return "BREAK"? broken
function skynet.yield() end

---Waits until somebody wakes the token. Raises when somebody sleeps or waits on it.
---@param token? any default: the running coroutine
function skynet.wait(token) end

---Wakes who sleeps or waits on the token; he runs when this coroutine suspends, in the order of wakeups.
---@param token any
---@return true? woken nothing when nobody does
function skynet.wakeup(token) end

---Runs a function in a coroutine of its own when the time is over.
---@param centiseconds number
---@param f fun()
---@return thread co for `killthread`
function skynet.timeout(centiseconds, f) end

---Sets whether `task` tells of coroutines of `timeout` where they were made.
---@param on? boolean
function skynet.trace_timeout(on) end

---Tells of coroutines that wait. Without an argument: how many. With a table: fills it with tracebacks, by
---`"thread: 0x… session: 7"`. With a session: the traceback of its coroutine, or `"No session"`. With a coroutine: its
---session. With `"init"`: the traceback of the start function, while it runs.
---@param what? table|integer|thread|"init"
---@return any result
function skynet.task(what) end

---Tells where coroutines wait, each traceback once.
---@return table<string, string> tracebacks by count and sessions
function skynet.uniqtask() end

---Closes a coroutine of this service. If it handles a request, its caller gets an error.
---@param which thread|integer|string the coroutine, its session, or a part of its name
---@return thread? co nil when there is none, and when it runs
function skynet.killthread(which) end

---Ends the calls that wait for an answer of a service: they raise. Answers for it are dropped.
---@param addr skynet.Address
function skynet.term(addr) end

---Called with session, address, message, size and protocol; the message is freed afterwards.
---@alias skynet.Unknown fun(session: integer, address: integer, msg: string|lightuserdata, sz: integer, name: string)

---Sets what runs for a message that is sent and that nothing handles.
---@param f skynet.Unknown
---@return function before
function skynet.dispatch_unknown_request(f) end

---Sets what runs for an answer to a session that this service has never asked with.
---@param f fun(session: integer, address: integer, msg: lightuserdata, sz: integer) the message is freed after it
---@return function before
function skynet.dispatch_unknown_response(f) end

-- Figures

---Tells a figure of this service: `"mqlen"` unread messages; `"message"` read ones; `"cpu"` seconds that it has run;
---`"time"` seconds of its present turn; `"endless"` 1 when `endless` is true, else 0.
---@param what string
---@return number? figure nil for other names
function skynet.stat(what) end

---Tells how many messages are unread.
---@return integer count
function skynet.mqlen() end

---Tells whether the watchdog has reported an endless loop of this service since the last call.
---@return boolean endless
function skynet.endless() end

---Limits the memory of this service's VM: what needs more raises `not enough memory`.
---@param bytes integer 0 is no limit
function skynet.memlimit(bytes) end

---Sets the answer to the debug command `INFO`.
---@param f fun(...: any): any
function skynet.info_func(f) end

-- Time, log, traces

---Tells the time since the process began.
---@return integer centiseconds
function skynet.now() end

---Tells when the process began.
---@return integer seconds since the epoch
function skynet.starttime() end

---Tells the time.
---@return number seconds since the epoch, with centiseconds
function skynet.time() end

---Reads a clock that only goes forward.
---@return integer nanoseconds
function skynet.hpc() end

---Makes a number that this service has not given out before.
---@return integer id
function skynet.genid() end

---Adds a line to the log: the values with spaces between them.
---@param ... any
function skynet.error(...) end

---Follows this coroutine, and what it calls, in the log from now on.
---@param info? any is written into the first line
function skynet.trace(info) end

---Sets which messages of a protocol are followed.
---@param typename string|integer the protocol
---@param flag? boolean true: all; false: none; default: those that are followed already
function skynet.traceproto(typename, flag) end

---Tells the tag that this coroutine is followed by.
---@return string? tag
function skynet.tracetag() end

return skynet
