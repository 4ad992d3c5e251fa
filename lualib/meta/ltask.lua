---@meta ltask
-- Definitions of `ltask` for the Lua language server. docs/build.lua generates docs/api/ltask.md from them.
-- More than 400 lines: a module has one file of definitions, and each function of `ltask` is defined here.

---The scheduler, inside a service: services call each other, wait, and set timers. docs/ltask.md is the manual. It
---describes the differences between the generations of the API: G1 is ltask of early 2024, G2 is the current ltask.
---
---Outside of a service, only `pack`, `unpack`, `unpack_remove`, `remove`, `now`, `walltime`, `counter` and `start` can
---be used. A function is added to the table when it is first used, so `pairs` does not list all functions.
---@class ltask
---@field log ltask.Log writes lines to the log
---@field start ltask.start the module `ltask.start`; only outside of services
---@field signal_handler? fun(from: ltask.Address) set by the program; runs in a new coroutine when a SIGNAL arrives
---@field on_idle? fun() set by the program; called when an exclusive service has nothing to do; must block (G1)
local ltask = {}

---The number of a service: 32 bits, 1 for root. After a service dies, its number is not reused for a long time.
---@alias ltask.Address integer

-- Calling and answering

---Sends a request to another service and waits for its answer. Other coroutines of this service run meanwhile. Raises
---the error of the request, `{service:N} is dead`, or `{service:N} is busy` if its mailbox is full (see `on_full`). If
---a service has no handler for the request `"tasks"`, its library answers with a list of `lio.TaskInfo`.
---@param addr ltask.Address
---@param ... any the name of the request and its arguments
---@return any ... the results of the request's handler
function ltask.call(addr, ...) end

---Sends a request that gets no answer. Raises `{service:N} is busy` if the mailbox is full; after `on_full "wait"`,
---waits until the mailbox accepts the request.
---@param addr ltask.Address
---@param ... any the name of the request and its arguments
---@return boolean taken false if the service is dead
---@return string? message
function ltask.send(addr, ...) end

---The same as `send` (G1).
---@param addr ltask.Address
---@param ... any the name of the request and its arguments
---@return boolean taken
---@return string? message
function ltask.send_direct(addr, ...) end

---Sends a request to the service library of another service and waits for the answer: `"tasks"`, `"inspect"` with
---`"memory"`, `"counts"` or `"traceback"`, `"quit"`, or `"watch"`, which is never answered and raises when the service
---has ended. Raises as `call` does.
---@param addr ltask.Address
---@param ... any the name of the request and its arguments
---@return any ...
function ltask.syscall(addr, ...) end

---Sets whether this service's requests to full mailboxes wait or raise. The default is `core.full` of the
---configuration.
---@param what? "wait"|"error" default: no change
---@return "wait"|"error" before the previous setting
function ltask.on_full(what) end

---Adds request handlers.
---@param handlers? table functions by the names of the requests
---@return table handlers all handlers of the service
function ltask.dispatch(handlers) end

---Leaves the request that this coroutine handles unanswered when its handler returns. To answer it later, see
---`current_session`.
function ltask.no_response() end

---Returns the sender and the session of the request that this coroutine handles. With them, another coroutine can
---answer with `raise_error`, `error` or `send_message_direct`.
---@return ltask.CurrentSession request
function ltask.current_session() end

---Answers a request with an error and this service's traceback. If `session` is 0, logs the error instead.
---@param addr ltask.Address
---@param session integer
---@param message any
function ltask.raise_error(addr, session, message) end

---Answers a request with an error, without a traceback. If `session` is 0, does nothing.
---@param addr ltask.Address
---@param session integer
---@param err any
function ltask.error(addr, session, err) end

---Waits, in another coroutine, for the answer to a session of this service. Then wakes the coroutine `what`, or calls
---the function `what` with the type, the pointer and the size of the answer.
---@param session integer
---@param what thread|fun(type: integer, message: lightuserdata, size: integer)
function ltask.suspend(session, what) end

---Creates an object that sends requests and waits for all answers.
---@return ltask.Async requests
function ltask.async() end

---Creates an object that sends requests and returns the answers as they arrive (G1).
---@param one? table the first request: `{ addr, … }`
---@return ltask.Requests requests
function ltask.request(one) end

