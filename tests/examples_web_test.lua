-- `examples/api.lua` and `examples/clock.lua` as child processes of this suite's host.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"
local json = require "lio.json"
local loop = require "lio.loop"

-- Starts an example on a port that the system chooses and calls `f(open)`. `open` returns a new connection to it.
local function with(name, f)
  local child <close> = t.spawn(t.lio() .. " " .. t.quote(t.root .. "examples/" .. name .. ".lua") .. " 0")
  local port = math.tointeger(tonumber(child:expect "127%.0%.0%.1:(%d+)"))
  loop.run(function()
    local clients = {}
    f(function()
      clients[#clients + 1] = http.open(port)
      return clients[#clients]
    end)
    for _, c in ipairs(clients) do c:close() end
  end)
  child:kill()
  child:all()
  t.eq(child:close(), 0)
end

t.test("api creates, reads, lists, changes and deletes tasks", function()
  with("api", function(open)
    local c = open()
    local function ask(method, path, body, fields)
      fields = fields or {}
      if body then table.insert(fields, "Content-Type: application/json") end
      local r = c:request(method, "/api" .. path, fields, body and json.encode(body))
      return r.status, r.body ~= "" and json.decode(r.body) or nil, r.headers
    end
    local status, task, headers = ask("POST", "/tasks", { title = "milk" })
    t.eq({ status, task, headers.location, headers.etag },
      { 201, { id = 1, title = "milk", done = false, version = 1 }, "/api/tasks/1", '"1-1"' })
    t.eq(({ ask("GET", "/tasks/1", nil, { 'If-None-Match: "1-1"' }) })[1], 304)
    t.eq(ask("POST", "/tasks", { title = "milk" }), 409)
    for i = 2, 5 do t.eq(ask("POST", "/tasks", { title = "task " .. i }), 201) end
    local _, page = ask("GET", "/tasks?limit=2&offset=3")
    t.eq({ page.total, #page.items, page.items[1].id }, { 5, 2, 4 })
    t.eq(ask("GET", "/tasks?limit=0"), 400)
    t.eq(({ ask("PUT", "/tasks/1", { title = "milk", done = true }, { 'If-Match: "1-1"' }) })[2],
      { id = 1, title = "milk", done = true, version = 2 })
    t.eq(ask("PUT", "/tasks/1", { title = "milk" }, { 'If-Match: "1-1"' }), 412)
    t.eq(ask("PUT", "/tasks/2", { title = "milk" }), 409)
    t.eq(ask("DELETE", "/tasks/1"), 204)
    t.eq(ask("GET", "/tasks/1"), 404)
    t.eq(({ ask("GET", "/tasks") })[2].total, 4)
  end)
end)

t.test("api responds to invalid requests with a description of the error", function()
  with("api", function(open)
    local c = open()
    local JSON <const> = "Content-Type: application/json"
    local r = c:request("POST", "/api/tasks", { JSON }, '{"title":"","done":1,"x":2}')
    t.eq({ r.status, json.decode(r.body).details },
      { 422, { title = "must be a string of 1 to 200 bytes", done = "must be true or false", x = "is unknown" } })
    t.eq(c:request("POST", "/api/tasks", { JSON }, "{").status, 400)
    t.eq(c:request("POST", "/api/tasks", { JSON }, "[]").status, 422)
    t.eq(c:request("POST", "/api/tasks", { "Content-Type: text/plain" }, "x").status, 415)
    r = c:request("PATCH", "/api/tasks")
    t.eq({ r.status, r.headers.allow }, { 405, "GET, HEAD, OPTIONS, POST" })
    t.eq(json.decode(c:request("GET", "/api/none").body).error, "there is no such path")
    t.eq(c:request("GET", "/api/tasks/x").status, 404)
  end)
end)

t.test("clock serves a page, and continues with the event after the client's Last-Event-ID", function()
  with("clock", function(open)
    t.ok(open():request("GET", "/").body:find("EventSource", 1, true))
    local c = open():send "GET /events HTTP/1.1\r\nHost: x\r\nLast-Event-ID: 41\r\n\r\n"
    t.eq(c:read_head().headers["content-type"], "text/event-stream")
    local text = ""
    while not text:find "data: [^\n]*\n\n" do
      text = text .. c.c:recv(tonumber(c.c:recv("until", "\r\n"), 16))
      c.c:recv(2)
    end
    t.ok(text:find 'event: tick\nid: 42\ndata: {.*"time":"%d%d:%d%d:%d%d".*}\n\n', text)
  end)
end)

t.finish()
