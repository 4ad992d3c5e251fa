-- Draws the samples of a soak: `lua tests/soak/plot.lua FILE.tsv FILE.svg`, or plot.write. Needs only Lua. One SVG with
-- six panels, each with axes and units.

if not package.loaded.samples then
  local here = arg[0]:match "^(.*)/" or "."
  package.path = here .. "/?.lua;" .. package.path
end
local samples = require "samples"

local M = {}

local WIDTH <const>, HEIGHT <const> = 380, 200 -- of a panel
local LEFT <const>, TOP <const>, RIGHT <const>, BOTTOM <const> = 52, 30, 12, 34 -- the margins around a panel's axes
local MIB <const> = 1024 -- KiB

-- A panel: its title with the unit, the phases that it shows, the column, and what to divide its values by.
local PANELS <const> = {
  { title = "Resident memory during the load, MiB", phases = { "load" }, column = "rss_kib", unit = MIB },
  { title = "Descriptors", phases = { "load" }, column = "descriptors" },
  { title = "Threads", phases = { "load" }, column = "threads" },
  { title = "99th percentile of the latency, ms", phases = { "load" }, column = "p99_ms" },
  { title = "Operations a second", phases = { "load" }, column = "operations_per_s" },
  {
    title = "Resident memory around the burst, MiB", phases = { "idle", "burst", "after" }, column = "rss_kib",
    unit = MIB,
  },
}

-- Returns the step between the lines of an axis up to `most`: 1, 2 or 5 times a power of ten; at most five steps.
local function step_of(most)
  local power = 10 ^ math.floor(math.log(most / 5, 10))
  for _, factor in ipairs { 1, 2, 5, 10 } do
    if most / (factor * power) <= 5 then return factor * power end
  end
end

-- Returns the points { seconds, value } of a panel. Its time begins with its first sample.
local function points_of(list, panel)
  local points, shown = {}, {}
  for _, phase in ipairs(panel.phases) do shown[phase] = true end
  local began
  for _, sample in ipairs(list) do
    if shown[sample.phase] and sample[panel.column] then
      began = began or (panel.phases[1] == "load" and 0 or sample.seconds)
      points[#points + 1] = { sample.seconds - began, sample[panel.column] / (panel.unit or 1) }
    end
  end
  return points
end

local function number(value) return (("%.1f"):format(value):gsub("%.0$", "")) end

local function text(x, y, anchor, content, class)
  return ('<text x="%s" y="%s" text-anchor="%s"%s>%s</text>'):format(number(x), number(y), anchor,
    class and ' class="' .. class .. '"' or "", content)
end

-- Draws a panel whose upper left corner is at x, y.
local function draw(out, list, panel, x, y)
  local points = points_of(list, panel)
  out[#out + 1] = text(x + LEFT, y + 18, "start", panel.title, "title")
  if #points == 0 then return end
  local last, most = math.max(points[#points][1], 1), 1
  for _, point in ipairs(points) do most = math.max(most, point[2]) end
  local step, time_step = step_of(most), last >= 600 and 300 or step_of(last)
  local top = math.ceil(most / step) * step
  local left, bottom = x + LEFT, y + HEIGHT - BOTTOM
  local width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
  for i = 0, math.floor(top / step + 0.5) do
    local at = bottom - i * step / top * height
    out[#out + 1] = ('<path class="grid" d="M%s %sh%s"/>'):format(number(left), number(at), number(width))
    out[#out + 1] = text(left - 6, at + 4, "end", ("%g"):format(i * step))
  end
  for i = 0, math.floor(last / time_step) do
    local at = left + i * time_step / last * width
    local label = last >= 600 and ("%g min"):format(i * time_step / 60) or ("%g s"):format(i * time_step)
    out[#out + 1] = ('<path class="grid" d="M%s %sv4"/>'):format(number(at), number(bottom))
    out[#out + 1] = text(at, bottom + 18, "middle", label)
  end
  local line = {}
  for i, point in ipairs(points) do
    line[i] = number(left + point[1] / last * width) .. "," .. number(bottom - point[2] / top * height)
  end
  out[#out + 1] = ('<polyline points="%s"/>'):format(table.concat(line, " "))
end

--- Reads the samples in the file `tsv`, and writes their plot to the file `svg`.
function M.write(tsv, svg)
  local list = samples.load(tsv)
  local columns = 2
  local rows = math.ceil(#PANELS / columns)
  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">'):format(
      columns * WIDTH, rows * HEIGHT),
    "<title>A server of lio under load: memory, descriptors, threads, latency, operations, a burst</title>",
    "<style>text{fill:#444}.title{font-size:12px;font-weight:bold;fill:#222}.grid{stroke:#ddd;fill:none}"
      .. "polyline{stroke:#1f5fa8;stroke-width:1.2;fill:none;stroke-linejoin:round}</style>",
    '<rect width="100%" height="100%" fill="#fff"/>',
  }
  for i, panel in ipairs(PANELS) do
    draw(out, list, panel, (i - 1) % columns * WIDTH, (i - 1) // columns * HEIGHT)
  end
  out[#out + 1] = "</svg>\n"
  local file <close> = assert(io.open(svg, "w"))
  file:write(table.concat(out, "\n"))
end

if arg[0]:find "plot%.lua$" then M.write(assert(arg[1], "usage: plot.lua FILE.tsv FILE.svg"), arg[2]) end

return M
