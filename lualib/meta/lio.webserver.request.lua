---@meta _
-- Requests in the definitions of `lio.webserver`. docs/build.lua generates docs/api/lio.webserver.request.md from them.

---Requests, and the files of their forms.

---A request. A field is computed when it is first read. Handlers may set further fields.
---@class lio.Request
---@field method string as sent
---@field path string decoded; in a mounted app, without the prefix
---@field base string the prefix of the mounted app; `""` outside mounted apps
---@field original_path string decoded, with the prefix
---@field raw_path string as sent
---@field target string request target as sent
---@field raw_query? string the text after the `?`
---@field query table<string, string|string[]> decoded; a list for a repeated key, `""` for a key without `=`
---@field params table<string, string> the parameters of the route, decoded
---@field headers table<string, string> case-insensitive; repeated headers are joined; `pairs` returns lower-case names
---@field cookies table<string, string> the first value of each name
---@field version "1.0"|"1.1"
---@field host? string `host[:port]`
---@field remote_addr? string ip of the client, `"unix:"` for a unix socket; nil if the client has disconnected
---@field remote_port? integer
---@field is_tls boolean whether the client uses TLS, to this server or to a trusted proxy (`web.trust_proxy`)
---@field tls lio.TlsInfo TLS on the connection to this server; nil if there is none
---@field proxy_addr? string the address of the proxy, if `web.trust_proxy` has set `remote_addr`
---@field id string set by `web.request_id`
---@field user any set by `web.basic_auth`
---@field session lio.Session set by `web.sessions`
---@field csrf_token fun(): string set by `web.csrf`; returns the token for a form
---@field upgrade? string the protocols that the client offers in `Upgrade`; nil if there are none
local Request = {}

---Returns the value of a header, without regard to case.
---@param name string
---@return string? value several values are joined with `, `
function Request:header(name) end

---Returns all values of a header, in order.
---@param name string
---@return string[] values
function Request:header_all(name) end

---Reads the whole body. If the body is refused and the handler gives no answer, the client receives the refusal, unless
---a later call with a larger limit succeeds. After `stream`, returns the rest of the body.
---@param limit? integer maximum number of bytes, 0 or more; default: the app's option `body`
---@return string? body `""` if there is none
---@return string? reason
---@return integer? status the status of the refusal, such as 413
---@return_overload string
---@return_overload nil, string, integer
function Request:body(limit) end

---`for piece in req:stream(limit) do`: reads the body in pieces as they arrive. A piece is read only when the loop asks
---for it. After `body`, the only piece is the whole body. Raises if the body ends early or is refused.
---@param limit? integer maximum number of bytes, 0 or more; default: the app's option `body`
---@return fun(): string? iterator
function Request:stream(limit) end

---Reads and decodes a JSON body, an object or an array. Another value, such as `null` or a number, is refused with 400;
---`json.decode(req:body())` accepts it.
---@param limit? integer maximum number of bytes, 0 or more; default: the app's option `body`
---@return table? value
---@return string? reason
---@return integer? status
---@return_overload table
---@return_overload nil, string, integer
function Request:json(limit) end

---The options of `req:form`. If a limit is exceeded, the form is refused with 413. No limit may be negative.
---@class lio.FormOptions
---@field body? number maximum bytes of the whole body; default: the app's option `body`
---@field parts? number maximum number of fields and files together; default `1000`
---@field part_headers? number maximum bytes of the headers of one part, at most 2^30; default `8192`
---@field field? number maximum bytes of the value of one field in a multipart form; default `1048576`
---@field fields? number maximum bytes of all fields, names and values; default `8388608`
---@field file? number maximum bytes of one file; default `math.huge`
---@field files? number maximum number of files; default `100`
---@field dir? string folder for temporary files; default `$TMPDIR`; if it is not set, `/var/tmp` or `/tmp`
---@field on_file? fun(part: lio.Part) called for each file when it starts to arrive; the file is then not stored

---Reads and decodes a form, urlencoded or multipart (RFC 7578). Files are stored in temporary files, which are deleted
---when the request ends. With `on_file`, each file is passed to that function while it arrives; data that the function
---does not read is skipped. A file input without a chosen file is left out. A second call returns the same results. If
---`on_file` raises, `form` raises its error.
---@param opts? lio.FormOptions|integer a number is the limit `body`
---@return table<string, string|string[]>? fields a list for a repeated name
---@return table|string files `lio.Part`s in order, and by name (a list for a repeated name); on failure the reason
---@return integer? status 400, 413, 415 …
---@return_overload table<string, string|string[]>, table
---@return_overload nil, string, integer
function Request:form(opts) end

