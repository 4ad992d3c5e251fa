---@meta lio.file
-- Definitions of `lio.file` for the Lua language server; docs/build.lua makes docs/api/lio.file.md of them.

---Files for serving: opened so that nothing outside a folder is reached and nothing makes the loop wait,
---read by position, sent with `net.sendfile`. Fifos, sockets and devices are refused.
---
---Failures are `nil, message, code`: `"not found"`, `"denied"`, `"outside"` (the path leaves the folder),
---`"not a file"`, `"ENOTDIR"`, `"closed"`, `"EMFILE"` …
---@class lio.file
local file = {}

---Opens a regular file or a directory for reading.
---@param path string
---@return lio.File? file
---@return string? message
---@return string? code
function file.open(path) end

---Opens a file below a folder, and nothing else: a path that is absolute or has a `..`, a NUL or a backslash
---is refused, and so is a link that leads out of the folder. Links that stay inside are followed.
---@param root string|lio.Folder the folder, or its path
---@param path string `""` is the folder itself
---@return lio.File? file
---@return string? message
---@return string? code
function file.open_beneath(root, path) end

---Opens a folder, to open many files below it: each costs one system call less.
---@param path string a relative one counts from where the process is now
---@return lio.Folder? folder
---@return string? message
---@return string? code
function file.folder(path) end

---Tells how large a regular file is now.
---@param f lio.File|file*
---@return integer? bytes
---@return string? message
---@return string? code
function file.measure(f) end

---What is known of a file.
---@class lio.FileStat
---@field kind "file"|"directory"
---@field size integer bytes
---@field mtime integer when the content was changed: seconds since the Unix epoch
---@field mtime_ns integer the rest of that time in nanoseconds, below 10^9
---@field inode integer
---@field device integer

---An open file. `<close>` closes it.
---@class lio.File
local File = {}

---Tells what was known of it when it was opened. No system call.
---@return lio.FileStat stat
function File:stat() end

---Tells what it is.
---@return "file"|"directory" kind
function File:kind() end

---Tells how many bytes it had when it was opened.
---@return integer bytes
function File:size() end

---Reads at a position; there is no current one. The thread waits for the disk.
---@param offset integer bytes from the start, 0 and up
---@param count integer bytes, 0 to 2^30; less may come
---@return string? data `""` at the end
---@return string? message
---@return string? code
function File:read(offset, count) end

---Gives the descriptor.
---@return lightuserdata? handle nil once it is closed
function File:handle() end

---Closes it. Idempotent.
function File:close() end

---Tells whether it is closed.
---@return boolean
function File:is_closed() end

---A folder whose files are served. It follows its path: when that leads elsewhere, as after a deployment
---that swaps a link, the new place is found within a second. `<close>` closes it.
---@class lio.Folder
local Folder = {}

---Opens a file below the folder; see `file.open_beneath`.
---@param path string
---@return lio.File? file
---@return string? message
---@return string? code
function Folder:open(path) end

---@class lio.FolderEntry: lio.FileStat
---@field name string

---Lists a directory of the folder: directories first, then by name. Links count as what they lead to; what
---could not be opened by its kind or place is left out.
---@param path? string default: the folder itself
---@param most? integer entries, 1 to 2^24; default 10000
---@return lio.FolderEntry[]? entries
---@return boolean|string more whether there are more; the message, when it fails
---@return string? code
function Folder:list(path, most) end

---Gives its absolute path.
---@return string path
function Folder:path() end

---Closes it. Idempotent.
function Folder:close() end

---Tells whether it is closed.
---@return boolean
function Folder:is_closed() end

return file
