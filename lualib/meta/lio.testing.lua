---@meta lio.testing
-- Definitions of `lio.testing` for the Lua language server. docs/build.lua generates docs/api/lio.testing.md from them.

---Tests of programs: `lio test` runs the files `*_test.lua`. Each test runs as a task of the loop, so it can wait; it
---has a time limit, and must leave nothing behind. `app:test()` sends requests to an app without a socket. The guide is
---`docs/testing.md`.
---@class lio.testing
local testing = {}

---@class lio.TestOptions
---@field seconds? number time limit in seconds of real time; default 10, or that of `lio test --seconds`
---@field leaks? boolean whether the test may leave tasks, timers, registrations and descriptors behind; default `false`
---@field skip? boolean|string `true` or a reason: the test does not run

---Runs a test immediately, as a task. The test fails if `f` raises an error, if it exceeds the time limit, or if it
---leaves something behind. Raises inside a test, and if the loop is already running.
---@param name string the behaviour that the test checks
---@param f fun()
---@param opts? lio.TestOptions
function testing.test(name, f, opts) end

---Outside of a test: reports a test that does not run. In a test: ends the test, which then counts as skipped.
---@param name? string the name of the test; in a test, the reason
---@param f? fun() is not called
function testing.skip(name, f) end

---Calls `f`. The names of the tests that `f` defines begin with `name`, and hooks that `f` adds apply only to them.
---@param name string
---@param f fun()
function testing.describe(name, f) end

---Adds a hook that runs in the task of each test that is defined later in the same group, before the test.
---@param f fun()
function testing.before(f) end

---Adds a hook that runs in the task of each test that is defined later in the same group, after the test, even if it
---fails.
---@param f fun()
function testing.after(f) end

---Calls `f` at the end of the running test, even if it fails. The function that was added last is called first.
---@param f fun()
function testing.defer(f) end

---Adds a text to the message of the running test, if the test fails. Outside of a test, does nothing.
---@param text string
function testing.note(text) end

---Pauses the clock of this VM until the end of the test: `loop.sleep`, `loop.timeout`, time limits of sockets,
---`lio.now`, `lio.wall`, and the deadlines of servers use virtual time. The clock does not move while tasks run. If no
---task is ready and only timers can wake a task, it jumps to the next timer. While a socket is registered or a name is
---being resolved, the loop waits for I/O in real time, and the clock moves by the duration of the wait. Raises if the
---clock is already paused.
---@return lio.TestClock clock
function testing.clock() end

---Iterates over the server-sent events of a response with the option `stream`. Waits for the next event. Leaving the
---loop closes the response.
---@param res lio.HttpResponse
---@return fun(): lio.TestEvent? next
function testing.events(res) end

---Prints the counts, and ends the process with the exit code 0, or 1 if a test has failed. `lio test` does this after
---the last line of a file.
function testing.finish() end

---Asserts that two values are equal: tables by content, other values by `==`, and NaN equals NaN. The message shows
---both values and where they differ.
---@param got any
---@param want any
---@param msg? any the name of the value in the message
function testing.eq(got, want, msg) end

---Asserts that two values are not equal.
---@param got any
---@param other any
---@param msg? any the name of the value in the message
function testing.differs(got, other, msg) end

---Asserts that a value is neither nil nor false.
---@param v any
---@param msg? any the name of the value in the message; `t.ok(f())` shows the message of a failed call
---@return any v
function testing.ok(v, msg) end

---Asserts that a value is nil.
---@param v any
---@param msg? any the name of the value in the message
function testing.is_nil(v, msg) end

---Asserts that two numbers differ by at most `tolerance`.
---@param a number
---@param b number
---@param tolerance number
---@param msg? any the name of the value in the message
function testing.near(a, b, tolerance, msg) end

---Asserts that a string matches a Lua pattern.
---@param text string
---@param pattern string
---@param msg? any the name of the value in the message
---@return any ... the captures, or the whole match if the pattern has none
function testing.match(text, pattern, msg) end

---Asserts that `f(…)` raises a string that matches a Lua pattern.
---@param pattern string
---@param f function
---@param ... any the arguments of `f`
---@return string message the string that was raised
function testing.fails(pattern, f, ...) end

