---@meta lio.webserver
-- Definitions of `lio.webserver` for the Lua language server; docs/build.lua makes docs/api/lio.webserver.md of them.

---HTTP servers. An app has routes and middleware; handlers get a request and a response, may wait, and
---answer by what they return or by the methods of the response. A body is a string, a table (JSON) or a function
---that gives pieces until nil. The forms: `body`, `body, status`, `body, headers`, `body, status, headers`,
---`status`, `status, body`, `status, body, headers`, and nothing; other values are a 500 whose log entry names them.
---@class lio.webserver
---@field defaults lio.WebOptions the limits of apps that are given none of their own
local web = {}

---What answers a request. Several handlers of one route run in turn, each calling `next()`.
---@alias lio.Handler fun(req: lio.Request, res: lio.Response, next?: fun()): any, any, table?

---Limits of an app. None may be negative.
---@class lio.WebOptions
---@field request_line? integer bytes of a request line, 1 to 2^30; default `8192`
---@field headers? integer bytes of a header section, 1 to 2^30; default `32768`
---@field fields? integer header fields of a request, 1 to 256; default `100`
---@field body? integer bytes of a request's body, 0 and up; default `8388608`
---@field header_time? number seconds from a head's first byte to its blank line; default `10`
---@field keep_alive_time? number seconds a connection may stay without a request; default `60`
---@field body_time? number seconds before a body's minimum rate counts; default `10`
---@field body_rate? number bytes a second that a body must come in with; default `240`
---@field write_time? number seconds that sending may stand still; default `30`
---@field connections? number connections at a time; beyond it accepting pauses; default `10000`
---@field requests? number requests on one connection; default `math.huge`
---@field grace? number seconds a graceful stop waits for handlers; `loop.grace` unless set; default `10`
---@field debug? boolean whether the page of an error shows its traceback; default `false`

---Makes an app. An unknown option, or a value out of its range, raises.
---@param options? lio.WebOptions
---@return lio.App app
function web.new(options) end

---This worker's number, and how many there are; nil where the program runs in none, see `app:run`.
---@return integer? index from 1
---@return integer? count
function web.worker() end

---A web application.
---
---Patterns: `/users/:id` has a parameter for one segment, `/files/*path` one for the rest of the path;
---`:id<%d+>` has a Lua pattern that the value must match as a whole. A wrong one raises. Matching costs
---the same however many routes there are. HEAD is answered by the handler of GET, OPTIONS, 404 and 405 by
---the app.
---@class lio.App
local App = {}

---Adds a route.
---@param method string in capitals; `""` for any
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:route(method, pattern, ...) end

---Adds a route for GET (and HEAD).
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:get(pattern, ...) end

---Adds a route for POST.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:post(pattern, ...) end

---Adds a route for PUT.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:put(pattern, ...) end

---Adds a route for PATCH.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:patch(pattern, ...) end

---Adds a route for DELETE.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:delete(pattern, ...) end

---Adds a route for HEAD, in the place of GET's answer without a body.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:head(pattern, ...) end

---Adds a route for OPTIONS, in the place of the automatic answer.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:options(pattern, ...) end

---Adds a route for any method.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:any(pattern, ...) end

---Adds middleware, which runs around the handlers of all requests or of those below a prefix, in the order
---of `use`. `next()` runs what is inside; what that returned is in `res` then, and goes out when the
---outermost has returned. `next()` raises nothing: an error inside is logged and answered, `res.code` is 500 then
---and `res.error` the value that was raised. Headers that were set before `next()` stay, but for those that
---describe a body.
---@param prefix string begins with `/`; may be left out
---@param middleware lio.Handler
---@return lio.App app itself
---@overload fun(self: lio.App, middleware: lio.Handler): lio.App
function App:use(prefix, middleware) end

