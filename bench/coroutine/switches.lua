-- Cases without waits. child.lua calls each case as `f(co, n)`: `co` is the coroutine library, Lua's or lio's, and `n`
-- is the number of repetitions. A case returns the nanoseconds of CPU per repetition.

local M = {}

-- Calls `f(n)`, which repeats an operation `n` times. Returns the nanoseconds of CPU per repetition.
function M.timed(n, f)
  local start = os.clock()
  f(n)
  return (os.clock() - start) / n * 1e9
end

-- Calls `f` inside `depth` new nested coroutines. Returns the results of `f`.
function M.nested(co, depth, f)
  if depth == 0 then return f() end
  return co.wrap(M.nested)(co, depth - 1, f)
end

function M.resume(co, n)
  local resume, yield = co.resume, co.yield
  local other = co.create(function() while true do yield() end end)
  resume(other)
  return M.timed(n, function(times)
    for _ = 1, times do resume(other) end
  end)
end

function M.wrap(co, n)
  local yield = co.yield
  local other = co.wrap(function() while true do yield() end end)
  other()
  return M.timed(n, function(times)
    for _ = 1, times do other() end
  end)
end

-- Passes three arguments to a resume, and three values to a yield.
function M.values(co, n)
  local resume, yield = co.resume, co.yield
  local other = co.create(function(a, b, c) while true do a, b, c = yield(a, b, c) end end)
  resume(other)
  return M.timed(n, function(times)
    for i = 1, times do resume(other, i, i, i) end
  end)
end

function M.resume3(co, n)
  return M.nested(co, 3, function() return M.resume(co, n) end)
end

function M.wrap3(co, n)
  return M.nested(co, 3, function() return M.wrap(co, n) end)
end

-- Takes an item from a generator in a `for` loop.
function M.items(co, n)
  local yield = co.yield
  return M.timed(n, function(times)
    for _ in co.wrap(function() for i = 1, times do yield(i) end end) do end
  end)
end

-- Creates a coroutine that ends at once.
function M.create(co, n)
  local create, resume = co.create, co.resume
  local function ended() end
  return M.timed(n, function(times)
    for _ = 1, times do resume(create(ended)) end
  end)
end

-- Creates a coroutine that yields once, and resumes it to its end.
function M.create_yield(co, n)
  local create, resume = co.create, co.resume
  return M.timed(n, function(times)
    for _ = 1, times do
      local other = create(co.yield)
      resume(other)
      resume(other)
    end
  end)
end

-- Creates ten coroutines that yield once, and then resumes each of them to its end.
function M.create_ten(co, n)
  local create, resume = co.create, co.resume
  return M.timed(n, function(times)
    for _ = 1, times do
      local list = {}
      for i = 1, 10 do
        list[i] = create(co.yield)
        resume(list[i])
      end
      for i = 1, 10 do resume(list[i]) end
    end
  end)
end

-- Creates ten coroutines that yield once, and then closes each of them.
function M.close_ten(co, n)
  local create, resume, close = co.create, co.resume, co.close
  return M.timed(n, function(times)
    for _ = 1, times do
      local list = {}
      for i = 1, 10 do
        list[i] = create(co.yield)
        resume(list[i])
      end
      for i = 1, 10 do close(list[i]) end
    end
  end)
end

-- Creates ten nested coroutines, each of which ends at once.
function M.chain(co, n)
  local function ended() end
  return M.timed(n, function(times)
    for _ = 1, times do M.nested(co, 10, ended) end
  end)
end

return M
