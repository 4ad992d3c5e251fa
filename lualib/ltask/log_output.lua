-- Writes the log: errors to standard error, other entries to standard output; or all entries to a file. Used by the
-- logger, and by `ltask.start` for the remaining entries when the logger has ended.

-- Writes an entry as `[time][LEVEL](id label) text`. `time` is in centiseconds since the epoch; `label` may be nil.
local function write(file, time, id, label, level, ...)
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
  if file or level ~= "error" then
    (file or io.stdout):write(line)
    return
  end
  -- If both streams lead to one file, the lines keep their order.
  io.stdout:flush()
  io.stderr:write(line)
end

-- `write_all(poplog, unpack_remove[, file])`: takes all entries from the log, and writes them. The functions are those
-- of `ltask.core` and `ltask`, or those of `ltask.bootstrap`. `file`: the file that gets all entries.
return function(poplog, unpack_remove, file)
  local time, id, label, pointer, size = poplog()
  if not time then return end
  repeat
    write(file, time, id, label, unpack_remove(pointer, size))
    time, id, label, pointer, size = poplog()
  until not time
  file = file or io.stdout
  file:flush()
end
