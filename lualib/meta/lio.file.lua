---@meta lio.file
-- Definitions of `lio.file` for the Lua language server. docs/build.lua generates docs/api/lio.file.md from them.

---Opens, reads and lists files for serving. A path below a folder cannot leave that folder. Fifos, sockets and devices
---are refused, because they could block the loop. `net.sendfile` sends the files.
---
---On failure, a call returns nil, a message and a code: `"not found"`, `"denied"`, `"outside"` (the path leaves the
---folder), `"not a file"`, `"ENOTDIR"`, `"closed"`, `"EMFILE"` …
---@class lio.file
local file = {}

---Opens a regular file or a directory for reading. Links are followed.
---@param path string
---@return lio.File? file
---@return string? message
---@return string? code
function file.open(path) end

---Opens a file inside a folder. The code is `"outside"` if the path is absolute or has a `..`, a NUL or a backslash, or
---if a link leads out of the folder. Links that stay inside are followed.
---@param root string|lio.Folder the folder, or its path
---@param path string relative to the folder; `""` is the folder itself
---@return lio.File? file
---@return string? message
---@return string? code
function file.open_beneath(root, path) end

---Opens a folder. Opening many files through one folder object saves a system call for each file.
---@param path string a relative path is relative to the current directory at the time of the call
---@return lio.Folder? folder
---@return string? message
---@return string? code
function file.folder(path) end

---Returns the current size of a regular file (fstat(2)).
---@param f lio.File|file*
---@return integer? bytes
---@return string? message
---@return string? code `"not a file"`, `"closed"` …
function file.measure(f) end

---The attributes of a file (stat(2)).
---@class lio.FileStat
---@field kind "file"|"directory"
---@field size integer bytes
---@field mtime integer when the content was last changed, in seconds since the Unix epoch
---@field mtime_ns integer the nanoseconds of that time, below 10^9
---@field inode integer
---@field device integer

---An open file. `<close>` and the collector close it.
---@class lio.File
local File = {}

---Returns the attributes that the file had when it was opened. Makes no system call.
---@return lio.FileStat stat
function File:stat() end

---Returns the kind of the file.
---@return "file"|"directory" kind
function File:kind() end

---Returns the size that the file had when it was opened.
---@return integer bytes
function File:size() end

---Reads at a position (pread(2)). A file has no current position. Blocks the thread while the disk is read.
---@param offset integer bytes from the start, 0 or more
---@param count integer bytes, 0 to 2^30; the result may be shorter
---@return string? data `""` at the end
---@return string? message
---@return string? code
function File:read(offset, count) end

---Returns the descriptor.
---@return lightuserdata? handle nil if the file is closed
function File:handle() end

---Closes the file. Idempotent.
function File:close() end

---Reports whether the file is closed.
---@return boolean
function File:is_closed() end

---A folder whose files are served. It follows its path: if the path leads to another directory, for example after a
---deployment has replaced a link, the folder uses the new directory within a second. `<close>` and the collector close
---it.
---@class lio.Folder
local Folder = {}

---Opens a file inside the folder; see `file.open_beneath`.
---@param path string relative to the folder; `""` is the folder itself
---@return lio.File? file
---@return string? message
---@return string? code
function Folder:open(path) end

---A file in a listing.
---@class lio.FolderEntry: lio.FileStat
---@field name string

---Lists a directory of the folder: directories first, then files, both sorted by name without regard to ASCII case. A
---link has the attributes of its target. Files that `open` refuses because of their kind or place are left out.
---@param path? string relative to the folder; default: the folder itself
---@param most? integer maximum number of entries, 1 to 2^24; default 10000
---@return lio.FolderEntry[]? entries
---@return boolean|string more whether the directory has more entries; on failure the message
---@return string? code
function Folder:list(path, most) end

---Returns the absolute path of the folder.
---@return string path
function Folder:path() end

---Closes the folder. Idempotent.
function Folder:close() end

---Reports whether the folder is closed.
---@return boolean
function Folder:is_closed() end

return file
