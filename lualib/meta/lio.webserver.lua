---@meta lio.webserver
-- Definitions of `lio.webserver` for the Lua language server. docs/build.lua generates docs/api/lio.webserver.md from
-- them.

---HTTP/1.1 servers (RFC 9110, RFC 9112). An app has routes and middleware. A handler receives a request and a response;
---it may wait. It answers with its return values or with the methods of the response. The return values are one of:
---`body`; `body, status`; `body, headers`; `body, status, headers`; `status`; `status, body`; `status, body, headers`;
---`res`; nothing. A body is a string (sent as plain text), a result of `web.html`, a table (sent as JSON), or a
---function that returns pieces until nil. A status is 200 to 599. If a handler returns other values, the client
---receives a 500, and the log names the handler and the values.
---@class lio.webserver
---@field defaults lio.WebOptions the default options of apps
local web = {}

---A function that answers a request. If a route has several handlers, each handler can call `next()` to run the next
---handler.
---@alias lio.Handler fun(req: lio.Request, res: lio.Response, next: fun()): any, any, any

---The limits of an app. None may be negative.
---@class lio.WebOptions
---@field request_line? integer maximum bytes of a request line, 1 to 2^30; default `8192`
---@field headers? integer maximum bytes of a header section, 1 to 2^30; default `32768`
---@field fields? integer maximum number of header fields of a request, 1 to 256; default `100`
---@field body? number maximum bytes of a request body: an integer of at least 0, or `math.huge`; default `8388608`
---@field header_time? number seconds from the first byte of a head to its blank line; default `10`
---@field keep_alive_time? number seconds that a connection may be idle; default `60`
---@field body_time? number seconds before a body's minimum rate applies, and longest pause of the client; default `10`
---@field body_rate? number minimum rate of a body in bytes per second; default `240`
---@field write_time? number seconds after which a send without progress fails; default `30`
---@field connections? number number of connections at which accepting pauses, at least 1; default `10000`
---@field requests? number maximum number of requests on one connection, at least 1; default `math.huge`
---@field grace? number seconds that a graceful stop waits for handlers; default: `loop.grace`, by default `10`
---@field debug? boolean whether error pages show tracebacks; default `false`

---Creates an app. An unknown option, or a value out of its range, raises.
---@param options? lio.WebOptions
---@return lio.App app
function web.new(options) end

---Returns the number of this worker and the number of workers; see `app:run`.
---@return integer? index counted from 1; nil if the program does not run in a worker
---@return integer? count
function web.worker() end

---A text that is sent as HTML.
---@class lio.Html

---Marks a text as HTML: a handler returns it in the place of a body. The type is `text/html; charset=utf-8`, unless the
---handler has set another `Content-Type`.
---@param text string
---@return lio.Html body
function web.html(text) end

---Escapes `&`, `<`, `>` and both quotes, for the content or for a quoted attribute of an HTML page.
---@param text string|number
---@return string escaped
function web.escape(text) end

---Percent-encodes all bytes except letters, digits and `-._~`, for one segment of a path, or for a name or a value of a
---query.
---@param text string|number
---@return string escaped
function web.url_escape(text) end

---Decodes each `%xx`. Other percent signs, and `+`, are not changed.
---@param text string
---@return string text
function web.url_unescape(text) end

---A web application.
---
---Patterns: `/users/:id` has a parameter for one segment, `/files/*path` a parameter for the remaining path. In
---`:id<%d+>` the parameter has a Lua pattern, which must match the whole value. An invalid pattern raises. The cost of
---matching does not depend on the number of routes. The handler of GET also answers HEAD; the app answers OPTIONS, and
---sends 404 and 405.
---@class lio.App
local App = {}

---Adds a route. Raises if the method and pattern already have a route.
---@param method string such as `"GET"`; `""` for every method; a known method in lower case raises
---@param pattern string
---@param ... lio.Handler at least one
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

---Adds a route for HEAD. Without such a route, the app sends the response of GET without its body.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:head(pattern, ...) end

---Adds a route for OPTIONS. Without such a route, the app answers with the methods that the path supports.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:options(pattern, ...) end

---Adds a route that matches every method.
---@param pattern string
---@param ... lio.Handler
---@return lio.App app itself
function App:any(pattern, ...) end

---@class lio.WebSocketOptions: lio.WebSocketShared
---@field protocols? string[] the supported subprotocols; the first one that the client offers is chosen
---@field origins? "same"|"any"|string[]|fun(origin: string, req: lio.Request): any allowed pages; default `"same"`

---Functions that are called for a connection, one call at a time except `close`. Each may wait.
---@class lio.WebSocketCallbacks
---@field open? fun(ws: lio.WebSocket, req: lio.Request) the connection is open
---@field message? fun(ws: lio.WebSocket, message: string, kind: lio.MessageKind) a message has arrived
---@field close? fun(ws: lio.WebSocket, code: integer, reason: string) the connection has ended