---Runs functions concurrently: `for one, result in ltask.parallel{ { f, … }, … } do`. The loop gets the results in the
---order in which the functions end. If the loop is left early, the functions that are still running are killed. With
---`generation = 1`, the loop gets the results themselves instead of a table, and the first error is raised when the
---loop has ended.
---@param list table[] each with a function, its arguments, and optional fields for the caller
---@return fun(): table?, ltask.ParallelResult iterator yields the element of the list and its result
function ltask.parallel(list) end

-- Coroutines

---Creates a coroutine of this service. It runs after the coroutines that are ready now and before the next message.
---@param f function anything that can be called
---@param ... any the arguments of `f`
---@return thread co
function ltask.fork(f, ...) end

---Suspends the running coroutine until another coroutine calls `wakeup` with the token. Raises if a coroutine already
---waits on the token.
---@param token? any any value except nil and NaN; default: the running coroutine
---@return any ... the values passed to `wakeup`
function ltask.wait(token) end

---Wakes the coroutine that waits on the token.
---@param token any
---@param ... any the results of its `wait`
---@return true? woken nil if no coroutine waits on the token
function ltask.wakeup(token, ...) end

---Makes the wait on the token raise an error.
---@param token any
---@param err any the error
---@return true? interrupted nil if no coroutine waits on the token
function ltask.interrupt(token, err) end

---Like `wait`, but several coroutines may wait on the token.
---@param token? any default: the running coroutine
---@return any ... the values passed to `multi_wakeup`
function ltask.multi_wait(token) end

---Wakes all coroutines that wait on the token in `multi_wait`.
---@param token any
---@param ... any the results of their waits
---@return true? woken nil if no coroutine waits on the token
function ltask.multi_wakeup(token, ...) end

---Makes all waits on the token in `multi_wait` raise an error.
---@param token any
---@param err any the error
---@return true? interrupted nil if no coroutine waits on the token
function ltask.multi_interrupt(token, err) end

---Returns the running coroutine.
---@return thread co
function ltask.running() end

---Returns the running coroutine, on which `wait` without a token waits.
---@return thread token
function ltask.current_token() end

---Suspends the running coroutine. With 0 or less, the messages that have already arrived are handled first. Never
---returns early.
---@param centiseconds number rounded up
function ltask.sleep(centiseconds) end

---Runs a function in a new coroutine when the time has passed.
---@param centiseconds number rounded up
---@param f function
function ltask.timeout(centiseconds, f) end

---Returns the status and the traceback of a coroutine.
---@param co thread
---@return string text
function ltask.thread_info(co) end

-- Services

---Creates a service: runs the file `name` of the service path with the arguments, in a new VM. Raises if that fails.
---The system runs until its last service that is not unique has ended.
---@param name string
---@param ... any the arguments of the file
---@return ltask.Address addr
function ltask.spawn(name, ...) end

---Creates the service that a table describes. Raises if that fails.
---@param t ltask.ServiceEntry
---@return ltask.Address addr
function ltask.spawn_service(t) end

---Finds the unique service with this name, or creates it. Unique services do not keep the system running.
---@param name string
---@param ... any the arguments of the file, if the service is created
---@return ltask.Address addr
function ltask.uniqueservice(name, ...) end

---Finds the service with this name. Waits until the service exists.
---@param name string
---@return ltask.Address addr
function ltask.queryservice(name) end

---Registers this service under a name. Raises if the name is taken.
---@param name string
function ltask.register(name) end

---Makes another service quit.
---@param addr ltask.Address
---@return boolean found false if there is no such service, or it was killed before
function ltask.kill(addr) end

---Returns the path on which services are found. If `path` is given, first sets it for services that are created later.
---@param path? string templates with `?`, as in `package.path`
---@return string path the current path
function ltask.servicepath(path) end

---Ends this service: runs its request handler `quit`, if it has one, and answers its open requests with an error.
---Returns before that happens.
function ltask.quit() end

---Returns the number of this service.
---@return ltask.Address id
function ltask.self() end

---Returns the label of this service: by default, the name under which it was created.
---@return string label
function ltask.label() end

---Reports whether a service is exclusive: the configuration gives it its own thread (G1).
---@param id? ltask.Address default: this service
---@return boolean exclusive
function ltask.is_exclusive(id) end

---Returns the worker that runs this service.
---@return integer? worker counted from 0; nil if the service has its own thread
function ltask.worker_id() end

