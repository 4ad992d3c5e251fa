---@meta lio.http.client
-- Definitions of `lio.http.client` for the Lua language server. docs/build.lua generates docs/api/lio.http.client.md
-- from them.

---Requests to HTTP/1.1 servers (RFC 9110, RFC 9112), over connections that are kept alive. The functions of the module
---use one client, which the module creates for its first request. A failure outside of the program is returned as
---`nil, message, code`; misuse raises. The guide is `docs/http_client.md`.
---@class lio.http.client
---@field defaults table the default options of clients
local client = {}

---Options of a request. The options of a client are the defaults for its requests. Times are in seconds, above 0;
---`false` means no limit.
---@class lio.HttpShared
---@field timeout? number|false for the whole request, including redirects and the body; default: no limit
---@field connect_timeout? number|false until a connection is open, including the wait for a free connection; default 10
---@field read_timeout? number|false until the response begins, and for each pause in its body; default `60`
---@field write_timeout? number|false for each pause in sending; default `60`
---@field redirects? integer maximum number of redirects to follow, 0 or more; 0: a redirect is returned; default `10`
---@field limit? number maximum bytes of the decoded body: an integer or `math.huge`; default 64 MiB; streams: no limit
---@field decode? boolean whether to accept and decode gzip, deflate and br; default `true`
---@field headers? table values, or lists of values, by name; or a list of `{ name, value }`
---@field proxy? string|false URL of an HTTP proxy, `"http[s]://[user:password@]host:port"`; for `https` URLs, a tunnel
---@field tls? true|lio.TlsClient|lio.TlsClientOptions for `https` URLs and proxies; default: the system's authorities
---@field socket? string path of a unix socket to connect to, for every URL

---@class lio.HttpOptions: lio.HttpShared
---@field url? string `http[s]://[user:password@]host[:port]/path?query`, or relative to the client's `base_url`
---@field method? string default `"GET"`
---@field query? string|table added to the query: encoded text, or values by key; a list adds one field for each element
---@field body? string|string[]|(fun(): string?, string?)|file* a function returns pieces until nil, or nil and an error
---@field json? any sent as JSON
---@field form? table sent as a urlencoded form; a table as for `query`
---@field stream? boolean whether the body is read later, by `stream`, `piece` or `text`; default `false`
---@field expect_continue? boolean|number seconds to wait for `100 Continue` before the body; `true`: 1; default `false`
---@field idempotent? boolean whether a lost request may be sent again; default: by its method (RFC 9110 section 9.2.2)

---@class lio.HttpClientOptions: lio.HttpShared
---@field base_url? string the URL to which other URLs are relative
---@field max_idle? number maximum number of idle connections: an integer or `math.huge`; default `100`
---@field max_idle_per_host? number maximum number of idle connections to one server: as for `max_idle`; default `16`
---@field max_per_host? number maximum number of connections to one server; further requests wait; default `math.huge`
---@field idle_timeout? number seconds to keep an idle connection, 0 or more; default `60`
---@field max_header? integer maximum bytes of a response's header section, 1 to 2^30; default `65536`
---@field max_fields? integer maximum number of header fields of a response, 1 to 256; default `200`
---@field net? table an instance of `lio.net`, or a table whose `__index` leads to one; its `connect` opens connections

---Creates a client. An unknown option, or a value out of its range, raises.
---@param options? lio.HttpClientOptions
---@return lio.HttpClient client
function client.new(options) end