---@alias lio.WebSocketHandler fun(ws: lio.WebSocket, req: lio.Request)|lio.WebSocketCallbacks

---Adds a route that accepts WebSocket connections (RFC 6455). A function runs in a task for each connection, which is
---closed with the code 1000 when the function returns, and with 1011 if it raises. With a table of callbacks, a
---connection without messages has no task. A request that is not a WebSocket handshake is answered with 426, one from a
---page of another origin with 403. A server that stops closes its connections with the code 1001.
---@param pattern string
---@param opts lio.WebSocketOptions may be omitted
---@param handler lio.WebSocketHandler
---@return lio.App app itself
---@overload fun(self: lio.App, pattern: string, handler: lio.WebSocketHandler): lio.App
function App:ws(pattern, opts, handler) end

---Names the route that was added last, for `url_for`. Raises if the app already has a route with this name.
---@param name string does not begin with `/`
---@return lio.App app itself
function App:name(name) end

---Builds the path of a route, of this app or of a mounted app. Raises for an unknown route, for a missing or unknown
---parameter, and for a value that the route would not accept.
---@param route string a name, or the whole pattern of a route
---@param params? table<string, string|number> a value for each parameter of the pattern; it is escaped
---@param query? table<string, any> strings, numbers, booleans, or lists of these
---@return string path
function App:url_for(route, params, query) end

---Adds middleware, which runs around the handlers of all requests, or of those below a prefix, in the order of the
---calls of `use`. `next()` runs the inner middleware and the handler and puts their answer into `res`. The response is
---sent when the outermost middleware has returned. `next()` does not raise: an error inside is logged and answered,
---`res.code` is 500 (or the status set by `on_error`), and `res.error` is the error. After an error, the headers that
---were set before `next()` are kept, except headers that describe a body.
---@param prefix string begins with `/`; may be omitted
---@param middleware lio.Handler
---@return lio.App app itself
---@overload fun(self: lio.App, middleware: lio.Handler): lio.App
function App:use(prefix, middleware) end

---@class lio.StaticOptions
---@field list? boolean whether to list a directory that has no index file; default false
---@field index? string name of the index file of a directory; default `"index.html"`
---@field hidden? boolean whether to serve names that begin with a dot; default false
---@field max_age? number seconds that a file stays fresh, 0 or more; default: no `Cache-Control`
---@field immutable? boolean whether the files never change; only with `max_age`; default false
---@field cache_control? string the whole value of `Cache-Control`
---@field precompressed? boolean whether to use `.br` and `.gz` copies beside the files; default true
---@field cache? integer|false maximum bytes of memory for the contents of small files; default 8 MiB; false or 0: none
---@field cache_file? integer maximum size of a cached file in bytes, 0 or more; default 64 KiB

---Serves the files of a folder below a path, for GET and HEAD, with conditions and ranges (RFC 9110 sections 13 and 14)
---and compressed copies. A path that leaves the folder is answered with 404. Raises if the folder cannot be opened.
---@param prefix string begins with `/`
---@param dir string path of the folder
---@param opts? lio.StaticOptions
---@return lio.App app itself
function App:static(prefix, dir, opts) end

---Sets the function that answers if a handler raises. The status is 500 unless `f` sets another. If `f` gives no
---answer, the response is a plain 500.
---@param f fun(err: any, req: lio.Request, res: lio.Response, traceback: string): any, any, any
---@return lio.App app itself
function App:on_error(f) end

---Sets the handler for paths without a route. In a mounted app, it also answers if a path below the prefix has routes,
---but none for the method: `res.code` is then 405 and `Allow` is set. If it answers 404 in this case, the status is
---405.
---@param f lio.Handler
---@return lio.App app itself
function App:not_found(f) end

---@class lio.WebListenOptions: lio.ListenOptions
---@field addr? string address, if `where` is a port; default `"127.0.0.1"`; `"0.0.0.0"`: all interfaces
---@field proxy_protocol? lio.ProxyProtocol whether a header of the PROXY protocol comes first; default false
---@field tls? lio.TlsServer|lio.TlsServerOptions serves HTTPS; default of its `alpn`: `{ "http/1.1" }`

---@alias lio.ProxyProtocol boolean|"required"|"optional"|lio.ProxyProtocolOptions

---@class lio.ProxyProtocolOptions
---@field required? boolean whether a connection without a header closes; default true
---@field proxies? string[] the addresses whose header is read, as for `web.trust_proxy`; default: all

---Opens a listener and serves its connections as long as the loop runs.
---@param where number|string|lio.Socket port, `"addr:port"`, `"[v6]:port"`, `"unix:/path"` or a listening socket
---@param opts? lio.WebListenOptions
---@return lio.Server? server
---@return string? message
function App:listen(where, opts) end

