---@meta bee.select
-- Definitions of `bee.select` for the Lua language server; docs/build.lua makes docs/api/bee.select.md of them.

---lio's selector with bee's calls. The differences: `wait` takes milliseconds, `event_add` replaces, `event_del` always
---returns true, and a closed selector may be used again.
---@class bee.select
---@field SELECT_READ integer 1
---@field SELECT_WRITE integer 2
local select = {}

---Makes a selector.
---@param max_events? integer how many events one wait takes from the system, 1 to 65536; default 1024
---@return bee.Selector? selector
---@return string? message
---@return string? code
function select.create(max_events) end

---A selector; see `lio.Selector`, whose other rules hold.
---@class bee.Selector
local Selector = {}

---Registers a descriptor, or replaces events and udata of a registered one.
---@param fd lio.Descriptor
---@param events integer 0 to 3
---@param udata? any default `fd`
---@return true? ok
---@return string? message
---@return string? code
function Selector:event_add(fd, events, udata) end

---Changes what is asked for, and the udata when one is given.
---@param fd lio.Descriptor
---@param events integer 0 to 3
---@param udata? any
---@return true? ok
---@return string? message
---@return string? code
function Selector:event_mod(fd, events, udata) end

---Forgets a descriptor. One that is not registered is no error.
---@param fd lio.Descriptor
---@return true
function Selector:event_del(fd) end

---`for udata, events in s:wait(milliseconds) do`: blocks until something is ready, then yields each ready
---registration once. Without a time-out it raises when no registration asks for any event.
---@param milliseconds? number absent or negative: for ever; 0: poll
---@return fun(): any, integer iterator udata and bits
function Selector:wait(milliseconds) end

---Forgets all registrations and gives the descriptor back. The next call opens the selector again.
---@return true
function Selector:close() end

return select
