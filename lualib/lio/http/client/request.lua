-- Requests: creates the URL, the head and the body from the options of a call, and changes them for a redirect; a
-- redirect to another origin removes the credentials. Part of `lio.http.client`. Invariant: every name and value of a
-- head is checked, so no value that a program supplies can split a request in two.

local http = require "lio.http"
local basic_credentials <const> = require "lio.http.client.credentials"
local body_of <const> = require("lio.http.client.body").of
local misuse = require "lio.misuse"
local urls = require "lio.http.client.url"

local check_field <const> = http.check_field

local M = {}

local AGENT <const> = "lio"
-- RFC 9110 section 9.2.2.
local IDEMPOTENT <const> = { GET = true, HEAD = true, PUT = true, DELETE = true, OPTIONS = true, TRACE = true }
-- If a request with one of these methods has no body, the request announces the length 0 (RFC 9110 section 8.6).
local HAS_BODY <const> = { POST = true, PUT = true, PATCH = true }
-- The client sets these fields itself.
local SET_BY_CLIENT <const> = { ["transfer-encoding"] = true, ["content-length"] = true, expect = true }

-- Header fields in order. `by_name`: the last value of each name, by lower-case name.
local Fields = {}
Fields.__index = Fields

local function new_fields()
  return setmetatable({ names = {}, values = {}, by_name = {} }, Fields)
end

