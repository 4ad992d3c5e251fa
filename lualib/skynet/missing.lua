-- The modules of skynet that lio does not have, and what to use instead. lualib/skynet.lua adds `search` after all
-- other searchers of `require`.

local misuse = require "lio.misuse"

local M = {}

local SERVICE <const> = "use a unique service that answers requests; messages carry nested tables"
local PROCESSES <const> = "one process is one system; between processes use lio.net, or HTTP"
local DRIVER <const> = "use a client on skynet.socketchannel"
local NO_MODULE <const> = "there is no module yet"

-- Lists of names, each with what to use instead.
local LISTS <const> = {
  ["skynet.cluster skynet.harbor skynet.remotedebug clustersender clusteragent"] = PROCESSES,
  ["skynet.datacenter"] = "use a unique service, or setenv for constants",
  ["skynet.sharedata skynet.sharedata.corelib skynet.sharetable skynet.sharemap skynet.stm"] = SERVICE,
  ["skynet.datasheet skynet.datasheet.builder skynet.datasheet.dump"] = SERVICE,
  ["sproto sprotoloader sprotoparser"] = SERVICE,
  ["skynet.multicast"] = "send a message to each address of a list",
  ["skynet.mqueue"] = "use skynet.queue",
  ["socket clientsocket client.socket"] = "use skynet.socket",
  ["websocket http.websocket"] = "use lio.websocket, and app:ws of lio.webserver",
  ["http.tlshelper"] = NO_MODULE,
  ["skynet.dns"] = "lio.net resolves names",
  ["skynet.db.redis skynet.db.redis.cluster skynet.db.mongo skynet.db.mysql bson mongo"] = DRIVER,
  ["client.crypt"] = "use skynet.crypt",
  ["snax skynet.snax"] = "use services of skynet.newservice",
  ["skynet.require skynet.reload skynet.inject skynet.injectcode skynet.codecache"] =
    "require in a service may wait; to change a service, use the debug command RUN",
  ["skynet.core"] = "remove skynet's own lualib from lua_path, because its modules are a part of lio",
  ["skynet.memory"] = "use ltask.mem_count",
  ["skynet.cjson cjson"] = "use lio.json",
  ["lpeg"] = "skynet builds it, lio does not: install it for this version of Lua",
}

-- `search(name)`: a searcher for `package.searchers`. Raises for a module of skynet that lio does not have. Returns
-- nothing for a module that skynet does not have, either.
function M.search(name)
  for names, instead in pairs(LISTS) do
    if (" " .. names .. " "):find(" " .. name .. " ", 1, true) then
      misuse.raise(("module '%s' is a part of skynet that lio does not have: %s (docs/skynet.md, What is not there)")
        :format(name, instead))
    end
  end
  if name:find "^skynet%." then return "\n\tno module of lio's skynet API (docs/skynet.md, Modules)" end
end

return M
