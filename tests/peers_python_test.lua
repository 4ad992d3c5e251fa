-- Clients that were written independently of this project check the server: h11 (a strict parser), Python's
-- http.client, and requests. The cases are in tests/peers/*_peer.py; tests/README.md has their results.

local t = require "tests.kit"

-- Debian's packages are installed for Debian's interpreter, which may not be the first on the path.
local function find_python()
  for _, name in ipairs { os.getenv "PYTHON" or "python3", "/usr/bin/python3" } do
    if t.run(t.quote(name) .. " -c 'import h11, requests'").code == 0 then return name end
  end
  error("no python3 with h11 and requests: sh tests/tools.sh installs them on Debian", 0)
end

local python

t.test("a python3 with h11 and requests is installed", function() python = find_python() end)

local function start()
  local child = t.spawn(t.lio() .. " " .. t.quote(t.root .. "tests/peers/server.lua"))
  return child, child:expect "^lio: serving http://127%.0%.0%.1:(%d+)/$"
end

for _, peer in ipairs { "h11", "http_client", "requests" } do
  local child <close>, port = start()
  local script = t.root .. "tests/peers/" .. peer .. "_peer.py"
  local r = python and t.run(("%s -B %s %s"):format(t.quote(python), t.quote(script), port))
    or { out = "not ok - all of it\tno interpreter\n", err = "" }
  local cases = 0
  for outcome, text, why in r.out:gmatch "([not ]*ok) %- ([^\n\t]*)\t?([^\n]*)" do
    cases = cases + 1
    t.test(peer .. ": " .. text, function() t.eq(outcome, "ok", why) end)
  end
  t.test(peer .. ": the script ran to its end", function()
    t.eq({ r.code, r.err }, { 0, "" })
    t.ok(cases > 4, cases)
  end)
  t.test(peer .. ": the server still runs, and exits normally", function()
    child:kill()
    child:all()
    t.eq(child:close(), 0)
  end)
end

t.finish()