function Fields:add(name, value)
  if type(value) == "number" then value = tostring(value) end
  if type(name) ~= "string" then error("headers: a name must be a string, got " .. type(name), 0) end
  if type(value) ~= "string" then
    error(("headers: '%s' must be a string or a number, got %s"):format(name, type(value)), 0)
  end
  local ok, message = pcall(check_field, name, value)
  if not ok then error("headers: " .. message, 0) end
  self.names[#self.names + 1], self.values[#self.values + 1] = name, value
  self.by_name[name:lower()] = value
end

function Fields:remove(lower)
  if not self.by_name[lower] then return end
  self.by_name[lower] = nil
  for index = #self.names, 1, -1 do
    if self.names[index]:lower() == lower then
      table.remove(self.names, index)
      table.remove(self.values, index)
    end
  end
end

function Fields:default(name, value)
  if not self.by_name[name:lower()] then self:add(name, value) end
end

-- Calls `visit(name, value)` for each header. `headers` is a table that maps names to values or to lists of values, or
-- a list of `{ name, value }`, whose order is kept.
local function each(headers, visit)
  for _, pair in ipairs(headers) do
    if type(pair) ~= "table" then error("headers: a list must contain { name, value }", 0) end
    visit(pair[1], pair[2])
  end
  for name, value in pairs(headers) do
    if type(name) == "string" then
      for _, one in ipairs(type(value) == "table" and value or { value }) do visit(name, one) end
    end
  end
end

local function merge_headers(defaults, headers)
  local fields = new_fields()
  each(headers or {}, function(name, value)
    fields:add(name, value)
    if SET_BY_CLIENT[name:lower()] and name:lower() ~= "content-length" then
      error("headers: " .. name .. " is set by the client itself", 0)
    end
  end)
  local own = {}
  for lower in pairs(fields.by_name) do own[lower] = true end
  each(defaults or {}, function(name, value)
    if type(name) ~= "string" or not own[name:lower()] then fields:add(name, value) end
  end)
  return fields
end

local function count_bodies(options)
  local count = 0
  for _, name in ipairs { "body", "json", "form" } do
    if options[name] ~= nil then count = count + 1 end
  end
  if count > 1 then error("only one of body, json and form can be sent", 0) end
end

-- Returns the body that the options describe, and adds a default Content-Type to the fields.
local function make_body(options, fields)
  count_bodies(options)
  if options.json ~= nil then
    fields:default("Content-Type", "application/json")
    local ok, text = pcall(require("lio.json").encode, options.json)
    if not ok then error("option 'json': " .. tostring(text):gsub("^json: ", ""), 0) end
    return body_of(text)
  end
  if options.form ~= nil then
    fields:default("Content-Type", "application/x-www-form-urlencoded")
    return body_of(urls.encode(options.form, "form"))
  end
  return body_of(options.body)
end

-- Removes Content-Length from the fields, and returns the length to announce. Returns nil if the body is sent in
-- chunks, or if no length is announced.
local function length_of(fields, body, method)
  local given = fields.by_name["content-length"]
  fields:remove "content-length"
  if not body then
    if given and given ~= "0" then error("headers: Content-Length without a body", 0) end
    return (HAS_BODY[method] or given) and 0
  end
  local length = given and given:find "^%d+$" and math.tointeger(tonumber(given))
  if given and not length then error("headers: malformed Content-Length", 0) end
  if length and body.length and length ~= body.length then
    error("headers: Content-Length differs from the length of the body", 0)
  end
  body.length = body.length or length
  return body.length
end

local function has_member(list, wanted)
  for member in (list or ""):gmatch "[^,%s]+" do
    if member:lower() == wanted then return true end
  end
  return false
end

local Request = {}
Request.__index = Request

local function check_method(method)
  if type(method) ~= "string" or not method:find "^[%w!#$%%&'*+.^_`|~-]+$" then
    error("method must be a token, not " .. misuse.shown(method), 0)
  end
  if method == "CONNECT" then error("method CONNECT creates a tunnel, which this client does not support", 0) end
  return method
end

-- Returns the URL of a request; or nil and a message. `base`: the URL against which a relative URL is resolved, or nil.
local function url_of(options, base)
  local text = options.url
  if type(text) ~= "string" then error("url must be a string, not " .. type(text), 0) end
  if text:find "[%c]" then error("url contains a control character", 0) end
  local url, message
  if base then
    url, message = urls.resolve(base, text)
  else
    url, message = urls.parse(text)
  end
  if not url then return nil, message end
  local query = options.query
  if query == nil then return url end
  if type(query) == "table" then query = urls.encode(query, "query") end
  if type(query) ~= "string" then error("query must be a string or a table, not " .. type(query), 0) end
  if query:find "%c" then error("query contains a control character", 0) end
  return urls.with_query(url, query)
end

-- `new(options, defaults)` returns a request; or nil and a message if the URL is malformed. Raises for misuse.
-- `defaults`: `base` and `headers`.
function M.new(options, defaults)
  local url, message = url_of(options, defaults.base)
  if not url then return nil, message end
  local fields = merge_headers(defaults.headers, options.headers)
  local request = setmetatable({
    url = url,
    method = check_method(options.method or "GET"),
    fields = fields,
    is_idempotent = options.idempotent,
    upgrades = fields.by_name.upgrade ~= nil,
    is_last = has_member(fields.by_name.connection, "close"),
  }, Request)
  request.body = make_body(options, fields)
  request.length = length_of(fields, request.body, request.method)
  local expects = options.expect_continue
  if expects and request.body then request.expects = expects == true and 1 or expects end
  if request.is_idempotent == nil then
    request.is_idempotent = IDEMPOTENT[request.method] or fields.by_name["idempotency-key"] ~= nil
  end
  return request
end

-- `request:render(coding, proxy)` sets `head`, the head as a string, and `is_head`, whether the method is HEAD.
-- `coding`: the value of Accept-Encoding, or nil; `proxy`: the URL of the proxy, or nil.
function Request:render(coding, proxy)
  local url, fields = self.url, self.fields
  local target = proxy and tostring(url) or url.target
  local lines = {
    self.method .. " " .. target .. " HTTP/1.1",
    "Host: " .. (fields.by_name.host or url.authority),
  }
  local function add(name, value)
    if not fields.by_name[name:lower()] then lines[#lines + 1] = name .. ": " .. value end
  end
  add("User-Agent", AGENT)
  add("Accept", "*/*")
  if coding and not fields.by_name.range then add("Accept-Encoding", coding) end
  if url.user then add("Authorization", basic_credentials(url.user, url.password)) end
  if proxy and proxy.user then add("Proxy-Authorization", basic_credentials(proxy.user, proxy.password)) end
  for index, name in ipairs(fields.names) do
    if name:lower() ~= "host" then lines[#lines + 1] = name .. ": " .. fields.values[index] end
  end
  if self.length then
    lines[#lines + 1] = "Content-Length: " .. self.length
  elseif self.body then
    lines[#lines + 1] = "Transfer-Encoding: chunked"
  end
  if self.expects then lines[#lines + 1] = "Expect: 100-continue" end
  lines[#lines + 1] = "\r\n"
  self.head = table.concat(lines, "\r\n")
  self.is_head = self.method == "HEAD"
end

-- Removes the body and the fields that describe it.
local function drop_body(self)
  self.body, self.length, self.expects = nil, nil, nil
  for _, name in ipairs { "content-type", "content-encoding", "content-language", "content-location", "digest",
    "last-modified" } do
    self.fields:remove(name)
  end
end

local FOLLOWED <const> = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

-- `request:redirect(status, location)`: changes this request into the request to send after a redirect (RFC 9110
-- section 15.4). Returns true; false if the response is not a redirect, or if the body cannot be sent again; or nil and
-- a message if the location is malformed.
function Request:redirect(status, location)
  if not FOLLOWED[status] or not location then return false end
  local method = self.method
  if status == 303 and method ~= "HEAD" or (status == 301 or status == 302) and method == "POST" then
    method = "GET"
  elseif self.body and not self.body:rewind() then
    return false
  end
  local url, message = urls.resolve(self.url, location)
  if not url then return nil, message end
  if method ~= self.method then
    self.method, self.is_idempotent = method, true
    drop_body(self)
  end
  if url:is_same_origin(self.url) then
    url.user, url.password = url.user or self.url.user, url.password or self.url.password
  else
    for _, name in ipairs { "authorization", "cookie", "proxy-authorization", "host" } do self.fields:remove(name) end
  end
  self.url = url
  return true
end

return M
