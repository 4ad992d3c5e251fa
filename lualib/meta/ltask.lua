---@meta ltask
-- Definitions of `ltask` for the Lua language server; docs/build.lua makes docs/api/ltask.md of them.

---The scheduler, inside a service: services call each other, wait, and are told of time. docs/ltask.md is
---the manual, with what differs between the generations of the API (G1, G2).
---
---Outside of a service there are `pack`, `unpack`, `unpack_remove`, `remove` and `start` alone. Functions come
---into the table as they are used, so `pairs` does not list them.
---@class ltask
---@field log ltask.Log lines of the log
---@field start ltask.start outside of a service: `require "ltask.start"`
---@field signal_handler? fun(from: ltask.Address) assign a function to be told when a service sends a SIGNAL
---@field on_idle? fun() assign a function that blocks; in an exclusive service, run when nothing is to be done (G1)
local ltask = {}

---A service's number: 32 bits, 1 for root. One of a dead service is not used again soon.
---@alias ltask.Address integer

-- Calling and answering

---Asks another service and waits for its answer; other coroutines of this service go on meanwhile. Raises
---the error that the request ended with, `{service:N} is dead`, or `{service:N} is busy` when its mailbox is full.
---The request `"tasks"` is answered by every service that has no handler of that name: by a list of `lio.TaskInfo`.
---@param addr ltask.Address
---@param ... any the request's name and its arguments
---@return any ... what the request's handler returned
function ltask.call(addr, ...) end

---Sends a request that is not answered, and does not wait. Raises `{service:N} is busy` when the mailbox is
---full; with `on_full "wait"` it waits for room.
---@param addr ltask.Address
---@param ... any the request's name and its arguments
---@return boolean taken false when there is no such service
---@return string? message
function ltask.send(addr, ...) end

---The same as `send`, which is always direct here (G1).
---@param addr ltask.Address
---@param ... any the request's name and its arguments
---@return boolean taken
---@return string? message
function ltask.send_direct(addr, ...) end

---Asks the service library of another service: `"tasks"`, `"inspect"` with `"memory"`, `"counts"` or `"traceback"`,
---or `"quit"`.
---@param addr ltask.Address
---@param ... any
---@return any ...
function ltask.syscall(addr, ...) end

---Sets what becomes of this service's requests to full mailboxes.
---@param what? "wait"|"error" default: leave it
---@return "wait"|"error" before
function ltask.on_full(what) end

---Adds request handlers: functions, by the requests' names.
---@param handlers? table
---@return table handlers all of them
function ltask.dispatch(handlers) end

---Leaves the request that this coroutine handles without an answer by its return: see `current_session`.
function ltask.no_response() end

---Tells who asked for what this coroutine does, so that another one can answer with `raise_error`, `error` or
---`send_message_direct`.
---@return ltask.CurrentSession request
function ltask.current_session() end

---Answers a request with an error, to which this service's traceback is added; logs it when `session` is 0.
---@param addr ltask.Address
---@param session integer
---@param message any
function ltask.raise_error(addr, session, message) end

---Answers a request with an error as it is.
---@param addr ltask.Address
---@param session integer
---@param err any
function ltask.error(addr, session, err) end

---Waits for the answer to a session of one's own in another coroutine.
---@param session integer
---@param what thread|fun(type: integer, message: lightuserdata, size: integer) is woken or called with the answer
function ltask.suspend(session, what) end

---Makes an object that sends requests and waits for all their answers.
---@return ltask.Async requests
function ltask.async() end

---Makes an object that sends requests and hands out the answers as they come (G1).
---@param one? table the first of them: `{ addr, … }`
---@return ltask.Requests requests
function ltask.request(one) end

---Runs functions at a time: `for one, result in ltask.parallel{ { f, … }, … } do`, in the order of their ends.
---A loop that is left early kills those that still run. With generation 1 the loop has the results themselves
---in place of a table, and an error is raised at its end.
---@param list table[] each with a function, its arguments, and fields of the caller's own
---@return fun(): table?, ltask.ParallelResult iterator
function ltask.parallel(list) end

-- Coroutines

---Makes a coroutine of this service, which runs after what is ready already and before the next message.
---@param f function anything that can be called
---@param ... any its arguments
---@return thread co
function ltask.fork(f, ...) end

---Waits until somebody wakes the token. Raises when somebody waits on the token already.
---@param token? any default: the running coroutine
---@return any ... what `wakeup` was given
function ltask.wait(token) end

---Wakes who waits on the token.
---@param token any
---@param ... any what its `wait` returns
---@return true? woken nil when nobody waits
function ltask.wakeup(token, ...) end

---Makes the wait on the token raise.
---@param token any
---@param err any the error
---@return true? interrupted nil when nobody waits
function ltask.interrupt(token, err) end

---Waits as `wait` does, and others may wait on the token as well.
---@param token? any default: the running coroutine
---@return any ... what `multi_wakeup` was given
function ltask.multi_wait(token) end

