-- How a line of the log looks; used by the logger, and by `ltask.start` for what was said after its end.

-- Writes one entry. `time` in centiseconds since the epoch; `label` may be nil.
return function(time, id, label, level, ...)
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
  local file = level == "error" and io.stderr or io.stdout
  file:write(line)
end
