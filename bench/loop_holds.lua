-- `lio bench/loop_holds.lua`: measures for how long one operation keeps the other tasks of a loop from running, for
-- docs/tuning.md. While an operation runs in a task, another task takes every turn that it can get. The longest CPU
-- time between two of its turns is what other tasks have to wait; time for which the processor runs other programs does
-- not count. Each operation runs three times; the smallest result counts.

local compress = require "lio.compress"
local crypto = require "lio.crypto"
local json = require "lio.json"
local loop = require "lio.loop"
local template = require "lio.template"
local web = require "lio.webserver"

local MEGABYTE <const> = 1000 * 1000

local function object(count)
  local result = {}
  for i = 1, count do result["key " .. i] = i end
  return result
end

-- Returns compressible text.
local function text(size)
  local words, length = {}, 0
  local state = 1
  while length < size do
    state = (state * 1103515245 + 12345) % 2147483648
    words[#words + 1] = ("word-%d "):format(state % 5000)
    length = length + #words[#words]
  end
  return table.concat(words):sub(1, size)
end

-- Returns an app that lists a folder of `count` files, and the folder.
local function listing(count)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute(("mkdir %s && cd %s && seq -f 'file-%%07g.txt' %d | xargs touch"):format(folder, folder, count)))
  local app = web.new()
  app:static("/", folder, { list = true })
  return app:test(), folder
end

local function prepare()
  local long = ("x"):rep(100 * MEGABYTE)
  local large, small = object(500000), object(10000)
  local large_json, small_json = json.encode(large), json.encode(small)
  local prose = text(10 * MEGABYTE)
  local numbers = {}
  local views = template.new()
  local rows = {}
  for i = 1, 10000 do rows[i] = { name = "name " .. i, price = i } end
  local source = "{% for row in rows %}<tr><td>{{ row.name }}<td>{{ row.price }}\n{% endfor %}"
  local client, folder = listing(100000)
  return {
    { "JSON: encode an object of 10,000 keys", function() json.encode(small) end },
    { "JSON: decode it", function() json.decode(small_json) end },
    { "JSON: encode an object of 500,000 keys", function() json.encode(large) end },
    { "JSON: decode it", function() json.decode(large_json) end },
    { "a static folder of 100,000 files: its listing (10,000 entries)", function() assert(client:get "/") end },
    { "`string.find` of plain text in 100 MB", function() long:find("y", 1, true) end },
    { "`string.find` of the pattern `%d+:` in 100 MB", function() long:find "%d+:" end },
    { "`string.gsub` of each word in 10 MB", function() prose:gsub("%a+", "w") end },
    { "gzip: 10 MB in one call", function() compress.encoder("gzip"):write(prose) end },
    { "brotli: 10 MB in one call", function() compress.encoder("br"):write(prose) end },
    { "`crypto.sha256` of 100 MB", function() crypto.sha256(long) end },
    { "a template with 10,000 rows", function() views:render_string(source, { rows = rows }) end },
    { "`table.sort` of a million numbers", function() table.sort(numbers) end, function()
      for i = 1, MEGABYTE do numbers[i] = i * 7919 % 1000003 end
    end },
  }, folder
end

-- Returns the longest CPU time of this thread, in milliseconds, between two turns of another task while `f` runs.
local function hold(f)
  local longest, running = 0, true
  loop.fork(function()
    local before = os.clock()
    while running do
      loop.sleep(0)
      local now = os.clock()
      longest, before = math.max(longest, now - before), now
    end
  end)
  loop.sleep(0)
  f()
  running = false
  loop.sleep(0)
  return longest * 1000
end

loop.run(function()
  local operations, folder = prepare()
  local _ <close> = setmetatable({}, { __close = function() os.execute("rm -rf " .. folder) end })
  print "| operation | ms |\n|---|---|"
  for _, operation in ipairs(operations) do
    local name, f, before = table.unpack(operation)
    local best = math.huge
    for _ = 1, 3 do
      if before then before() end
      collectgarbage()
      best = math.min(best, hold(f))
    end
    print(("| %s | %.1f |"):format(name, best))
  end
end)
