-- The ledger: compares what the clients noted with what the server has stored. Used by director.lua when the server is
-- idle.

local content = require "content"
local processes = require "processes"

local M = {}

-- Reads the journal of a client into `ops`, by id.
local function read_client(run, name, ops, report)
  local ended = false
  local text = processes.read(("%s/%s.journal"):format(run.folder, name)) or "" -- a client may die before it writes
  for line in text:gmatch "[^\n]+" do
    local kind, id, a, b, c = line:match "^([^\t]*)\t?([^\t]*)\t?([^\t]*)\t?([^\t]*)\t?(.*)$"
    if kind == "begin" then
      if ops[id] then report("%s: the id %s occurs twice", name, id) end
      ops[id] = { kind = a, client = name }
    elseif kind == "size" then
      ops[id].size = math.tointeger(a)
    elseif kind == "end" then
      if ops[id].outcome then report("%s: the operation %s ended twice", name, id) end
      ops[id].outcome, ops[id].seconds, ops[id].detail = a, tonumber(b), c
    elseif kind == "stuck" then
      report("%s: the operation %s (%s) is stuck: %s", name, id, ops[id].kind, a)
    elseif kind == "kept" then
      report("%s: the client still has %s", name, id)
    elseif kind == "done" then
      ended = true
    end
  end
  if not ended and not run.killed[name] then report("%s: the client ended early, see its log", name) end
end

local function check_outcomes(run, ops, report)
  for id, op in pairs(ops) do
    if op.outcome == "wrong" then
      report("%s %s: %s", op.kind, id, op.detail)
    elseif op.outcome == "error" and run.faultless[op.client] then
      report("%s %s failed without faults: %s", op.kind, id, op.detail)
    elseif op.outcome == "error" and op.detail:find "^stopped" and not run.injected["restart server"] then
      report("%s %s: the stream ended without its last event, but the server did not stop", op.kind, id)
    elseif not op.outcome and not run.killed[op.client] then
      report("%s %s never ended", op.kind, id)
    end
  end
end

-- Acknowledged counts are in the journal of the service, and no id is there twice.
local function check_counts(run, ops, counts, report)
  local written = {}
  for id in io.lines(run.folder .. "/journal") do
    if ops[id] then written[id] = (written[id] or 0) + 1 end
  end
  for id, op in pairs(ops) do
    if op.kind == "count" then
      local times = written[id] or 0
      if op.outcome == "ack" and times == 0 then report("the acknowledged count %s is lost", id) end
      if times > 1 then report("the count %s happened %d times", id, times) end
      -- After a graceful restart, the old process may have counted when the new one had read the journal.
      if op.outcome == "ack" and not run.watch and (counts[id] or 0) ~= times then
        report("the count %s: %s times in the service, %d times in its journal", id, counts[id] or 0, times)
      end
    end
  end
end

-- Acknowledged uploads are whole; an upload that is stored under its name is whole, too.
local function check_uploads(run, ops, report)
  local folder = run.folder .. "/uploads"
  local stored = 0
  local pipe <close> = assert(io.popen(("ls -A %s"):format(folder)))
  for name in pipe:lines() do
    local op = ops[name]
    if not op then
      report("the folder of the uploads contains %s", name)
    else
      op.stored, stored = true, stored + 1
      if processes.read(folder .. "/" .. name) ~= content.of(name, op.size) then
        report("the stored upload %s (%s, %s) is damaged", name, op.kind, op.outcome)
      end
    end
  end
  for id, op in pairs(ops) do
    if op.kind:find "^upload" and op.outcome == "ack" and not op.stored then
      report("the acknowledged upload %s (%s) is lost", id, op.kind)
    end
  end
  return stored
end

--- Checks the ledger. `names` are the clients, `counts` those of the service, `report(format, …)` is called for each
-- violation. Returns the number of operations by kind and outcome, `kind: { ack =, error =, wrong =, none = }`, and the
-- number of errors by their text.
function M.check(run, names, counts, report)
  local ops, summary, errors = {}, {}, {}
  for _, name in ipairs(names) do read_client(run, name, ops, report) end
  check_outcomes(run, ops, report)
  check_counts(run, ops, counts, report)
  check_uploads(run, ops, report)
  for _, op in pairs(ops) do
    local line = summary[op.kind] or { ack = 0, error = 0, wrong = 0, none = 0 }
    summary[op.kind] = line
    line[op.outcome or "none"] = line[op.outcome or "none"] + 1
    if op.outcome == "error" then
      local text = op.detail:gsub("%d%d%d+", "N"):match "^%d* ?[^:]*" or op.detail
      errors[text] = (errors[text] or 0) + 1
    end
  end
  return summary, errors
end

return M
