-- `req:arg(name [, default])`: one value of a request, from the parameters of its route, its query, or its form. Called
-- by web/request.lua.

local http = require "lio.http"
local misuse = require "lio.misuse"

local field <const> = http.head.field

-- Returns the first value of a name; nil if there is none.
local function first_of(values, name)
  local value = values[name]
  if type(value) == "table" then return value[1] end
  return value
end

-- Returns whether the body is a form.
local function is_form(req)
  local media = (field(req, "content-type") or ""):match("^%s*([^;%s]*)"):lower()
  return media == "application/x-www-form-urlencoded" or media == "multipart/form-data"
end

return function(req, name, default)
  misuse.check("arg", 1, name, "string")
  if default ~= nil then misuse.check("arg", 2, default, "string") end
  local value = req.params[name] or first_of(req.query, name)
  if value then return value end
  if is_form(req) then
    local fields = req:form()
    value = fields and first_of(fields, name)
  end
  return value or default
end
