---@meta ltask.bootstrap
-- Definitions of `ltask.bootstrap` for the Lua language server. docs/build.lua generates docs/api/ltask.bootstrap.md
-- from them.

---Builds, runs and closes a system, in the VM that starts it. In a service, `require` of this module raises.
---`ltask.start` does all of this from one table. G1 and G2 are the generations of the API, see `ltask`.
---@class ltask.bootstrap
local bootstrap = {}

---Creates a system without services, and writes the effective values into the table. A VM can have one system at a
---time; a second call raises.
---@param config ltask.CoreConfig
function bootstrap.init(config) end

---Does nothing: timers need no preparation.
function bootstrap.init_timer() end

---Does nothing: sockets need no preparation.
function bootstrap.init_socket() end

---Checks that root is service 1. Raises for another number.
---@param id integer
function bootstrap.init_root(id) end

---Creates a service. It runs when it has a message. In G1, the form is `new_service(label, source, id)`, where a source
---that begins with `@` names a file, and a failure raises.
---@param label string
---@param source string Lua code or a precompiled chunk: the main function
---@param chunkname string
---@param id? ltask.Address nil or 0: the next free number
---@param worker? integer the worker to which the service is bound, counted from 0; default: any
---@return ltask.Address|false id
---@return string? message
---@overload fun(label: string, source: string, id?: ltask.Address): ltask.Address
function bootstrap.new_service(label, source, chunkname, id, worker) end

---Gives a service its own thread, which starts with the system (G1). Raises if the system is already running.
---@param id ltask.Address
function bootstrap.new_thread(id) end

---Starts a VM on its own thread before the system runs. Its main function is resumed repeatedly with `true` (G1).
---@param source string Lua code, or `@` and the path of a file
---@return lightuserdata early for `new_service_preinit`
function bootstrap.preinit(source) end

---Turns a VM of `preinit` into a service. From then on, its main function is resumed without a value (G1).
---@param label string
---@param id ltask.Address 0: the next free number
---@param early lightuserdata the result of `preinit`
---@return ltask.Address id
function bootstrap.new_service_preinit(label, id, early) end

---Posts a message. Raises `push message failed` if the message is not accepted.
---@param message ltask.PostedMessage
function bootstrap.post_message(message) end

---Runs the system. Without an argument, returns when root has ended (G1). With an argument, returns at once (G2).
---Raises if the system is already running, or has ended.
---@param mainthread? any an explicit nil counts as an argument
---@return any result the exit code; with an argument a lightuserdata for `wait`
function bootstrap.run(mainthread) end

---Waits until root and every thread have ended, and closes every VM. Raises if the system is not running.
---@param context? lightuserdata the result of `run`
---@return integer code the exit code
function bootstrap.wait(context) end

---Waits for a service that requests the main thread, and runs one slice of that service.
---@param no_wait? boolean whether to return at once if there is no such service; default false
---@return boolean ran false if there is no such service, or if the system is ending
function bootstrap.mainthread_wait(no_wait) end

---Closes the system. If the system is still running, ends it first. After that, `init` can create another system.
function bootstrap.deinit() end

---Returns a C function that sends a pointer to root from any thread: `int f(void *queue, void *message)`. Root receives
---the pointer as its request `external`. The function returns 0, or another value if the message was not accepted.
---@param context? lightuserdata
---@return lightuserdata f
---@return lightuserdata queue
function bootstrap.external_sender(context) end

---Returns a C function that writes to the log from any thread: `void f(void *log, void *data, size_t size)`. `data` is
---a packed block that `malloc` has allocated; the log owns it afterwards.
---@param context? lightuserdata
---@return lightuserdata f
---@return lightuserdata log
function bootstrap.log_sender(context) end

---Adds an entry of service 0 to the log.
---@param pointer lightuserdata the result of `pack(level, …)`; the log takes ownership of it
---@param size integer
function bootstrap.pushlog(pointer, size) end

---Takes the oldest entry of the log.
---@return integer? centiseconds since the Unix epoch; nothing if the log is empty
---@return ltask.Address id the service that wrote the entry
---@return string? label
---@return lightuserdata pointer for `unpack_remove`; the caller owns it
---@return integer size
function bootstrap.poplog() end

---Returns the reason why a system of `ltask.start` could not start. `ltask.start` raises it.
---@return string? reason nil if the system has started, or has not been run yet
function bootstrap.boot_failure() end

---Packs values; see `ltask.pack`.
---@param ... any
---@return lightuserdata pointer
---@return integer size
function bootstrap.pack(...) end

---Unpacks values; see `ltask.unpack`.
---@param pointer lightuserdata|string
---@param size? integer
---@return any ...
function bootstrap.unpack(pointer, size) end

---Unpacks values and frees the block; see `ltask.unpack_remove`.
---@param pointer lightuserdata?
---@param size integer?
---@return any ...
function bootstrap.unpack_remove(pointer, size) end

---Frees the result of `pack`.
---@param pointer lightuserdata?
---@param size integer?
function bootstrap.remove(pointer, size) end

---A raw message.
---@class ltask.PostedMessage
---@field from? ltask.Address default 0
---@field to ltask.Address
---@field session? integer default 0: no answer is expected
---@field type integer 0 SYSTEM, 1 REQUEST, 2 RESPONSE, 3 ERROR, 4 SIGNAL; at most 254
---@field message? lightuserdata a block of `pack`; the message takes ownership of it
---@field size? integer

---The scheduler's own settings. A value out of its range raises.
---@class ltask.CoreConfig
---@field worker? integer threads that run services, 1 to 256; default: the number of cores minus one, at least 1
---@field io? integer threads that wait for the sockets of services without a loop, 1 to 64; default 1
---@field queue? integer maximum number of requests in a mailbox, 1 to 2^24; default 4096
---@field queue_sending? integer maximum length of an exclusive service's sending queue (G1), 1 to 2^24; default 4096
---@field max_service? integer maximum number of services, 2 to 2^20; default 65536
---@field external_queue? integer maximum number of waiting external messages, 1 to 2^24; default 4096
---@field log_queue? integer lines queued for the logger before further lines are dropped, 1 to 2^24; default 131072
---@field full? "error"|"wait" whether a request to a full mailbox raises or waits; default `"error"`
---@field watchdog? number|false seconds after which a slice is reported; default 5; 0 or false: never
---@field max_run_time? number|false CPU seconds after which a task that does not wait gets an error; default 0: never
---@field crashlog? string|false file for the list of running services if the process receives a fatal signal
---@field debuglog? string|false file for `ltask.debuglog`, emptied at the start; `"="` is standard output

return bootstrap