---@class lio.StaticOptions
---@field list? boolean whether a directory without an index is listed; default false
---@field index? string name of a directory's own page; default `"index.html"`
---@field hidden? boolean whether names that begin with a dot are served; default false
---@field max_age? number seconds that the files stay fresh: `Cache-Control`; default: nothing is said
---@field immutable? boolean whether they never change; with `max_age`
---@field cache_control? string the whole value of `Cache-Control`
---@field precompressed? boolean whether `.br` and `.gz` copies beside the files are used; default true
---@field cache? integer|false bytes of small files that are kept in memory; default 8 MiB; false or 0: none
---@field cache_file? integer bytes that one of them may have; default 64 KiB

---Serves the files of a folder below a path: GET and HEAD, conditions, ranges, compressed copies. Paths that
---leave the folder are as if they were not there. Raises when the folder cannot be opened.
---@param prefix string begins with `/`
---@param dir string path of the folder
---@param opts? lio.StaticOptions
---@return lio.App app itself
function App:static(prefix, dir, opts) end

---Sets who answers for a handler that raised, in the place of a plain 500. The status is 500 unless `f` sets another;
---without an answer of `f` the plain 500 goes out.
---@param f fun(err: any, req: lio.Request, res: lio.Response, traceback: string): any, any, table?
---@return lio.App app itself
function App:on_error(f) end

---Sets the handler for paths without a route. That of a mounted app also answers for methods that a path below its
---prefix does not have: `res.code` is 405 and `Allow` set when it is called, and a 404 of its own goes out as 405.
---@param f lio.Handler
---@return lio.App app itself
function App:not_found(f) end

---@class lio.WebListenOptions: lio.ListenOptions
---@field addr? string address for a `where` that is a port; default `"127.0.0.1"`, `"0.0.0.0"` for every network

---Listens, and serves as long as the loop runs.
---@param where integer|string|lio.Socket port, `"addr:port"`, `"[v6]:port"`, `"unix:/path"` or a listening socket
---@param opts? lio.WebListenOptions
---@return lio.Server? server
---@return string? message
function App:listen(where, opts) end

---Makes a server that listens nowhere: `server:admit(c)` serves a connection that came in another way, such
---as one end of a socket pair.
---@return lio.Server server
function App:server() end

---@class lio.WebRunOptions: lio.WebListenOptions
---@field workers? integer services that serve the address, 1 to 1024; default 1: this VM does
---@field watchdog? number CPU seconds after which a worker in an endless loop is reported; default 5; 0: never

---Listens, prints the address once, and serves until SIGINT, SIGTERM or `loop.stop`; inside a loop that
---runs already, until the server is stopped. Raises when it cannot listen.
---
---With several workers this VM opens the sockets and boots the scheduler; the program's file runs once more in each
---worker, an exclusive service with a loop of its own, up to this call, which serves there. Code after
---`run` executes in every worker, then here. Raises when a worker's program failed.
---@param where integer|string|lio.Socket as for `listen`
---@param opts? lio.WebRunOptions
function App:run(where, opts) end

---Makes the routes of another app reachable below a prefix. Its handlers and middleware see `req.path`
---without the prefix; its `on_error` and `not_found` count below the prefix, its options do not. What is added
---to it later comes along.
---@param prefix string begins with `/`; may have parameters
---@param other lio.App
---@return lio.App app itself
function App:mount(prefix, other) end

---Adds a route with one handler.
---@private
function App:add_entry(method, pattern, handler, call, origin) end

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

---A response. What is set is kept until the handler and its middleware have returned; `write` begins to
---send at once, and what sets something raises from then on.
---@class lio.Response
---@field code? integer status, when one was set
---@field body? string|lio.File|fun(): string?
---@field error? any what was raised inside of `next()`
local Response = {}

---Sets the status.
---@param n integer 200 to 599
---@return lio.Response res itself
function Response:status(n) end

