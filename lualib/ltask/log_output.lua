-- Writes the log: errors to standard error, other entries to standard output. Used by the logger, and by `ltask.start`
-- for the remaining entries when the logger has ended.

-- Writes an entry as `[time][LEVEL](id label) text`. `time` is in centiseconds since the epoch; `label` may be nil.
local function write(time, id, label, level, ...)
  local text = {}
  for i = 1, select("#", ...) do text[i] = tostring((select(i, ...))) end
  local line = ("[%s.%02d][%s](%d%s) %s\n"):format(
    os.date("%Y-%m-%d %H:%M:%S", time // 100),
    time % 100,
    tostring(level):upper(),
    id,
    label and " " .. label or "",
    table.concat(text, "\t")
  )
  if level ~= "error" then
    io.stdout:write(line)
    return
  end
  -- If both streams lead to one file, the lines keep their order.
  io.stdout:flush()
  io.stderr:write(line)
end

-- `write_all(poplog, unpack_remove)`: takes all entries from the log, and writes them. The functions are those of
-- `ltask.core` and `ltask`, or those of `ltask.bootstrap`.
return function(poplog, unpack_remove)
  local time, id, label, pointer, size = poplog()
  if not time then return end
  repeat
    write(time, id, label, unpack_remove(pointer, size))
    time, id, label, pointer, size = poplog()
  until not time
  io.stdout:flush()
end
