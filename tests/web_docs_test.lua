-- The code of docs/webserver.md, docs/net.md and docs/http_client.md compiles, and the functions that it calls exist:
-- those of apps, requests, responses, the network, the loop and the client.

local t = require "tests.kit"

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
}
-- Names of `OWNERS` that have another meaning in the code of a page.
local OTHERS <const> = { ["docs/net.md"] = { client = true }, ["docs/http_client.md"] = { res = true, web = true } }

for _, page in ipairs { "docs/webserver.md", "docs/net.md", "docs/http_client.md" } do
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

t.finish()