---Wakes all who wait on the token by `multi_wait`.
---@param token any
---@param ... any what their waits return
---@return true? woken nil when nobody waits
function ltask.multi_wakeup(token, ...) end

---Makes all waits on the token raise that are by `multi_wait`.
---@param token any
---@param err any the error
---@return true? interrupted nil when nobody waits
function ltask.multi_interrupt(token, err) end

---Tells the running coroutine.
---@return thread co
function ltask.running() end

---Tells what `wait` without a token waits on: the running coroutine.
---@return thread token
function ltask.current_token() end

---Waits; 0 lets the messages go first that are there now. Never returns early.
---@param centiseconds number
function ltask.sleep(centiseconds) end

---Runs a function in a coroutine of its own when the time is over.
---@param centiseconds number
---@param f function
function ltask.timeout(centiseconds, f) end

---Describes a coroutine: its status and where it is.
---@param co thread
---@return string text
function ltask.thread_info(co) end

-- Services

---Makes a service: runs the file `name` of the service path with the arguments, in a VM of its own. Raises
---when that fails. The system goes on until the last one made in this way has ended.
---@param name string
---@param ... any the file's arguments
---@return ltask.Address addr
function ltask.spawn(name, ...) end

---Makes a service that a table describes.
---@param t ltask.ServiceEntry
---@return ltask.Address addr
function ltask.spawn_service(t) end

---Finds the service of that name, or makes it. Unique services do not keep the system going.
---@param name string
---@param ... any the file's arguments, if it is made
---@return ltask.Address addr
function ltask.uniqueservice(name, ...) end

---Finds the service of that name; waits until there is one.
---@param name string
---@return ltask.Address addr
function ltask.queryservice(name) end

---Makes this service known under a name. Raises when the name is taken.
---@param name string
function ltask.register(name) end

---Makes another service quit.
---@param addr ltask.Address
---@return boolean found whether there was such a service; false too when it was killed before
function ltask.kill(addr) end

---Tells or sets where services are found from now on.
---@param path? string templates with `?`, as in `package.path`
---@return string path
function ltask.servicepath(path) end

---Ends this service: runs its request handler `quit`, if it has one, and answers its requests with an error.
---Returns before that happens.
function ltask.quit() end

---Tells this service's number.
---@return ltask.Address id
function ltask.self() end

---Tells this service's label: the name it was made by, unless that was told otherwise.
---@return string label
function ltask.label() end

---Tells whether a service is exclusive: has a thread of its own by configuration (G1).
---@param id? ltask.Address default: this service
---@return boolean exclusive
function ltask.is_exclusive(id) end

---Tells the worker that runs this service.
---@return integer? worker from 0; nil on a thread of its own
function ltask.worker_id() end

---Keeps this service on a worker from its next slice on.
---@param worker? integer from 0; nil frees it
function ltask.worker_bind(worker) end

-- The main thread (G2)

---Runs a function on the process's main thread and waits for it.
---@param f function
---@param ... any its arguments
---@return any ... what it returned
function ltask.mainthread_run(f, ...) end

---Makes the next slice of this service run on the main thread. Raises in one with a thread of its own.
function ltask.mainthread_enter() end

---Makes the next slice run on a worker again.
function ltask.mainthread_leave() end

---Ends this slice; the next one comes without a message. For a service's main function.
function ltask.mainthread_yield() end

-- Blocking by oneself

---Gives this service an event descriptor, which is readable when messages are there, and once at first. The
---service moves to a thread of its own with its next slice. Once per service.
---@return fun(): true wait blocks until the descriptor is readable, and takes that
---@return lightuserdata descriptor
function ltask.eventinit() end

---Makes a new descriptor in the place of the one of `eventinit`, which is closed.
---@return lightuserdata descriptor
function ltask.eventreset() end

---Sets what runs when a service with an event descriptor has nothing to do; it usually blocks (G2).
---@param f? fun() nil: the service blocks until a message comes
function ltask.idle_handler(f) end

---Wakes a service that waits for its event descriptor, though there is no message.
---@param id ltask.Address
---@return boolean found
function ltask.touch_service(id) end

---Handles the messages that are there, for a main function with a loop of its own. Raises anywhere else.
---@return boolean ended whether the service is to end
function ltask.schedule_message() end

---Runs the coroutines that were woken or forked (G1).
function ltask.dispatch_wakeup() end

-- Time

---Tells the time since the epoch.
---@return integer seconds
---@return integer centiseconds
function ltask.now() end

---Tells the time since the epoch (G1).
---@return integer centiseconds
function ltask.walltime() end

---Reads a clock that only goes forward.
---@return number seconds
function ltask.counter() end

---Tells how long this service has run.
---@return number seconds
function ltask.cpucost() end

---Sets a timer: a RESPONSE with that session comes from service 0.
---@param session integer
---@param centiseconds number
function ltask.timer_add(session, centiseconds) end

---Empties the table: timers are delivered without help (G2).
---@param t table
---@return table t
function ltask.timer_update(t) end

---Blocks the thread; the system's end cuts it short.
---@param milliseconds number
function ltask.timer_sleep(milliseconds) end

