-- The calls of `lio.net` whose files are loaded when one of their calls is first used, so that a service that only
-- holds connections takes little memory. Called by net/driver.lua.
-- Invariant: the functions that `install` adds to `driver.net` stay valid; programs and wrappers may keep them.

local require <const> = require

-- Each module defines the calls in its list.
local TOPICS <const> = {
  ["lio.net.broadcast"] = "broadcast",
  ["lio.net.connect"] = "connect attempt resolve",
  ["lio.net.listen"] = "listen bind accept",
  ["lio.net.sendfile"] = "sendfile",
  ["lio.net.serve"] = "serve",
  ["lio.net.tls"] = "start_tls",
  ["lio.net.transfer"] = "transfer on_transfer",
  ["lio.net.udp"] = "udp recvfrom sendto",
}

local M = {}

-- Adds the calls of one module. `calls` is nil until the module has been loaded.
local function install(driver, module, names)
  local calls
  local function load_calls()
    local loaded = {}
    require(module).install(driver, loaded)
    calls = loaded
  end
  for name in names:gmatch "[%a_]+" do
    driver.net[name] = function(...)
      if not calls then load_calls() end
      return calls[name](...)
    end
  end
end

-- `install(driver)`: adds the calls to `driver.net`.
function M.install(driver)
  for module, names in pairs(TOPICS) do install(driver, module, names) end
end

return M
