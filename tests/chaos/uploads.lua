-- Uploads of tests/chaos/server.lua, as a form and as a plain body. An upload is acknowledged with 201 when the file
-- has its final name. A refused upload leaves no file behind.

local content = require "content"
local sabotage = require "sabotage"

local M = {}

local function store_form(req, folder)
  local fields, files = req:form { dir = folder }
  if not fields then return end
  local id, part = req.params.id, files.file
  if not part or fields.id ~= id then return 400, "the form lacks a part" end
  if sabotage.strikes "upload" then return 201, { id = id, size = part.size } end
  local ok, message = part:move(folder .. "/" .. id, { replace = true })
  if not ok then return 507, message end
  return 201, { id = id, size = part.size }
end

-- Writes the pieces of a body to a file. Returns the number of bytes; or nil, a message and a status.
local function write_pieces(req, path)
  local file, message = io.open(path, "wb")
  if not file then return nil, message, 507 end
  local size = 0
  local ok, problem = pcall(function()
    for piece in req:stream() do
      size = size + #piece
      assert(file:write(piece))
    end
  end)
  local closed, close_problem = file:close()
  if ok and closed then return size end
  return nil, ok and close_problem or problem, 507
end

local function store_body(req, folder)
  local id = req.params.id
  local part = folder .. "/" .. id .. ".part"
  local size, message, status = write_pieces(req, part)
  if not size then
    os.remove(part)
    return status, tostring(message)
  end
  local ok, problem = os.rename(part, folder .. "/" .. id)
  if not ok then return 507, problem end
  return 201, { id = id, size = size }
end

--- Adds the routes of uploads to an app.
function M.install(app, folder)
  app:post("/upload/:id", function(req) return store_form(req, folder) end)
  app:put("/file/:id", function(req) return store_body(req, folder) end)
  app:get("/stored/:id", function(req)
    local file <close> = assert(io.open(folder .. "/" .. req.params.id, "rb"))
    return { id = req.params.id, digest = content.digest(file:read "a") }
  end)
end

return M