---Returns one string: the value of a parameter of the route, of the query, or of a form in the body, in this order. If
---a name is repeated, returns its first value. The body is read only if its type is that of a form. If the form is
---refused, returns the default; the refusal is then the response, unless the handler sets another.
---@param name string
---@param default? string
---@return string? value
function Request:arg(name, default) end

---@alias lio.RuleType "string"|"integer"|"number"|"boolean"|"array"|"object"|"any"

---A rule of `req:validate`. A condition whose type is wrong, or that the type of the value cannot have, raises.
---@class lio.Rule
---@field type? lio.RuleType|string default `"string"`; with a final `?`, the value is optional
---@field optional? boolean whether the value may be absent; default false
---@field default? any the result if the value is absent
---@field min? number the least number, or the least number of characters or items
---@field max? number
---@field pattern? string a Lua pattern that the whole string matches
---@field one_of? any[] the valid values
---@field each? string|lio.Rule the rule of each item of a list
---@field fields? table<string, string|lio.Rule> the rules of the fields of an object
---@field check? fun(value: any): any, string? returns whether the value is valid, and otherwise a message
---@field message? string the message of every problem

---Converts and checks the values of a request. Returns those that have a rule. If a value is missing or invalid, raises
---a `lio.InvalidRequest`. Unless the handler catches it, the client gets 422 and the problems as JSON, and nothing is
---logged. The values come from JSON, a form or, if there is no `Content-Type`, the query. For another type, and for a
---malformed body, the status is 415, 400 or 413.
---@param rules table<string, string|lio.Rule>
---@param opts? { from: "json"|"form"|"query"|"params" } where the values come from
---@return table<string, any> values
function Request:validate(rules, opts) end

---The error of `req:validate`.
---@class lio.InvalidRequest
---@field status integer 422; 400, 413 or 415 if the body cannot be read
---@field problems { field: string, message: string }[] sorted by field; the field is `""` if the body cannot be read

---Returns the trailer fields of a chunked body (RFC 9112 section 7.1.2).
---@return table<string, string> trailers by lower-case name; empty until the body was read
function Request:trailers() end

---Takes over the connection, with its buffered bytes, for upgrades and tunnels. The server no longer uses it: the
---caller must close it, and the server's timeouts no longer apply. Raises if the request has been answered.
---@return lio.Connection connection
function Request:take_over() end

---A file of a multipart form: stored, or still arriving (in `on_file`). It is deleted when the request has been
---answered, unless it was moved; after that its methods raise. A method also raises if it needs more of the body and
---the body is refused.
---@class lio.Part
---@field name string name of the form field
---@field filename string as sent by the client, or `""`; do not use it as a path
---@field basename string last component of `filename` without control characters, at most 255 bytes; or `"file"`
---@field content_type string as sent by the client; default `"application/octet-stream"`
---@field headers table<string, string> the headers of the part, by lower-case name
---@field size integer bytes that have arrived
---@field path string a path at which this process and its children can open the file; after `move` the new path
local Part = {}

---`for piece in part:stream() do`: reads the content in pieces. If the part is still arriving, a piece is read only
---when the loop asks for it, and it is not stored.
---@return fun(): string? iterator
function Part:stream() end

---Reads the whole content. If it is longer than the limit, a call with a larger limit may follow.
---@param limit? integer maximum number of bytes; default: no limit except those of the form
---@return string? content
---@return string? reason
---@return integer? status 413
function Part:read(limit) end

---Stores an arriving part, as `form` does without `on_file`. Raises if a piece has already been read.
---@return lio.Part part itself
function Part:keep() end

---Opens the stored file.
---@param mode? string as for `io.open`; default `"rb"`
---@return file*? file
---@return string? message
---@return integer? code
function Part:open(mode) end

---Gives the stored file a permanent name: at once if the path is on the same file system, otherwise by a copy. A
---further call gives the file another name. The umask determines the file's permissions.
---@param path string
---@param opts? { replace: boolean } whether to replace an existing file; default `false`
---@return true? ok
---@return string? message
---@return string? code `"exists"`, `"not found"` …
function Part:move(path, opts) end

---Deletes the temporary file before the request ends. Idempotent.
function Part:close() end
