---@meta _
-- Responses in the definitions of `lio.webserver`; docs/build.lua makes docs/api/lio.webserver.response.md of them.

---Responses, and streams of server-sent events.

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

---Ends the stream of a client that is gone.
---@private
function Events:gone() end

---Sends a ping.
---@private
function Events:expired() end
