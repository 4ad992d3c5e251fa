-- The code of docs/webserver.md, docs/net.md, docs/http_client.md, docs/templates.md and docs/proxies.md compiles, and
-- the functions that it calls exist: those of apps, requests, responses, the network, the loop and the client. The
-- programs of docs/templates.md and docs/proxies.md run.

local t = require "tests.kit"
local http = require "tests.kit.raw_http"

-- Returns the Lua blocks of a page, each with its text and the number of its first line.
local function blocks(page)
  local list, lines, first = {}, nil, nil
  local number = 0
  for line in io.lines(t.root .. page) do
    number = number + 1
    if line:find "^%s*```lua" then
      lines, first = {}, number + 1
    elseif line:find "^%s*```" then
      if lines then list[#list + 1] = { text = table.concat(lines, "\n"), line = first } end
      lines = nil
    elseif lines then
      lines[#lines + 1] = line
    end
  end
  return list
end

local web = require "lio.webserver"
local app = web.new()
local OWNERS <const> = {
  web = web,
  app = app,
  req = require "lio.web.request".Request,
  res = require "lio.web.response".Response,
  net = require "lio.net",
  loop = require "lio.loop",
  client = require "lio.http.client",
  http = require "lio.http.client",
  template = require "lio.template",
}
-- Names of `OWNERS` that have another meaning in the code of a page.
local OTHERS <const> = { ["docs/net.md"] = { client = true }, ["docs/http_client.md"] = { res = true, web = true } }

for _, page in ipairs {
  "docs/webserver.md", "docs/net.md", "docs/http_client.md", "docs/templates.md", "docs/proxies.md",
} do
  t.test("the code of " .. page .. " compiles", function()
    local list = blocks(page)
    t.ok(#list > 1)
    for _, block in ipairs(list) do
      local f, message = load(block.text, ("=%s:%d"):format(page, block.line))
      if not f then f = load("return " .. block.text) end
      t.ok(f, message)
    end
  end)

  t.test("the functions that the code of " .. page .. " calls exist", function()
    local count = 0
    for _, block in ipairs(blocks(page)) do
      for owner, name in block.text:gmatch "%f[%w_.\"](%a+)[.:]([%a_]+)%s*[({]" do
        local known = not (OTHERS[page] or {})[owner] and OWNERS[owner]
        if known then
          count = count + 1
          t.ok(known[name] ~= nil, ("%s:%d: %s has no '%s'"):format(page, block.line, owner, name))
        end
      end
    end
    t.ok(count > 1)
  end)
end

-- Runs a program of a guide. `f(open)` sends requests to the app that the program has passed to `run`.
local function run(block, folder, f)
  local text, ran = block.text:gsub('"views"', ("%q"):format(folder)), false
  local real = web.new
  web.new = function(...)
    local own = real(...)
    rawset(own, "run", function(self, _, opts)
      ran = true
      http.with(self, f, opts)
    end)
    return own
  end
  local ok, message = pcall(assert(load(text, "=guide")))
  web.new = real
  t.ok(ok, message)
  return ran
end

t.test("the programs of docs/templates.md run", function()
  local page <close> = assert(io.open(t.root .. "docs/templates.md"))
  local text, folder = page:read "a", t.tmp()
  for name, content in text:gmatch "`views/([%w.]+)`:\n\n```html\n(.-)```" do
    t.write(folder .. "/" .. name, content)
  end
  local all = blocks "docs/templates.md"
  local body
  t.ok(run(all[1], folder, function(open) body = open():request("GET", "/").body end))
  t.ok(body:find("<title>2 notes</title>", 1, true), body)
  t.ok(body:find("<h1>2 notes</h1>", 1, true), body)
  t.ok(body:find('<li class="done">Buy &lt;milk&gt;</li>', 1, true), body)
  t.eq(run(all[4], folder), false)
  t.eq(#all, 4)
end)

t.test("the programs of docs/proxies.md run", function()
  local all = blocks "docs/proxies.md"
  local body
  local out = io.stdout
  rawset(io, "stdout", { write = function(self) return self end })
  local ok, message = pcall(run, all[1], "", function(open)
    body = open():request("GET", "/", { "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https" }).body
  end)
  rawset(io, "stdout", out)
  t.ok(ok, message)
  t.eq(body, "192.0.2.7 https\n")
  t.ok(run(all[2], "", function(open) t.ok(open():ended(), "not from the proxy") end))
  t.eq(#all, 2)
end)

t.finish()
