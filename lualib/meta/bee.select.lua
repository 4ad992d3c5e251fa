---@meta bee.select
-- Definitions of `bee.select` for the Lua language server. docs/build.lua generates docs/api/bee.select.md from them.

---lio's selector with bee's calls. The differences from `lio.Selector`: the timeout of `wait` is in milliseconds,
---`event_add` replaces a registration, `event_del` always returns true, and a closed selector can be used again.
---@class bee.select
---@field SELECT_READ integer 1: reading
---@field SELECT_WRITE integer 2: writing
local select = {}

---Creates a selector.
---@param max_events? integer maximum number of events that one wait takes from the system, 1 to 65536; default 1024
---@return bee.Selector selector nil if no descriptor is left
---@return string? message
---@return string? code
function select.create(max_events) end

---A selector. Except for the differences listed in `bee.select`, the rules of `lio.Selector` apply.
---@class bee.Selector
local Selector = {}

---Registers a descriptor. If it is already registered, replaces its events and its udata.
---@param fd lio.Descriptor
---@param events integer `SELECT_READ`, `SELECT_WRITE`, their sum, or 0
---@param udata? any the value that `wait` yields for the descriptor; default `fd`
---@return true? ok
---@return string? message
---@return string? code `"denied"`: a regular file or directory; `"closed"`: `fd` is closed
function Selector:event_add(fd, events, udata) end

---Changes the events of a registration, and its udata if one is given.
---@param fd lio.Descriptor
---@param events integer 0 to 3, as for `event_add`
---@param udata? any default: no change
---@return true? ok
---@return string? message
---@return string? code `"not found"` if the descriptor is not registered
function Selector:event_mod(fd, events, udata) end

---Removes a registration. If the descriptor is not registered, does nothing.
---@param fd lio.Descriptor
---@return true
function Selector:event_del(fd) end

---`for udata, events in s:wait(milliseconds) do`: blocks until a registration is ready or the timeout has passed, then
---yields each ready registration once. Raises if no timeout is given and no registration has events. Also raises if
---called inside the loop over an earlier wait of the same selector.
---@param milliseconds? number absent or negative: no timeout; 0: returns at once
---@return fun(): any, integer iterator yields udata and event bits
function Selector:wait(milliseconds) end

---Removes all registrations and closes the selector's descriptor. The next `event_add`, `event_mod` or `wait` opens the
---selector again.
---@return true
function Selector:close() end

return select