---Binds this service to a worker, from its next slice on.
---@param worker? integer counted from 0; nil removes the binding
function ltask.worker_bind(worker) end

-- The main thread (G2)

---Runs a function on the process's main thread and waits for it. Raises its error.
---@param f function
---@param ... any the arguments of `f`
---@return any ... the results of `f`
function ltask.mainthread_run(f, ...) end

---Makes the next slice of this service run on the main thread. Raises in a service with its own thread.
function ltask.mainthread_enter() end

---Makes the next slice run on a worker again.
function ltask.mainthread_leave() end

---Ends this slice; the next slice starts without a message. For the main function of a service.
function ltask.mainthread_yield() end

-- Services that block

---Returns an event descriptor of this service. The descriptor is readable at first, and whenever messages have arrived.
---From its next slice on, the service runs on its own thread. A second call raises.
---@return fun(): true wait blocks until the descriptor is readable, and makes it unreadable
---@return lightuserdata descriptor
function ltask.eventinit() end

---Closes the descriptor of `eventinit` and returns a new one.
---@return lightuserdata descriptor
function ltask.eventreset() end

---Sets the function that is called when a service with an event descriptor has nothing to do. It usually blocks (G2).
---@param f? fun() nil: the service blocks until a message arrives
function ltask.idle_handler(f) end

---Wakes a service that waits for its event descriptor, without sending a message.
---@param id ltask.Address
---@return boolean found
function ltask.touch_service(id) end

---Handles the messages that have arrived, for a main function with its own loop. Raises anywhere else.
---@return boolean ended whether the service should end
function ltask.schedule_message() end

---Runs the coroutines that were woken or forked (G1). Raises outside of the main function.
function ltask.dispatch_wakeup() end

-- Time

---Returns the time since the Unix epoch, in seconds and in centiseconds.
---@return integer seconds
---@return integer centiseconds
function ltask.now() end

---Returns the time since the Unix epoch (G1).
---@return integer centiseconds
function ltask.walltime() end

---Reads a monotonic clock (clock_gettime(2)). Only the difference between two readings is meaningful.
---@return number seconds
function ltask.counter() end

---Returns how long this service has run: the time of its slices on workers, or the CPU time of the service's thread.
---@return number seconds
function ltask.cpucost() end

---Sets a timer: when the time has passed, service 0 sends a RESPONSE with the session to this service.
---@param session integer
---@param centiseconds number rounded up; 0 or less: after the messages that have already arrived
function ltask.timer_add(session, centiseconds) end

---Empties the table. Does nothing else, because the scheduler runs the timers (G2).
---@param t table
---@return table t
function ltask.timer_update(t) end

---Blocks the thread. Returns early if the system ends.
---@param milliseconds number a negative number counts as 0
function ltask.timer_sleep(milliseconds) end

-- Log, memory, and inspection

---Adds an entry to the log.
---@param pointer lightuserdata the result of `pack(level, …)`; the log takes ownership of it
---@param size integer
function ltask.pushlog(pointer, size) end

---Takes the oldest entry of the log, for a logger.
---@return integer? centiseconds since the Unix epoch; nothing if the log is empty
---@return ltask.Address id the service that wrote the entry
---@return lightuserdata pointer for `unpack_remove`; the caller owns it
---@return integer size
function ltask.poplog() end

---Returns a C function that writes to the log from any thread: `void f(void *log, uint32_t id, void *data, size_t
---size)`. `data` is a packed block that `malloc` has allocated; the log takes ownership of it.
---@return lightuserdata f
---@return lightuserdata log
function ltask.get_pushlog() end

---Adds a line to the file that is configured as `core.debuglog`: the id of this service, a space and `text`. If no file
---is configured, does nothing.
---@param text string
function ltask.debuglog(text) end

---Sets the memory limit of this service's VM, if a limit is given. Returns the previous limit. Above the limit, Lua
---raises `not enough memory`.
---@param bytes? integer 0 or more; 0: no limit; default: no change
---@return integer before the previous limit
function ltask.mem_limit(bytes) end

---Counts the objects that this service's VM has created so far: fields `string`, `table`, `function`, `userdata` and
---`thread`. `memory` is the number of bytes in use.
---@param t? table the table to fill; default: a new one
---@return table t
function ltask.mem_count(t) end

