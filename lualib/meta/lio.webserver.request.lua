---@meta _
-- Requests in the definitions of `lio.webserver`; docs/build.lua makes docs/api/lio.webserver.request.md of them.

---Requests, and the files of their forms.

---A request. Its fields are made when they are first read; a handler may set fields of its own.
---@class lio.Request
---@field method string as sent
---@field path string decoded; in a mounted app without the prefix
---@field base string the prefix of the mounted app, else `""`
---@field original_path string decoded, with the prefix
---@field raw_path string as sent
---@field target string request target as sent
---@field raw_query? string what stands behind the `?`
---@field query table<string, string|string[]> decoded; repeated keys as lists, a key without `=` as `""`
---@field params table<string, string> the route's parameters, decoded
---@field headers table<string, string> case-blind; repeated ones joined; `pairs` goes through lower-case names
---@field cookies table<string, string> the first of a name counts
---@field version "1.0"|"1.1"
---@field host? string `host[:port]`
---@field remote_addr? string ip of the client, `"unix:"` for a unix socket; nil when it is gone
---@field remote_port? integer
---@field is_tls boolean
---@field upgrade? string what the client offers to switch to
local Request = {}

---Gives a header's value, case-blind.
---@param name string
---@return string? value several joined by `, `
function Request:header(name) end

---Gives all values of a header, in order.
---@param name string
---@return string[] values
function Request:header_all(name) end

---Reads the whole body. When it is refused and the handler gives no answer of its own, the refusal is the
---answer.
---@param limit? integer bytes; default: the app's `body`
---@return string? body `""` when there is none
---@return string? reason
---@return integer? status that suits the refusal
function Request:body(limit) end

---`for piece in req:stream(limit) do`: the body in pieces, as they come; the next one is read when it is
---asked for. A body that ends early or is refused raises.
---@param limit? integer bytes; default: the app's `body`
---@return fun(): string? iterator
function Request:stream(limit) end

---Reads and decodes a JSON body, an object or an array. Any other value, such as `null` or a number, is refused with
---400; `json.decode(req:body())` takes those.
---@param limit? integer bytes; default: the app's `body`
---@return table? value nil when it fails
---@return string? reason
---@return integer? status
function Request:json(limit) end

---What `req:form` takes: limits, each 413 when it is passed, and what becomes of files.
---@class lio.FormOptions
---@field body? number bytes of the whole body; default: the app's `body`
---@field parts? number fields and files together; default `1000`
---@field part_headers? number bytes of one part's headers, at most 2^30; default `8192`
---@field field? number bytes of one field's value in a multipart form; default `1048576`
---@field fields? number bytes of all fields, names and values; default `8388608`
---@field file? number bytes of one file; default `math.huge`
---@field files? number how many files; default `100`
---@field dir? string folder whose file system has the temporary files; default `$TMPDIR`, else `/var/tmp` or `/tmp`
---@field on_file? fun(part: lio.Part) called for each file as it begins to come in, in the place of storing it

---Reads and decodes a form, urlencoded or multipart (RFC 7578). Files are stored in temporary files, which end
---with the request; with `on_file` each is given to that instead, while it comes in, and what that leaves
---unread is skipped. A file input without a choice is no file. Asked for twice, the same comes again.
---What `on_file` raises, `form` raises.
---@param opts? lio.FormOptions|integer a number is a limit for the body
---@return table<string, string|string[]>? fields repeated ones as lists
---@return table|string files `lio.Part`s in order, and by name (a list for a repeated one); or the reason
---@return integer? status
function Request:form(opts) end

---Gives the fields behind a chunked body.
---@return table<string, string> trailers by lower-case name; empty until the body was read
function Request:trailers() end

---Takes the connection over, with what is buffered of it: the server forgets it, the caller has to close
---it, and its time-outs are gone. For upgrades and tunnels. Raises when the request is answered already.
---@return lio.Connection connection
function Request:take_over() end

---A file of a multipart form: stored, or coming in (`on_file`). When the request has been answered it is gone,
---unless it was moved; its calls raise then. A call that needs more of a body that is refused raises.
---@class lio.Part
---@field name string of the form's field
---@field filename string as the client gave it, `""` for none: never use it as a path
---@field basename string last component of `filename`, no control characters, 255 bytes at most; or `"file"`
---@field content_type string as the client says; `"application/octet-stream"` when it does not
---@field headers table<string, string> the part's headers by lower-case name
---@field size integer bytes that have come
---@field path string where this process and its children can open the file; once it was moved, its new place
local Part = {}

---`for piece in part:stream() do`: the content in pieces. Of a part that is coming in each is read when it is asked
---for, and none is kept.
---@return fun(): string? iterator
function Part:stream() end

---Reads the content as a whole.
---@param limit? integer bytes; default: none but the form's
---@return string? content
---@return string? reason
---@return integer? status 413
function Part:read(limit) end

---Stores a part that is coming in, as `form` does without `on_file`. Raises when it was read already.
---@return lio.Part part itself
function Part:keep() end

---Opens the stored file.
---@param mode? string as of `io.open`; default `"rb"`
---@return file*? file
---@return string? message
---@return integer? code
function Part:open(mode) end

---Gives the stored file a name that stays, at once; on another file system by a copy. May be called for several
---names. The file's permissions follow the umask.
---@param path string
---@param opts? { replace: boolean } whether a file that is there is replaced; default `false`
---@return true? ok
---@return string? message
---@return string? code `"exists"`, `"not found"` …
function Part:move(path, opts) end

---Gives the temporary file back before the request ends. Idempotent.
function Part:close() end