---Sets a header in the place of what was there; nil removes it. With the name alone: as `get_header`. What
---could split the response (CR, LF, NUL) raises. `false` for `Content-Type`: the body goes out without a type.
---@param name string
---@param value? string|number|false
---@return lio.Response res itself
---@overload fun(self: lio.Response, name: string): string?
function Response:header(name, value) end

---Adds one more header of a name.
---@param name string
---@param value string|number
---@return lio.Response res itself
function Response:add_header(name, value) end

---Gives a header that is set.
---@param name string
---@return string? value
function Response:get_header(name) end

---Adds a field behind the body (RFC 9112 section 7.1.2), at any time before its end; the body is sent in chunks then.
---HTTP/1.0 clients and HEAD do not get it. Raises for a field that is not allowed there (RFC 9110 section 6.5.1).
---@param name string
---@param value string|number
---@return lio.Response res itself
function Response:trailer(name, value) end

---@class lio.CookieOptions
---@field path? string
---@field domain? string
---@field max_age? integer seconds
---@field expires? string HTTP date
---@field secure? boolean
---@field http_only? boolean
---@field same_site? "strict"|"lax"|"none" `"none"` needs `secure`

---Sets a cookie (RFC 6265 section 4.1). A value with characters that must be escaped raises, and so does what
---browsers drop: a name with `__Secure-` without `secure`; with `__Host-` without that, `path = "/"`, or with `domain`.
---@param name string
---@param value string|number
---@param opts? lio.CookieOptions
---@return lio.Response res itself
function Response:cookie(name, value, opts) end

---Sets the body: a string, a list of strings, or a function that gives pieces until nil. Any other table, the empty
---one included, is sent as JSON.
---@param body string|table|fun(): string?
---@return lio.Response res itself
function Response:send(body) end

---Sets a JSON body. What JSON cannot hold raises.
---@param value any
---@return lio.Response res itself
function Response:json(value) end

---Answers with a redirect.
---@param url string
---@param status? integer default 302
---@return lio.Response res itself
function Response:redirect(url, status) end

---@class lio.FileOptions
---@field root? string folder that the path is below and cannot leave: for paths that come from a client
---@field type? string media type; default: by the name
---@field name? string the answer is a download of that name
---@field max_age? number seconds that it stays fresh: `Cache-Control`
---@field immutable? boolean whether it never changes; with `max_age`
---@field cache_control? string the whole value of `Cache-Control`
---@field precompressed? boolean whether `.br` and `.gz` copies beside the file are used; default true

---Answers with a file: conditions and ranges are looked at unless another status than 200 was set. When it
---cannot be had, the answer is 404, or 403, unless the handler says otherwise.
---@param path string
---@param opts? lio.FileOptions
---@return lio.Response? res itself
---@return string? message
---@return string? code as those of `lio.file`
function Response:file(path, opts) end

---Sends the head, if it has not gone, and a piece of the body, at once or together with others of this
---moment; waits while the peer does not read.
---@param piece string
---@return true? ok
---@return string? message when the peer is gone
function Response:write(piece) end

---Waits until all that was written is taken by the system.
---@return true? ok
---@return string? message when the peer is gone
function Response:flush() end

---Begins a stream of server-sent events; the head goes out at once. The handler has to stay as long as the
---stream is to live.
---@param opts? lio.SseOptions
---@return lio.Events events
function Response:sse(opts) end

---Calls `f` once when the answer is settled and before its head goes out, the last moment for headers. The
---latest given runs first.
---@param f fun(res: lio.Response, body?: string) `body` is nil when it comes in pieces
---@return lio.Response res itself
function Response:on_head(f) end

---Calls `f` when the answer is out or its client gone. It must not wait. The latest given runs first.
---@param f fun(req: lio.Request, res: lio.Response)
---@return lio.Response res itself
function Response:on_end(f) end

---Tells what went out; for `on_end`.
---@return integer? status nil when there was no answer
---@return integer bytes of the body, with the framing of chunks
---@return boolean cut whether the answer was cut short
function Response:sent() end