---Creates a server without a listener: `server:admit(c)` serves a connection, such as one end of a socket pair.
---@return lio.Server server
function App:server() end

---Creates a client that sends requests to this app in memory, without a socket, for tests (`lio.testing`). The requests
---pass through the app's server, with its limits and time limits. Raises for an unknown or invalid option.
---@param opts? lio.TestClientOptions
---@return lio.TestClient client
function App:test(opts) end

---@class lio.WebRunOptions: lio.WebListenOptions
---@field workers? integer number of services that serve the address, 1 to 1024; default 1: this VM serves it
---@field watchdog? number CPU seconds after which an endless loop in a handler is reported; default 5; 0: never
---@field max_run_time? number CPU seconds after which a handler that does not wait gets status 503; default 0: never

---Opens a listener, prints its address, and serves until SIGINT, SIGTERM or `loop.stop`. Inside a running loop, serves
---until the server is stopped. Raises if it cannot listen. With TLS, SIGHUP makes the server read its certificates
---again, unless the program has a handler for SIGHUP.
---
---If there are several workers, this VM opens the sockets and boots the scheduler. Each worker is an exclusive service
---with its own loop. It runs the program's file again; this call of `run` then serves in the worker. Code after `run`
---executes in every worker, then in the parent. Raises if the program of a worker has failed.
---@param where number|string|lio.Socket as for `listen`
---@param opts? lio.WebRunOptions
function App:run(where, opts) end

---Makes the routes of another app available below a prefix, including routes that are added later. The handlers and the
---middleware of `other` receive `req.path` without the prefix. Its `on_error` and `not_found` apply below the prefix;
---its options do not.
---@param prefix string begins with `/`; may have parameters
---@param other lio.App
---@return lio.App app itself
function App:mount(prefix, other) end

---Adds a route with one handler.
---@private
function App:add_entry(method, pattern, handler, call, origin) end

---@class lio.WebCompressOptions
---@field min? integer minimum size in bytes of a body whose length is known, 0 or more; default `1024`
---@field types? string[]|fun(type: string): boolean media types, `"text/*"` for a group; default: compressible types
---@field level? integer|table<lio.Coding, integer> as for `lio.compress.encoder`
---@field codings? lio.Coding[] the codings to use, in order of preference; default `{ "br", "gzip", "deflate" }`

---Creates middleware that compresses bodies for clients that accept a coding (RFC 9110 section 12.5.3).
---@param options? lio.WebCompressOptions
---@return lio.Handler middleware
function web.compress(options) end

---@class lio.TrustProxyOptions
---@field proxies string[] addresses, networks such as `"10.0.0.0/8"`, `"loopback"`, `"private"`, `"unix:"`
---@field headers? string[] default `{ "X-Forwarded-For", "X-Forwarded-Proto" }`; see docs/proxies.md

---Creates middleware that sets `req.remote_addr`, `req.remote_port`, `req.is_tls` and `req.host` to the values that
---trusted proxies have forwarded. The client is the last address that is not a trusted proxy. Fields from other
---addresses are ignored.
---@param options lio.TrustProxyOptions
---@return lio.Handler middleware
function web.trust_proxy(options) end

---The values for a request's line in the log.
---@class lio.WebLogEntry
---@field time integer when the request arrived, in seconds since the Unix epoch
---@field ms integer the milliseconds of that time, 0 to 999
---@field duration number seconds from the start of the middleware to the end of the response
---@field method string
---@field target string as sent
---@field path string decoded, without the query
---@field version string
---@field status? integer nil if there was no response
---@field bytes integer bytes of the body that were sent
---@field aborted boolean whether the response was cut short
---@field remote? string ip of the client
---@field agent? string
---@field referer? string
---@field user? any `req.user`, if the program has set it
---@field request_id? any `req.id` or `req.request_id`, if set; otherwise the header `X-Request-Id`

---@class lio.WebLogOptions
---@field format? "combined"|"json"|fun(entry: lio.WebLogEntry, req: lio.Request, res: lio.Response): string?
---@field file? string|file*|table|fun(text: string) path, object with `write`, or function; default: standard output

---Creates middleware that logs each request when its response has been sent. The default of `format` is `"combined"`; a
---function returns the line, or nil for no line. Raises if the file cannot be opened.
---@param options? lio.WebLogOptions
---@return lio.Log log
function web.log(options) end

---An access log: middleware with methods. Lines are buffered for at most 0.2 seconds.
---@class lio.Log
---@overload fun(req: lio.Request, res: lio.Response, next: fun())
local Log = {}

---Writes the buffered lines.
---@return true? ok
---@return string? message
function Log:flush() end

---Opens the file by its name again, after it was moved away. On failure, keeps the old file.
---@return true? ok
---@return string? message
function Log:reopen() end

---Writes the buffered lines and closes the file, if `web.log` opened it.
function Log:close() end

return web