---Returns the traceback of the service's main function.
---@return string traceback
function ltask.backtrace() end

-- Packing

---Packs values: nil, booleans, numbers, strings, light userdata, C functions without upvalues, and tables of these,
---including shared and cyclic ones. For any other value, raises `Unsupport type X to serialize`.
---@param ... any
---@return lightuserdata pointer the caller owns it, and frees it with `remove` or sends it
---@return integer size
function ltask.pack(...) end

---Unpacks values without freeing them. Raises if the bytes are corrupt, or if a string contains a light userdata or a
---function: these are accepted only with the pointer and the size of `pack`, because any code can create a string.
---Takes time in proportion to the bytes, except for tables whose keys were chosen to collide in Lua's hash: so do not
---unpack strings that other people have sent.
---@param pointer lightuserdata|string
---@param size? integer not for a string
---@return any ...
function ltask.unpack(pointer, size) end

---Unpacks values and frees the block, even if the call raises.
---@param pointer lightuserdata?
---@param size integer?
---@return any ...
function ltask.unpack_remove(pointer, size) end

---Frees the result of `pack`.
---@param pointer lightuserdata?
---@param size integer?
function ltask.remove(pointer, size) end

-- Raw messages, for service libraries

---Posts a message; `message_receipt` returns its receipt. Raises if the last receipt has not been read, or if the
---caller cannot yield.
---@param to ltask.Address
---@param session integer 0: no answer is expected
---@param type integer 0 to 254, as in `ltask.PostedMessage`
---@param pointer? lightuserdata the message takes ownership of it
---@param size? integer
function ltask.send_message(to, session, type, pointer, size) end

---Returns the receipt of the last message. Raises if there is none.
---@return integer kind 1: taken; 2: no such service; 3: its mailbox is full; 4: answered, for messages to service 0
---@return any pointer the message, if it was not taken: the caller owns it again; or the number of a new service
---@return integer? size
function ltask.message_receipt() end

---Posts a message and returns its receipt (G1).
---@param to ltask.Address
---@param session integer
---@param type integer 0 to 254
---@param pointer? lightuserdata the message takes ownership of it, unless it is returned
---@param size? integer
---@return integer kind as for `message_receipt`
---@return lightuserdata? pointer
---@return integer? size
function ltask.send_message_direct(to, session, type, pointer, size) end

---Takes the next message from the mailbox.
---@return ltask.Address? from nothing if the mailbox is empty
---@return integer session
---@return integer type
---@return lightuserdata? pointer the caller owns it
---@return integer? size
function ltask.recv_message() end

-- Objects

---Writes lines to the log. Values are converted by `tostring` and separated by tabs.
---@class ltask.Log
local Log = {}

---Logs information. `print` of a service does the same.
---@param ... any
function Log.info(...) end

---Logs an error.
---@param ... any
function Log.error(...) end

---The sender of a request.
---@class ltask.CurrentSession
---@field from ltask.Address nil in a coroutine that does not handle a request
---@field session? integer 0 if the sender expects no answer

---The result of a function of `parallel`: a list of its results, or an error.
---@class ltask.ParallelResult
---@field [integer] any the results of the function
---@field error? any the error that the function raised
---@field rethrow? fun() raises that error

---Requests that are sent without waiting; `wait` waits for all of them.
---@class ltask.Async
local Async = {}

---Sends a request without waiting.
---@param addr ltask.Address
---@param ... any the name of the request and its arguments
function Async:request(addr, ...) end

---Waits until every request has been answered. Raises the first error.
function Async:wait() end

---Requests whose answers are returned in the order in which they arrive. Calling the object is the same as `add`.
---`<close>` closes it.
---@class ltask.Requests
---@overload fun(one: table): ltask.Requests
local Requests = {}

---Adds a request.
---@param one table `{ addr, name, … }`, and optional fields for the caller
---@return ltask.Requests requests itself
function Requests:add(one) end

---Sends the added requests and iterates over the answers: `for one, results in r:select() do`. A request that failed
---has no results, and `one.error` is its error. The loop ends when all requests are answered or the time has passed.
---@param timeout? number centiseconds for all requests together; default: no timeout
---@return fun(): table?, table? iterator
function Requests:select(timeout) end

---Discards the answers that have not arrived yet.
function Requests:close() end

return ltask