---Forgets what was set.
---@private
function Response:reset() end

---Keeps what a function of the library gives as an answer.
---@private
function Response:take(...) end

---Keeps what a function of the program returned.
---@private
function Response:take_from(what, f, ...) end

---Sets the answer for a body that was refused, when there is none.
---@private
function Response:take_refusal() end

---Sends the answer.
---@private
function Response:finish(...) end

---@class lio.SseOptions
---@field ping? number|false seconds between comments that keep the stream open in proxies; default `15`
---@field retry? integer milliseconds the client is to wait before it reconnects

---A stream of server-sent events. Once the client is gone, the server stops, or `close` was called, every call
---says so, and a handler's loop ends.
---@class lio.Events
local Events = {}

---Sends an event.
---@param data? string|number|table lines become fields of their own; a table becomes JSON
---@param event? string
---@param id? string|integer what the client sends as `Last-Event-ID` when it reconnects
---@param retry? integer milliseconds
---@return true? ok
---@return string? message `"closed"`
function Events:send(data, event, id, retry) end

---Sends a comment, which browsers ignore.
---@param text? string
---@return true? ok
---@return string? message `"closed"`
function Events:comment(text) end

---Waits until nothing can be sent any more.
---@param seconds? number the longest wait
---@return false? ok false after the time, else nil
---@return string reason `"closed"` or `"timeout"`
function Events:wait(seconds) end

---Tells whether nothing can be sent any more.
---@return boolean closed
function Events:is_closed() end

---Ends the stream. Browsers reconnect then.
---@return true ok
function Events:close() end

---Frees what the stream holds.
---@private
function Events:finish() end

---Sends a ping.
---@private
function Events:expired() end

---@class lio.WebCompressOptions
---@field min? integer bytes that a body of known length must have; default `1024`
---@field types? string[]|fun(type: string): boolean media types, `"text/*"` for a group; default: what shrinks
---@field level? integer|table<lio.Coding, integer> as of `lio.compress.encoder`
---@field codings? lio.Coding[] those to use, the best first; default `{ "br", "gzip", "deflate" }`

---Makes middleware that compresses bodies when the client accepts it.
---@param options? lio.WebCompressOptions
---@return lio.Handler middleware
function web.compress(options) end

---What is known about a request in its line of the log.
---@class lio.WebLogEntry
---@field time integer seconds since 1970 when the request came
---@field ms integer milliseconds of that second
---@field duration number seconds
---@field method string
---@field target string as sent
---@field path string decoded
---@field version string
---@field status? integer nil when there was no answer
---@field bytes integer of the body that were sent
---@field aborted boolean whether the answer was cut short
---@field remote? string
---@field agent? string
---@field referer? string
---@field user? any `req.user`, when the program has set it
---@field request_id? any `req.request_id`, when the program has set it, or the header `X-Request-Id`

---@class lio.WebLogOptions
---@field format? "combined"|"json"|fun(entry: lio.WebLogEntry, req: lio.Request, res: lio.Response): string?
---@field file? string|file*|table|fun(text: string) path or what has `write`; default: standard output

---Makes middleware that logs each request when its answer is out. Raises when the file cannot be opened.
---@param options? lio.WebLogOptions
---@return lio.Log log
function web.log(options) end

---An access log: middleware with methods. Lines are written together, 0.2 seconds after the first at the
---latest.
---@class lio.Log
---@overload fun(req: lio.Request, res: lio.Response, next: fun())
local Log = {}

---Writes what is kept.
---@return true? ok
---@return string? message
function Log:flush() end

---Opens the file by its name again, after it was moved away. On failure the old one stays.
---@return true? ok
---@return string? message
function Log:reopen() end

---Writes what is kept and closes the file that `web.log` has opened.
function Log:close() end

---Writes what is kept.
---@private
function Log:expired() end

return web
