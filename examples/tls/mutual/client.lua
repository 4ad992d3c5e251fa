-- A service of main.lua: sends requests to the ledger. The certificate of the ledger must have the name that is
-- verified.

local http = require "lio.http.client"
local tls = require "lio.tls"

local identity, port = ...

local client = http.new {
  base_url = ("https://127.0.0.1:%d"):format(port),
  tls = assert(tls.client {
    ca = identity.ca, cert = identity.cert, key = identity.key, server_name = "ledger.internal",
    alpn = { "http/1.1" },
  }),
}

local S = {}

-- Returns the status and the body of the response; or nil, message, code.
local function result(response, message, code)
  if not response then return nil, message, code end
  return response.status, (response.body:gsub("\n$", ""))
end

function S.get(path) return result(client:get(path)) end
function S.post(path, body) return result(client:post(path, { body = body })) end

return S
