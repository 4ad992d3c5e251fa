---@meta _
-- Responses in the definitions of `lio.webserver`. docs/build.lua generates docs/api/lio.webserver.response.md from
-- them.

---Responses, and streams of server-sent events.

---A response. Its values are kept until the handler and its middleware have returned. `write` starts sending; after
---that, methods that set a value raise.
---@class lio.Response
---@field code? integer the status, if one was set
---@field body? string|lio.File|fun(): string?
---@field error? any the error that was raised inside `next()`
local Response = {}

---Sets the status.
---@param n integer 200 to 599
---@return lio.Response res itself
function Response:status(n) end

---Sets a header, replacing its old values; nil removes it. Called with only a name, works like `get_header`. Raises for
---a CR, LF or NUL, which could split the response. `false` for `Content-Type` sends the body without a type.
---@param name string
---@param value? string|number|false
---@return lio.Response res itself
---@overload fun(self: lio.Response, name: string): string?
function Response:header(name, value) end

---Adds a header, keeping its old values. Raises for a CR, LF or NUL.
---@param name string
---@param value string|number
---@return lio.Response res itself
function Response:add_header(name, value) end

---Returns the value of a header that was set.
---@param name string
---@return string? value
function Response:get_header(name) end

---Adds a trailer field (RFC 9112 section 7.1.2), at any time before the end of the body. The body is then sent in
---chunks. The field is not sent to HTTP/1.0 clients or in responses to HEAD. Raises for a field that is not allowed in
---trailers (RFC 9110 section 6.5.1).
---@param name string
---@param value string|number
---@return lio.Response res itself
function Response:trailer(name, value) end

---@class lio.CookieOptions
---@field path? string
---@field domain? string
---@field max_age? integer seconds
---@field expires? string HTTP date
---@field secure? boolean default false
---@field http_only? boolean default false
---@field same_site? "strict"|"lax"|"none" `"none"` requires `secure`

---Sets a cookie (RFC 6265 section 4.1). Raises for a value with characters that must be escaped, and for a cookie that
---browsers drop: a `__Secure-` name without `secure`; a `__Host-` name without `secure` and `path = "/"`, or with
---`domain`.
---@param name string
---@param value string|number
---@param opts? lio.CookieOptions
---@return lio.Response res itself
function Response:cookie(name, value, opts) end

---Sets the body: a string, a list of strings, a result of `web.html`, or a function that returns pieces until nil. Any
---other table, including the empty one, is sent as JSON.
---@param body string|lio.Html|table|fun(): string?
---@return lio.Response res itself
function Response:send(body) end

---Sets an HTML body.
---@param text string
---@return lio.Response res itself
function Response:html(text) end

---Sets a JSON body. Raises for a value that JSON cannot represent.
---@param value any
---@return lio.Response res itself
function Response:json(value) end

---Answers with a redirect.
---@param url string
---@param status? integer 200 to 599; default 302
---@return lio.Response res itself
function Response:redirect(url, status) end

---@class lio.FileOptions
---@field root? string a folder that `path` is relative to and cannot leave; set it for client-supplied paths
---@field type? string media type; default: according to the file name
---@field name? string makes the response a download with this name (RFC 6266)
---@field max_age? number seconds that the file stays fresh, 0 or more; default: no `Cache-Control`
---@field immutable? boolean whether the file never changes; only with `max_age`; default false
---@field cache_control? string the whole value of `Cache-Control`
---@field precompressed? boolean whether to use `.br` and `.gz` copies beside the file; default true

---Answers with a file. Conditions and ranges are evaluated (RFC 9110 sections 13 and 14) unless a status other than 200
---was set. If the file cannot be opened, the answer is 404, 403 or 503 unless the handler gives another answer.
---@param path string
---@param opts? lio.FileOptions
---@return lio.Response? res itself
---@return string? message
---@return string? code as in `lio.file`
function Response:file(path, opts) end

---Sends a piece of the body. The first call also sends the head. Pieces may be combined into one system call. Waits
---while the peer does not read.
---@param piece string
---@return true? ok
---@return string? message `"closed"` if the peer has disconnected
function Response:write(piece) end

---Waits until the system has accepted everything that was written.
---@return true? ok
---@return string? message `"closed"` if the peer has disconnected
function Response:flush() end

---Starts a stream of server-sent events (HTML Standard, section 9.2), and sends the head. The stream ends when the
---handler returns.
---@param opts? lio.SseOptions
---@return lio.Events events
function Response:sse(opts) end

---Calls `f` once, when the answer is known and before the head is sent: the last chance to set headers. The function
---that was added last runs first.
---@param f fun(res: lio.Response, body?: string) `body` is nil if the body is sent in pieces
---@return lio.Response res itself
function Response:on_head(f) end

---Calls `f` when the response has been sent or the client has disconnected. `f` must not wait. The function that was
---added last runs first.
---@param f fun(req: lio.Request, res: lio.Response)
---@return lio.Response res itself
function Response:on_end(f) end

---Returns the status, the number of bytes, and whether the response was cut short. For `on_end`.
---@return integer? status nil if there was no response
---@return integer bytes bytes of the body, including the framing of chunks
---@return boolean cut whether the response was cut short
function Response:sent() end

---Removes everything that was set.
---@private
function Response:reset() end

---Sets the results of a function of the library as the response.
---@private
function Response:set_result(...) end

---Sets the results of a function of the program as the response.
---@private
function Response:set_result_of(what, f, ...) end

---Sets the response to a refusal of the request.
---@private
function Response:respond_with_refusal(refusal) end

---If there is no response and the body was refused, makes the refusal the response.
---@private
function Response:set_refusal() end

---Sends the response.
---@private
function Response:finish(...) end

---@class lio.SseOptions
---@field ping? number|false seconds between comments that keep the stream open, above 0; false: none; default `15`
---@field retry? integer milliseconds that the client waits before it reconnects, 0 or more

---A stream of server-sent events. If the client has disconnected, the server stops, or `close` was called, `send`,
---`comment` and `wait` return nil and `"closed"`, so that the handler's loop ends.
---@class lio.Events
local Events = {}

---Sends an event. Raises if all arguments are nil, or if `event` or `id` is not one line.
---@param data? string|number|table each line becomes a field; a table is sent as JSON
---@param event? string
---@param id? string|integer the client sends it as `Last-Event-ID` when it reconnects
---@param retry? integer milliseconds, 0 or more
---@return true? ok
---@return string? message `"closed"`
function Events:send(data, event, id, retry) end

---Sends a comment, which browsers ignore.
---@param text? string
---@return true? ok
---@return string? message `"closed"`
function Events:comment(text) end

---Waits until the stream has ended. Raises if another task already waits on the stream.
---@param seconds? number maximum wait; default: no timeout
---@return false? ok false if the time has passed, otherwise nil
---@return string reason `"closed"` or `"timeout"`
function Events:wait(seconds) end

---Reports whether the stream has ended.
---@return boolean closed
function Events:is_closed() end

---Ends the stream. Browsers then reconnect.
---@return true ok
function Events:close() end

---Releases the resources of the stream.
---@private
function Events:finish() end

---Sends a ping when its timer fires.
---@private
function Events:expired() end
