---@meta lio.http.client
-- Definitions of `lio.http.client` for the Lua language server; docs/build.lua makes docs/api/lio.http.client.md
-- of them.

---Requests to HTTP/1.1 servers, over connections that are kept. The functions of the module are those of one
---client that it makes at its first request. Whatever goes wrong outside of the program is
---`nil, message, code`; misuse raises. The guide is `docs/http_client.md`.
---@class lio.http.client
---@field defaults table the options of clients that are given none of their own
local client = {}

---What requests may have; a client's are those of all its requests. Times are seconds, `false` is no limit.
---@class lio.HttpShared
---@field timeout? number|false for all of it, redirects and body included; default none
---@field connect_timeout? number|false until there is a connection, waiting for a place included; default `10`
---@field read_timeout? number|false until the answer begins, and that its body may stand still; default `60`
---@field write_timeout? number|false that sending may stand still; default `60`
---@field redirects? integer how many are followed; default `10`, 0 returns the answer that redirects
---@field limit? integer bytes of an answer's body, decoded and encoded; default 64 MiB, of a streamed one none
---@field decode? boolean whether gzip, deflate and br are asked for and undone; default `true`
---@field headers? table name to value or list of values, or a list of `{ name, value }`
---@field proxy? string|false address of an HTTP proxy, `"http://[user:password@]host:port"`
---@field socket? string path of a unix socket to connect to, whatever the address says

---@class lio.HttpOptions: lio.HttpShared
---@field url? string `http://[user:password@]host[:port]/path?query`, or relative to the client's `base_url`
---@field method? string default `"GET"`
---@field query? string|table more of a query: text that is encoded already, or keys to values; a list repeats its key
---@field body? string|string[]|(fun(): string?, string?)|file* pieces until nil, or nil and a message
---@field json? any sent as JSON
---@field form? table sent urlencoded; as `query`
---@field stream? boolean whether the body is left to be read by `stream`, `piece` or `text`
---@field expect_continue? boolean|number whether to ask before the body is sent; the seconds to wait: 1
---@field idempotent? boolean whether it may be sent again when it was lost; default by its method

---@class lio.HttpClientOptions: lio.HttpShared
---@field base_url? string what relative addresses count from
---@field max_idle? integer connections kept without a request; default `100`
---@field max_idle_per_host? integer those to one server; default `16`
---@field max_per_host? number connections to one server at a time, beyond it requests wait; default `math.huge`
---@field idle_timeout? number seconds an idle connection is kept; default `60`
---@field max_header? integer bytes of an answer's header section; default `65536`
---@field max_fields? integer header fields of an answer, 256 at most; default `200`
---@field net? table an instance of `lio.net`; default that of this VM's host

---Makes a client. An unknown option, or a value out of its range, raises.
---@param options? lio.HttpClientOptions
---@return lio.HttpClient client
function client.new(options) end

---Sends a request and reads its answer. Any status is an answer. Codes of failures: `"url"`, `"tls"` (an https
---address: TLS is not there yet), words of `lio.net` (`"timeout"`, `"refused"`, `"unresolved"`, `"closed"`,
---`"reset"` …), `"protocol"` (what came is no right answer), `"truncated"`, `"too long"`, `"corrupt"` (a coded body),
---`"redirect"`, `"body"` (the request's could not be had).
---@param options lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.request(options) end

---`request` with the method GET.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.get(url, options) end

---`request` with the method HEAD.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.head(url, options) end

---`request` with the method POST.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.post(url, options) end

---`request` with the method PUT.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.put(url, options) end

---`request` with the method PATCH.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.patch(url, options) end

---`request` with the method DELETE.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function client.delete(url, options) end

---Connections of the module's client: those there are and how many of them are idle; how often one was opened,
---and used again.
---@return { open: integer, idle: integer, opened: integer, reused: integer } counts
function client.counts() end

---Closes the module's connections that no request uses.
function client.close_idle() end

---A client with connections of its own, which are closed by `close`, or at the end of a `<close>` variable.
---@class lio.HttpClient
local HttpClient = {}

---As `client.request`.
---@param options lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:request(options) end

---`request` with the method GET.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:get(url, options) end

---`request` with the method HEAD.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:head(url, options) end

---`request` with the method POST.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:post(url, options) end

---`request` with the method PUT.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:put(url, options) end

---`request` with the method PATCH.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:patch(url, options) end

---`request` with the method DELETE.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
function HttpClient:delete(url, options) end

---Connections: those there are and how many of them are idle; how often one was opened, and used again.
---@return { open: integer, idle: integer, opened: integer, reused: integer } counts
function HttpClient:counts() end

---Closes the connections that no request uses.
function HttpClient:close_idle() end

---Closes all connections; requests that go on, and later ones, get `nil, "closed", "closed"`.
function HttpClient:close() end

---An answer. A streamed one owns its connection until its body was read to the end; `close`, the end of a
---`<close>` variable, and leaving the loop of `stream` give it up.
---@class lio.HttpResponse
---@field status integer 200 to 999, or 101
---@field reason string may be empty
---@field version string `"1.0"` or `"1.1"`
---@field headers table<string, string> by name, case-blind; repeated ones joined by `, `
---@field body? string unless it is streamed
---@field trailers table<string, string> fields behind a chunked body, once it was read
---@field url string of the last request
---@field history { status: integer, url: string, headers: table<string, string> }[] the answers that were followed
local HttpResponse = {}

---The values of a header.
---@param name string
---@return string[] values in order
function HttpResponse:header_all(name) end

---All headers, repeated ones as such.
---@return string[] list names and values in turn, as sent
function HttpResponse:header_list() end

---The body, or what is left of it.
---@return string? text
---@return string? message
---@return string? code
function HttpResponse:text() end

---The body, decoded as JSON.
---@return any value
---@return string? message
---@return string? code
function HttpResponse:json() end

---Reads on in a streamed body.
---@return string? piece nil at its end
---@return string? message
---@return string? code
function HttpResponse:piece() end

---`for piece in res:stream() do`: a streamed body in pieces, as they come. One that breaks off raises. To leave the
---loop closes the answer.
---@return fun(): string? piece
function HttpResponse:stream() end

---Gives up the rest of the body. Idempotent.
function HttpResponse:close() end

---The connection of an answer that switches protocols (101), with what is buffered of it; the caller has to close it.
---Raises for other answers.
---@return lio.Connection connection
function HttpResponse:take_over() end

return client