-- The log, memory, and looking inside

---Adds an entry to the log.
---@param pointer lightuserdata what `pack(level, …)` gave; it is taken
---@param size integer
function ltask.pushlog(pointer, size) end

---Takes the oldest entry of the log, for a logger.
---@return integer? centiseconds since the epoch; nothing when the log is empty
---@return ltask.Address id who said it
---@return lightuserdata pointer the caller's, for `unpack_remove`
---@return integer size
function ltask.poplog() end

---Gives C code of any thread a way to the log: `void f(void *log, uint32_t id, void *data, size_t size)`.
---@return lightuserdata f
---@return lightuserdata log
function ltask.get_pushlog() end

---Adds a line to the file that `core.debuglog` of the configuration names.
---@param text string
function ltask.debuglog(text) end

---Tells or sets how much memory this service's VM may have; beyond it Lua raises `not enough memory`.
---@param bytes? integer 0: no limit
---@return integer before
function ltask.mem_limit(bytes) end

---Counts what this service's VM has made so far: fields `string`, `table`, `function`, `userdata` and `thread`;
---`memory` is the bytes in use.
---@param t? table the table to fill
---@return table t
function ltask.mem_count(t) end

---Tells where the service's main function is.
---@return string traceback
function ltask.backtrace() end

-- Packing

---Packs values: nil, booleans, numbers, strings, light userdata, C functions without upvalues, and tables of
---these, shared and cyclic ones too. Raises `Unsupport type X to serialize`.
---@param ... any
---@return lightuserdata pointer the caller's, to be freed by `remove` or sent
---@return integer size
function ltask.pack(...) end

---Unpacks values and does not free them. Raises when the bytes are corrupt, and when a string holds a light userdata
---or a function: anybody may have made a string, so only the pointer and the size that `pack` gave may hold addresses.
---@param pointer lightuserdata|string
---@param size? integer not for a string
---@return any ...
function ltask.unpack(pointer, size) end

---Unpacks values and frees them, also when it raises.
---@param pointer lightuserdata?
---@param size integer?
---@return any ...
function ltask.unpack_remove(pointer, size) end

---Frees what `pack` gave.
---@param pointer lightuserdata?
---@param size integer?
function ltask.remove(pointer, size) end

-- Messages as they are, for service libraries

---Posts a message; what became of it says `message_receipt`. Raises when the last receipt was not read, and
---where the caller cannot yield.
---@param to ltask.Address
---@param session integer 0: nobody waits for an answer
---@param type integer
---@param pointer? lightuserdata it is taken
---@param size? integer
function ltask.send_message(to, session, type, pointer, size) end

---Tells what became of the message. Raises when there is no receipt.
---@return integer kind 1: taken; 2: no such service; 3: its mailbox is full; 4: answered, for messages to 0
---@return any pointer of a message that came back, which is the caller's; or the number of a new service
---@return integer? size
function ltask.message_receipt() end

---Posts a message and tells at once what became of it (G1).
---@param to ltask.Address
---@param session integer
---@param type integer
---@param pointer? lightuserdata it is taken, unless it comes back
---@param size? integer
---@return integer kind as of `message_receipt`
---@return lightuserdata? pointer
---@return integer? size
function ltask.send_message_direct(to, session, type, pointer, size) end

---Takes the next message.
---@return ltask.Address? from nothing when there is none
---@return integer session
---@return integer type
---@return lightuserdata? pointer the caller's
---@return integer? size
function ltask.recv_message() end

-- Objects

---Lines of the log. Values are as `print` shows them, tab between.
---@class ltask.Log
local Log = {}

---Logs information; `print` of a service does the same.
---@param ... any
function Log.info(...) end

---Logs an error.
---@param ... any
function Log.error(...) end

---Who asked.
---@class ltask.CurrentSession
---@field from? ltask.Address nil in a coroutine that handles no request
---@field session? integer 0 when nobody waits

---What a function of `parallel` came to: its results as a list, or an error.
---@class ltask.ParallelResult
---@field error? any what it raised
---@field rethrow? fun() raises that

---Requests that are waited for together.
---@class ltask.Async
local Async = {}

---Sends a request and does not wait.
---@param addr ltask.Address
---@param ... any the request's name and its arguments
function Async:request(addr, ...) end

---Waits until every request was answered. Raises the first error.
function Async:wait() end

---Requests whose answers come in the order in which they are given. Calling the object is as `add`; `<close>`
---closes it.
---@class ltask.Requests
---@overload fun(one: table): ltask.Requests
local Requests = {}

---Adds a request.
---@param one table `{ addr, name, … }`, and fields of the caller's own
---@return ltask.Requests requests itself
function Requests:add(one) end

---Sends what was added, and loops over the answers: `for one, results in r:select() do`. A request that
---failed has no results and a field `error`. Ends when all were answered or the time is over.
---@param timeout? number centiseconds for all of them
---@return fun(): table?, table? iterator
function Requests:select(timeout) end

---Drops the answers that are still to come.
function Requests:close() end

return ltask