---Asserts that a call returned `nil, message, code`: `t.returns_error("timeout", c:recv(1))`.
---@param code string the expected code
---@param value any the first result
---@param message? string the second result
---@param got? string the third result
---@return string message
function testing.returns_error(code, value, message, got) end

---Formats a value as the messages of failed assertions do.
---@param v any
---@return string text
function testing.show(v) end

---A server-sent event.
---@class lio.TestEvent
---@field data? string
---@field event? string
---@field id? string
---@field retry? number milliseconds

---A paused clock. `<close>` closes it.
---@class lio.TestClock
local TestClock = {}

---Returns the virtual time, which is that of `lio.now`.
---@return number seconds
function TestClock:now() end

---Moves the clock forward, even while I/O is pending. The timers of this time fire in order, and the tasks that they
---wake run, before the call returns. Must be called in a task.
---@param seconds number
function TestClock:advance(seconds) end

---Ends virtual time. The clock continues from its current time. Idempotent; the end of the test does the same.
function TestClock:close() end

---Options that clients and requests accept.
---@class lio.TestShared
---@field headers? table values, or lists of values, by name; or, for a request, a list of `{ name, value }`
---@field redirects? integer maximum number of redirects to follow; default 0: a redirect is returned
---@field timeout? number seconds to wait for data; default: no limit but that of the test
---@field limit? number maximum bytes of the body; default 64 MiB
---@field decode? boolean whether to decode a compressed body; default `true`

---@class lio.TestRequest: lio.TestShared
---@field method? string default `"GET"`
---@field path? string path and query, or a URL; default `"/"`
---@field url? string another name for `path`
---@field query? string|table added to the query, as for `lio.http.client`
---@field body? string|string[]|(fun(): string?, string?)|file* as for `lio.http.client`
---@field json? any sent as JSON
---@field form? table sent as a urlencoded form
---@field stream? boolean whether the body is read later, by `stream`, `piece`, `text` or `testing.events`

---@class lio.TestClientOptions: lio.TestShared
---@field base_url? string the URL to which paths are relative; default `"http://localhost"`
---@field cookies? boolean whether to keep cookies; default `true`
---@field remote_addr? string the IP address that the app sees as the client's; default `"127.0.0.1"`
---@field remote_port? integer the port that the app sees as the client's; default 0

---A response of an app under test.
---@class lio.TestResponse: lio.HttpResponse
---@field error? string the error that the handler has raised, with its traceback

---A client of one app, without a socket; `app:test` returns it. It sends requests to the app's server in memory and
---keeps cookies between them. Its calls wait for the response, so they must be called in a task. `<close>` closes it,
---and so does the end of the test in which it was created. If a handler raises an error, the response has the status
---500, and the message of a failed test shows the error's traceback.
---@class lio.TestClient
local TestClient = {}

---Sends a request. Returns nil, a message and a code if there is no complete response: `"truncated"` if the server has
---closed the connection within the response, `"closed"`, `"timeout"`, `"too long"`.
---@param opts lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:request(opts) end

---Makes a request with the method GET; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:get(path, opts) end

---Makes a request with the method HEAD; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:head(path, opts) end

---Makes a request with the method POST; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:post(path, opts) end

---Makes a request with the method PUT; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:put(path, opts) end

---Makes a request with the method PATCH; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:patch(path, opts) end

---Makes a request with the method DELETE; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:delete(path, opts) end

---Makes a request with the method OPTIONS; see `request`.
---@param path string path and query, or a URL
---@param opts? lio.TestRequest
---@return lio.TestResponse? response
---@return string? message
---@return string? code
function TestClient:options(path, opts) end

---Sends this header with every later request, unless the request sets it. If `value` is nil, no longer sends it.
---@param name string
---@param value? string
---@return lio.TestClient self
function TestClient:header(name, value) end

---Returns the value of a cookie that a request for this path would send.
---@param name string
---@param path? string default `"/"`
---@return string? value
function TestClient:cookie(name, path) end

---Stores a cookie for every path. If `value` is nil, deletes it.
---@param name string
---@param value? string
---@return lio.TestClient self
function TestClient:set_cookie(name, value) end

---Deletes all cookies.
---@return lio.TestClient self
function TestClient:clear_cookies() end

---Closes the connections and the server. Idempotent.
function TestClient:close() end

return testing