---Sends a request and reads its response. A response with any status is a success. The codes of failures are `"url"`,
---`"tls"` (no encrypted connection, such as `certificate expired 3 days ago`), `"proxy"` (it opens no tunnel), those of
---`lio.net` (`"timeout"`, `"refused"`, `"unresolved"`, `"closed"`, `"reset"` …), `"protocol"` (the response is
---malformed), `"truncated"`, `"too long"`, `"corrupt"` (a body cannot be decoded), `"redirect"`, and `"body"` (the
---function or file of the request's body failed). Raises for an unknown option, an invalid value, and a header with CR,
---LF or NUL.
---@param options lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.request(options) end

---Makes a request with the method GET; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.get(url, options) end

---Makes a request with the method HEAD; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.head(url, options) end

---Makes a request with the method POST; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.post(url, options) end

---Makes a request with the method PUT; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.put(url, options) end

---Makes a request with the method PATCH; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.patch(url, options) end

---Makes a request with the method DELETE; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function client.delete(url, options) end

---Counts the connections of the module's client: those that exist and those that are idle now, and how often a
---connection was opened and reused.
---@return { open: integer, idle: integer, opened: integer, reused: integer } counts
function client.counts() end

---Closes the idle connections of the module's client.
function client.close_idle() end

---A client with its own connections. `close` and `<close>` close them.
---@class lio.HttpClient
local HttpClient = {}

---Makes a request; see `client.request`.
---@param options lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:request(options) end

---Makes a request with the method GET; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:get(url, options) end

---Makes a request with the method HEAD; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:head(url, options) end

---Makes a request with the method POST; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:post(url, options) end

---Makes a request with the method PUT; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:put(url, options) end

---Makes a request with the method PATCH; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:patch(url, options) end

---Makes a request with the method DELETE; see `client.request`.
---@param url string
---@param options? lio.HttpOptions
---@return lio.HttpResponse? response
---@return string? message
---@return string? code
---@return_overload lio.HttpResponse
---@return_overload nil, string, string
function HttpClient:delete(url, options) end

---Counts the client's connections: those that exist and those that are idle now, and how often a connection was opened
---and reused.
---@return { open: integer, idle: integer, opened: integer, reused: integer } counts
function HttpClient:counts() end

---Closes the idle connections.
function HttpClient:close_idle() end

---Closes all connections. Requests in progress and later requests return `nil, "closed", "closed"`.
function HttpClient:close() end

---A response. A streamed response owns its connection until its body has been read to the end. `close`, `<close>`, the
---collector, and leaving the loop of `stream` close that connection. If the body is decoded, the headers do not contain
---`Content-Encoding` and `Content-Length`.
---@class lio.HttpResponse
---@field status integer 200 to 999, or 101
---@field reason string may be empty
---@field version string `"1.0"` or `"1.1"`
---@field headers table<string, string> by name, without regard to case; repeated headers are joined with `, `
---@field body? string absent for a streamed response until `text` has read the body
---@field trailers table<string, string> the trailer fields of a chunked body; empty until the body was read
---@field url string URL of the last request
---@field history { status: integer, url: string, headers: table<string, string> }[] the redirects that were followed
local HttpResponse = {}

---Returns the values of a header.
---@param name string
---@return string[] values in order
function HttpResponse:header_all(name) end

---Returns all headers. A repeated header occurs several times.
---@return string[] list names and values in turn, in the order and spelling of the server
function HttpResponse:header_list() end

---Returns the body. For a streamed body, returns the unread part.
---@return string? text
---@return string? message
---@return string? code
function HttpResponse:text() end

---Returns the body, decoded as JSON.
---@return any value
---@return string? message
---@return string? code those of `text` and of `json.decode`
function HttpResponse:json() end

---Reads the next piece of a streamed body.
---@return string? piece nil at the end of the body
---@return string? message
---@return string? code
function HttpResponse:piece() end

---`for piece in res:stream() do`: reads a streamed body in pieces as they arrive. Raises if the body cannot be read to
---its end. Leaving the loop closes the response.
---@return fun(): string? piece
function HttpResponse:stream() end

---Closes the connection if the body has an unread part. Idempotent.
function HttpResponse:close() end

---Returns the connection of a response that switches protocols (101), including its buffered bytes. The caller must
---close it. Raises for other responses.
---@return lio.Connection connection
function HttpResponse:take_over() end

return client
