---@meta ltask.bootstrap
-- Definitions of `ltask.bootstrap` for the Lua language server; docs/build.lua makes
-- docs/api/ltask.bootstrap.md of them.

---Builds a system, runs it, and takes it down, in the VM that starts it; in a service `require` of this module
---raises. `ltask.start` does all of it from one table.
---@class ltask.bootstrap
local bootstrap = {}

---Makes a system without services, and writes the values in force back into the table. One at a time in each VM.
---@param config ltask.CoreConfig
function bootstrap.init(config) end

---Does nothing: timers need no help.
function bootstrap.init_timer() end

---Does nothing: sockets need no help.
function bootstrap.init_socket() end

---Checks that root is service 1, as it must be.
---@param id integer
function bootstrap.init_root(id) end

---Makes a service, which runs when it has a message. Also in the form of G1, `new_service(label, source, id)`,
---where a source that begins with `@` names a file, and failures raise.
---@param label string
---@param source string Lua text or a precompiled chunk: the main function
---@param chunkname string
---@param id? ltask.Address default: the next one
---@param worker? integer the worker to keep it on, from 0
---@return ltask.Address|false id
---@return string? message
---@overload fun(label: string, source: string, id?: ltask.Address): ltask.Address
function bootstrap.new_service(label, source, chunkname, id, worker) end

---Gives a service a thread of its own, before the system runs (G1).
---@param id ltask.Address
function bootstrap.new_thread(id) end

---Runs a VM on a thread of its own before the system runs: its main function is resumed with `true` again and
---again (G1).
---@param source string Lua text, or `@` and a file
---@return lightuserdata early for `new_service_preinit`
function bootstrap.preinit(source) end

---Makes a service of such a VM; its main function is resumed with nothing from now on (G1).
---@param label string
---@param id ltask.Address
---@param early lightuserdata what `preinit` gave
---@return ltask.Address id
function bootstrap.new_service_preinit(label, id, early) end

---Posts a message. Raises `push message failed`.
---@param message ltask.PostedMessage
function bootstrap.post_message(message) end

---Runs the system until root has ended (G1); with an argument it returns at once (G2).
---@param mainthread? any nil counts, when it is given
---@return any result the exit code; with an argument a lightuserdata, for `wait`
function bootstrap.run(mainthread) end

---Waits until root has ended and every thread with it, and closes every VM.
---@param context? lightuserdata what `run` gave
---@return integer code the exit code
function bootstrap.wait(context) end

---Waits for a service that wants to run on this thread, and runs its slice.
---@param no_wait? boolean return at once when there is none
---@return boolean ran false: there is none, or the system ends
function bootstrap.mainthread_wait(no_wait) end

---Closes what is left of the system, and ends it first when it runs; another one may follow.
function bootstrap.deinit() end

---Gives C code of any thread a way to root: `int f(void *queue, void *message)`. The pointer reaches root's
---request `external`; not 0 is returned when it was not taken.
---@param context? lightuserdata
---@return lightuserdata f
---@return lightuserdata queue
function bootstrap.external_sender(context) end

---Gives C code of any thread a way to the log: `void f(void *log, void *data, size_t size)`. The data is a block
---of `malloc`, packed, and is taken.
---@param context? lightuserdata
---@return lightuserdata f
---@return lightuserdata log
function bootstrap.log_sender(context) end

---Adds an entry of service 0 to the log.
---@param pointer lightuserdata what `pack(level, …)` gave; it is taken
---@param size integer
function bootstrap.pushlog(pointer, size) end

---Takes the oldest entry of the log.
---@return integer? centiseconds since the epoch; nothing when the log is empty
---@return ltask.Address id who said it
---@return string? label
---@return lightuserdata pointer the caller's, for `unpack_remove`
---@return integer size
function bootstrap.poplog() end

---Why a system of `ltask.start` could not start; nil when it could, or has not tried yet. `ltask.start` raises it.
---@return string? reason
function bootstrap.boot_failure() end

---Packs values, as `ltask.pack`.
---@param ... any
---@return lightuserdata pointer
---@return integer size
function bootstrap.pack(...) end

---Unpacks values, as `ltask.unpack`.
---@param pointer lightuserdata|string
---@param size? integer
---@return any ...
function bootstrap.unpack(pointer, size) end

---Unpacks values and frees them, as `ltask.unpack_remove`.
---@param pointer lightuserdata?
---@param size integer?
---@return any ...
function bootstrap.unpack_remove(pointer, size) end

---Frees what `pack` gave.
---@param pointer lightuserdata?
---@param size integer?
function bootstrap.remove(pointer, size) end

---A message as it is.
---@class ltask.PostedMessage
---@field from? ltask.Address default 0
---@field to ltask.Address
---@field session? integer default 0: nobody waits for an answer
---@field type integer 0 SYSTEM, 1 REQUEST, 2 RESPONSE, 3 ERROR, 4 SIGNAL
---@field message? lightuserdata a block of `pack`, which is taken
---@field size? integer

---The scheduler's own values.
---@class ltask.CoreConfig
---@field worker? integer threads that run services; default: one less than there are cores, and at least 1
---@field queue? integer messages that a mailbox holds; default 4096
---@field queue_sending? integer messages that an exclusive service may have waiting (G1); default 4096
---@field max_service? integer services at a time; default 65536
---@field external_queue? integer external messages that may wait; default 4096
---@field log_queue? integer log lines that wait for the logger before lines are dropped; default 131072
---@field full? "error"|"wait" what becomes of a request to a full mailbox; default `"error"`
---@field watchdog? number|false seconds after which a slice is reported; default 5; 0 or false: never
---@field crashlog? string|false file for what ran when the process got a fatal signal
---@field debuglog? string|false file for what `ltask.debuglog` writes; `"="` is standard output

return bootstrap
