-- Runs the code blocks of a page of docs, in the order of the page, in one temporary folder. tests/README.md describes
-- the kinds of blocks. Invariant: no server outlives its page.

local json = require "lio.json"
local t = require "tests.kit"
local kit = require "tests.kit.ltask_system"
local markdown = require "docs.markdown"

local M = {}

local LIMIT <const> = 60

--- Returns the content of a file of the repository.
function M.read(path)
  local file <close> = assert(io.open(t.root .. path, "rb"))
  return file:read "a"
end

-- Returns the lines of output that the comments `--> …` show.
local function promised(text)
  local lines = {}
  for line in text:gmatch "%-%-> ([^\n]*)" do lines[#lines + 1] = line end
  return lines
end

-- Returns the lines of a program's output. Services print with the prefix of the log, which is removed.
local function said(out)
  local lines = {}
  for _, line in ipairs(kit.lines(out)) do lines[#lines + 1] = line:gsub("^%[.-%]%[INFO%]%b() ", "") end
  return lines
end

-- Reports whether both texts are JSON with the same value. The order of an object's members is not fixed.
local function is_same_json(output, shown)
  local value, other = json.decode(output), json.decode(shown)
  return value ~= nil and pcall(t.eq, value, other)
end

-- Reports whether the output matches the lines of a page, in which `…` is any text. Times of log lines are ignored.
local function matches(output, shown)
  if shown:find "^[%[{]" and is_same_json(output, shown) then return true end
  local function plain(text) return (text:gsub("%[%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d%.%d%d%]", "[time]")) end
  local pattern = plain(shown):gsub("%p", "%%%0"):gsub("…", ".-")
  return plain(output):find("^" .. pattern .. "$") ~= nil
end

local Page = {}
Page.__index = Page

-- The name of the file that a block contains, in the comment on its first line; nil if it has no name.
local function file_name(block)
  return block.text:match "^%-%- ([%w_/]+%.lua)[\n ]"
end

function Page:fail(block, text, ...)
  error(("%s:%d: "):format(self.path, block.line) .. text:format(...), 0)
end

function Page:write(block, name)
  local folder = name:match "^(.*)/"
  if folder then os.execute("mkdir -p " .. t.quote(self.dir .. "/" .. folder)) end
  return t.write(self.dir .. "/" .. name, (block.text:gsub("%f[%d]8080%f[%D]", self.port or "8080")))
end

-- A program: prints the lines of its comments `--> …`, nothing on standard error, and ends with exit code 0.
function Page:run_program(block)
  local path = self:write(block, "program.lua")
  local r = t.run(("cd %s && timeout -k 1 %d %s %s"):format(t.quote(self.dir), LIMIT, kit.host(), t.quote(path)))
  if r.err ~= "" or r.code ~= 0 then self:fail(block, "exit code %s\n%s", r.code, r.err) end
  t.eq(said(r.out), promised(block.text), ("%s:%d"):format(self.path, block.line))
end

-- A server: prints its address, which replaces the port 8080 in later blocks, and runs until the next server or the end
-- of the page. Options after the word `server` precede the script.
function Page:start_server(block, options)
  self:stop_server()
  self.port = "0"
  local path = self:write(block, file_name(block) or "server.lua")
  local command = options == "" and kit.host() or t.quote(t.bin()) .. " " .. options
  self.server = t.spawn(("timeout --foreground -k 5 %d env -C %s %s %s"):format(
    LIMIT, t.quote(self.dir), command, t.quote(path)))
  self.port = self.server:expect "https?://[^:]+:(%d+)"
end

function Page:stop_server()
  local server = self.server
  if not server then return end
  self.server, self.port = nil, nil
  server:kill()
  local rest = server:all()
  local code = server:close()
  if code ~= 0 then error(("%s: a server ended with exit code %s:\n%s"):format(self.path, code, rest), 0) end
end

-- Runs one command of a console block and compares its output with the lines that the page shows below it.
function Page:run_command(block, command, shown)
  local here = command:gsub("%f[%d]8080%f[%D]", self.port or "8080")
  local r = t.run(("cd %s && export PATH=%s:$PATH CURL_HOME=%s && { timeout -k 1 %d sh -c %s 2>&1; }"):format(
    t.quote(self.dir), t.quote(self.bin), t.quote(self.bin), LIMIT, t.quote(here)))
  local output = r.out:gsub(self.port and ":" .. self.port or "\0", ":8080"):gsub("\r", "")
  if output ~= "" and not output:find "\n$" then output = output .. "\n" end
  if not matches(output, shown) then
    self:fail(block, "'%s' printed\n%s  the page shows\n%s", command, output, shown)
  end
end

function Page:run_console(block)
  local command, shown
  local function finish()
    if command then self:run_command(block, command, table.concat(shown)) end
  end
  for line in block.text:gmatch "(.-)\n" do
    local next_command = line:match "^%$ (.+)$"
    if next_command then
      finish()
      command, shown = next_command, {}
    elseif not command then
      self:fail(block, "a console block begins with a command")
    else
      shown[#shown + 1] = line .. "\n"
    end
  end
  finish()
end

-- Code that cannot run here must compile, and its block gives the reason.
function Page:compile(block)
  local name = ("=%s:%d"):format(self.path, block.line)
  local f, message = load(block.text, name)
  if not (f or load("return " .. block.text, name)) then self:fail(block, "%s", message) end
end

function Page:run_block(block)
  if block.language == "console" then return self:run_console(block) end
  if block.language ~= "lua" then return end
  local word, rest = block.info:match "^([%w-]*):?%s*(.*)$"
  if word == "server" then
    self:start_server(block, rest)
  elseif word == "no-run" then
    if not rest:find "%a %a" then self:fail(block, "the block gives no reason why it does not run") end
    self:compile(block)
  elseif word ~= "" then
    self:fail(block, "unknown kind of block: '%s'", word)
  elseif file_name(block) then
    self:compile(block)
    self:write(block, file_name(block))
  else
    self:run_program(block)
  end
end

--- Runs all blocks of `text`, a page in Markdown. `path` is its name in messages.
function M.run_text(path, text)
  local page = setmetatable({ path = path, dir = t.tmp(), bin = t.tmp() }, Page)
  os.execute(("ln -s %s %s/lio"):format(t.quote(t.bin()), t.quote(page.bin)))
  t.write(page.bin .. "/.curlrc", "silent\nshow-error\nnoproxy = *\n")
  local ok, problem = pcall(function()
    for _, block in ipairs(markdown.blocks(text)) do page:run_block(block) end
    page:stop_server()
  end)
  if page.server then page.server:stop "KILL" end
  if not ok then error(problem, 0) end
end

--- Runs all blocks of a page of the repository.
function M.run(path)
  M.run_text(path, M.read(path))
end

return M
