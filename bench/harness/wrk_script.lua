-- wrk runs this file in its Lua 5.1. It defines the requests, and prints the results that wrk.lua reads. Options follow
-- `--` on wrk's command line: pipeline=N sends N requests together, body=N sends a POST of N bytes, and close=true uses
-- one connection per request.

-- luacheck: std luajit, globals wrk init request done

function init(args)
  local given = {}
  for _, word in ipairs(args) do
    local name, value = word:match "^(%w+)=(%w+)$"
    given[name] = value
  end
  if given.body then
    wrk.method, wrk.body = "POST", ("x"):rep(tonumber(given.body))
    wrk.headers["Content-Type"] = "application/octet-stream"
  end
  if given.close then wrk.headers["Connection"] = "close" end
  if given.pipeline then
    local together = wrk.format():rep(tonumber(given.pipeline))
    -- Defined only for pipelines, because wrk calls this function for each request, which costs the client time.
    request = function() return together end
  end
end

function done(summary, latency, _)
  local function figure(name, value) io.write(name, "\t", ("%.9g"):format(value), "\n") end
  io.write "\n"
  figure("requests", summary.requests)
  figure("rate", summary.requests / (summary.duration / 1e6))
  for name, share in pairs { p50 = 50, p75 = 75, p90 = 90, p99 = 99, p999 = 99.9 } do
    figure(name, latency:percentile(share) / 1000)
  end
  figure("max", latency.max / 1000)
  for name, count in pairs(summary.errors) do figure("errors_" .. name, count) end
end
