-- A REST API with JSON and a store in memory: lio examples/api.lua [port]
--
--   curl -d '{"title":"milk"}' -H 'Content-Type: application/json' localhost:8080/api/tasks
--   curl 'localhost:8080/api/tasks?limit=10&offset=0'
--   curl -X PUT -d '{"title":"milk","done":true}' -H 'Content-Type: application/json' localhost:8080/api/tasks/1
--   curl -X DELETE localhost:8080/api/tasks/1

local json = require "lio.json"
local web = require "lio.webserver"

-- The store: tasks by id, and the ids in order.
local tasks, order, last_id = {}, {}, 0 ---@type table<integer, table>, integer[], integer

local function fail(status, message, details)
  return status, { error = message, details = details }
end

-- Returns the request's task, or nil and the results for an error response.
local function read_task(req)
  local kind = (req:header "content-type" or ""):match "^%s*([^;%s]*)"
  if kind:lower() ~= "application/json" then return nil, fail(415, "send application/json") end
  local body, reason, status = req:json(64 * 1024)
  if reason then return nil, fail(status, reason) end
  if type(body) ~= "table" then return nil, fail(422, "an object was expected") end
  local details = {}
  local title = body.title
  if type(title) ~= "string" or #title == 0 or #title > 200 then
    details.title = "must be a string of 1 to 200 bytes"
  end
  if body.done ~= nil and type(body.done) ~= "boolean" then details.done = "must be true or false" end
  for name in pairs(body) do
    if name ~= "title" and name ~= "done" then details[tostring(name)] = "is unknown" end
  end
  if next(details) then return nil, fail(422, "the task is not valid", details) end
  return { title = title, done = body.done or false }
end

local function title_taken(title, id)
  for other, task in pairs(tasks) do
    if other ~= id and task.title == title then return true end
  end
  return false
end

local function shown(id)
  local task = tasks[id]
  return { id = id, title = task.title, done = task.done, version = task.version }
end

local function etag(id)
  return ('"%d-%d"'):format(id, tasks[id].version)
end

-- Returns a number from the query: `default` if it is absent, nil if it is not an integer from `low` to `high`.
local function bounded(text, default, low, high)
  if text == nil then return default end
  local n = type(text) == "string" and math.tointeger(tonumber(text))
  return n and n >= low and n <= high and n or nil
end

local api = web.new()

-- The route matches only digits. For an unknown id, the response is 404.
local function with_task(handler)
  return function(req, res)
    local id = math.tointeger(tonumber(req.params.id))
    if not id or not tasks[id] then return fail(404, "there is no such task") end
    return handler(req, res, id)
  end
end

api:get("/tasks", function(req)
  local limit, offset = bounded(req.query.limit, 20, 1, 100), bounded(req.query.offset, 0, 0, 1 << 53)
  if not limit or not offset then return fail(400, "limit is 1 to 100, offset 0 or more") end
  local items = json.array()
  for index = offset + 1, math.min(offset + limit, #order) do items[#items + 1] = shown(order[index]) end
  return { items = items, total = #order, limit = limit, offset = offset }
end)

api:post("/tasks", function(req)
  local task, status, problem = read_task(req)
  if not task then return status, problem end
  if title_taken(task.title) then return fail(409, "a task with this title already exists") end
  last_id = last_id + 1
  task.version = 1
  tasks[last_id] = task
  order[#order + 1] = last_id
  return 201, shown(last_id), { Location = req.base .. "/tasks/" .. last_id, ETag = etag(last_id) }
end)

api:get("/tasks/:id<%d+>", with_task(function(req, _, id)
  if req:header "if-none-match" == etag(id) then return 304, nil, { ETag = etag(id) } end
  return 200, shown(id), { ETag = etag(id) }
end))

api:put("/tasks/:id<%d+>", with_task(function(req, _, id)
  local task, status, problem = read_task(req)
  if not task then return status, problem end
  -- Another request may have deleted the task while this handler waited for the body.
  if not tasks[id] then return fail(404, "there is no such task") end
  local expected = req:header "if-match"
  if expected and expected ~= "*" and expected ~= etag(id) then
    return fail(412, "the task has been changed")
  end
  if title_taken(task.title, id) then return fail(409, "a task with this title already exists") end
  task.version = tasks[id].version + 1
  tasks[id] = task
  return 200, shown(id), { ETag = etag(id) }
end))

api:delete("/tasks/:id<%d+>", with_task(function(_, _, id)
  tasks[id] = nil
  for index, other in ipairs(order) do
    if other == id then
      table.remove(order, index)
      break
    end
  end
  return 204
end))

api:not_found(function() return fail(404, "there is no such path") end)
api:on_error(function() return fail(500, "something went wrong") end)

local app = web.new()
app:use(web.compress())
app:mount("/api", api)
app:run(tonumber((...)) or 8080, { addr = "127.0.0.1" })
