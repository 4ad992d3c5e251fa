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
